"""Where a request goes. Ids contain slashes, launch names contain ids, and verbs are a colon suffix::

    /v1/schedules/billing/payroll          the schedule "billing/payroll"
    /v1/schedules/billing%2Fpayroll:pause  the same schedule, paused

No router understands that, so it is taken apart here, and the router is given one segment for the id and one
for the verb (which nobody can write themselves: from outside, all that follows ``/v1/schedules/`` is the id).
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

from tocsin.api.problems import HttpRefusal
from tocsin.model.ids import check_id, parse_launch_name

SCHEDULE_VERBS = ("pause", "resume", "run", "backfill", "restore", "versions", "upcoming", "why")
LAUNCH_VERBS = ("output", "cancel", "resolve")
PAGE_VERBS = ("edit", "part")
SCHEDULES = "/v1/schedules/"
LAUNCHES = "/v1/launches/"


def routed(path: str) -> str:
    """The path for the router. Ids and names in it have been checked: handlers rely on that."""
    for prefix, verbs, checked in (
        (SCHEDULES, SCHEDULE_VERBS, check_id),
        (LAUNCHES, LAUNCH_VERBS, _check_name),
        ("/schedules/", PAGE_VERBS, check_id),
        ("/launches/", PAGE_VERBS, _check_name),
    ):
        if path.startswith(prefix) and len(path) > len(prefix):
            return prefix + _segments(path[len(prefix) :], verbs, checked)
    if "//" in path:
        # The router would take two slashes for one and find an id in there that nobody has checked.
        raise HttpRefusal(404, f"there is nothing at {path[:100]!r}")
    return path


def written(prefix: str, name: str) -> str:
    """The address of a schedule or a launch, as others may call it."""
    return prefix + quote(name, safe="/@+")


def _segments(rest: str, verbs: tuple[str, ...], checked: Callable[[str], object]) -> str:
    name, colon, verb = rest.partition(":")
    checked(name)
    if not colon:
        return quote(name, safe="")
    if verb not in verbs:
        raise HttpRefusal(404, f"there is no verb {verb[:60]!r}", hint=f"there are {', '.join(verbs)}")
    return f"{quote(name, safe='')}/{verb}"


def _check_name(name: str) -> None:
    check_id(parse_launch_name(name).schedule, field="name")
