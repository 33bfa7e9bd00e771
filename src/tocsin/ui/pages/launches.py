"""The page: launches, the newest first."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlencode

from litestar import Request, Response
from litestar.params import QueryParameter

from tocsin.api.door.access import WhoAsks
from tocsin.api.service import Given, Service, moment_of, seconds_of
from tocsin.errors import InvalidInput
from tocsin.model.activity import LATE_MS
from tocsin.model.ids import ID_LENGTH_MAX
from tocsin.model.launch import CLOSED_FROM, LaunchState, LaunchView
from tocsin.model.token import Caller
from tocsin.state import newest
from tocsin.state.newest import OPEN, TROUBLE, Wanted
from tocsin.state.rows import Found
from tocsin.ui.answer import page, render

PER_PAGE = 50
_EACH = {state.name.lower(): frozenset({state}) for state in LaunchState}
STATES = {"trouble": TROUBLE, "open": OPEN, **_EACH}
"""What can be asked for: each state, and two families of them."""
_WORDS = {"trouble": "failed or in doubt", "open": "open: not ended yet"}
_FIRST = ("trouble", "failed", "in_doubt", "open", "skipped")
_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+/-]*")
_LATER = re.compile(r"[0-9]+ ?(min|h|d)")
_UNITS_S = {"min": 60, "h": 3_600, "d": 86_400}


class Asked(NamedTuple):
    """What a person filled in, and what is wrong with it."""

    state: str
    schedule: str
    since: str
    until: str
    problem: str = ""


class Line(NamedTuple):
    """A launch in the list."""

    view: LaunchView
    kind: str
    took_s: float | None
    is_open: bool
    is_late: bool


@page("/launches")
async def launches(
    request: Request[Any, Any, Any],
    service: Given,
    caller: WhoAsks,
    launch_state: Annotated[str, QueryParameter(name="state")] = "",
    schedule: Annotated[str, QueryParameter()] = "",
    since: Annotated[str, QueryParameter()] = "",
    until: Annotated[str, QueryParameter()] = "",
    after: Annotated[str, QueryParameter()] = "",
    part: Annotated[str, QueryParameter()] = "",
) -> Response[Any]:
    """All that hold what was filled in; by ``part`` only the list."""
    asked = Asked(launch_state, schedule.strip()[:ID_LENGTH_MAX], since.strip()[:40], until.strip()[:40])
    try:
        wanted = await _wanted(service, caller, asked)
        found = await service.replica.read(newest.page, wanted, after, PER_PAGE)
    except InvalidInput as wrong:
        asked = asked._replace(problem=f"{wrong.message}. Allowed: {wrong.allowed}")
        found = Found([], "", 0)
    values: dict[str, Any] = {
        "asked": asked,
        "lines": [_line(view, service.now_ms()) for view in found.items],
        "found": found,
        "after": after,
        "more": _address(asked, found.after) if found.after else "",
        "first": _address(asked, ""),
        "has_filter": any(asked),
    }
    if part:
        return render("parts/launch_results.html", request, service, caller, **values)
    states = [*_FIRST, *(state for state in STATES if state not in _FIRST)]
    words = {state: _WORDS.get(state, state.replace("_", " ")) for state in states}
    return render("launches.html", request, service, caller, **values, states=words)


HANDLERS = (launches,)


async def _wanted(service: Service, caller: Caller, asked: Asked) -> Wanted:
    named = [state for state in asked.state.split(",") if state]
    for state in named:
        if state not in STATES:
            raise InvalidInput(
                f"there is no state {state[:40]!r}", field="state", value=state, allowed=", ".join(STATES)
            )
    if asked.schedule and not _PREFIX.fullmatch(asked.schedule):
        raise InvalidInput(
            f"no id begins with {asked.schedule[:40]!r}",
            field="schedule",
            value=asked.schedule,
            allowed="letters, digits and . _ @ + - /",
        )
    is_id = bool(asked.schedule) and await service.replica.read(newest.is_known, asked.schedule)
    return Wanted(
        schedule=asked.schedule if is_id else "",
        prefix="" if is_id else asked.schedule,
        states=frozenset[LaunchState]().union(*(STATES[state] for state in named)),
        since_ms=_moment_ms(asked.since, "since", 0, service),
        until_ms=_moment_ms(asked.until, "until", Wanted().until_ms, service),
        within=caller.prefixes,
    )


def _moment_ms(text: str, field: str, default: int, service: Service) -> int:
    """A moment; ``2 h`` and the like: so long ago. What a browser's field gives has no offset: that is UTC."""
    if not text:
        return default
    if _LATER.fullmatch(text):
        number, unit = re.findall(r"[0-9]+|[a-z]+", text)
        return max(0, service.now_ms() - min(int(number), 10**6) * _UNITS_S[unit] * 1000)
    if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2})?)?", text):
        text = datetime.fromisoformat(text).replace(tzinfo=UTC).isoformat()
    return seconds_of(moment_of(text, field)) * 1000


def _line(view: LaunchView, now_ms: int) -> Line:
    is_open = LaunchState[view.state.upper()] < CLOSED_FROM
    began, ended_ms = view.started_at, view.ended_at.timestamp() * 1000 if view.ended_at else now_ms
    took_s = None if began is None or is_open else max(0.0, ended_ms / 1000 - began.timestamp())
    is_missed = view.state == "skipped" and view.reason.startswith("missed:")
    return Line(
        view, "missed" if is_missed else view.state, took_s, is_open, (view.lateness_ms or 0) > LATE_MS
    )


def _address(asked: Asked, after: str) -> str:
    given = {
        "state": asked.state,
        "schedule": asked.schedule,
        "since": asked.since,
        "until": asked.until,
        "after": after,
    }
    query = urlencode({name: value for name, value in given.items() if value})
    return f"/launches?{query}" if query else "/launches"
