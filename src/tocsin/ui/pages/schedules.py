"""The page: schedules. Searched as one types; what is ticked is then paused, resumed, run, labelled or deleted.

The answer to a key that was pressed is a part of the page (``part``), made by the same template: whoever opens the
address that it led to sees the same.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlencode

from litestar import Request, Response
from litestar.params import QueryParameter
from markupsafe import Markup

from tocsin.api.door.access import WhoAsks
from tocsin.api.service import Given, Service
from tocsin.model.ids import ID_LENGTH_MAX
from tocsin.model.schedule import ScheduleView
from tocsin.model.target import KINDS, ExecTarget, HttpTarget, KafkaTarget, NatsTarget
from tocsin.model.token import OPERATE, WRITE, Caller
from tocsin.state import rows
from tocsin.state.rows import Found, Search
from tocsin.ui.answer import HEADERS, page, render
from tocsin.ui.charts.squares import EACH, squares, symbols
from tocsin.ui.searching import ORDERS, STATES, Sought, understood

PER_PAGE = 50
IDS_AT_ONCE = 2_000
TROUBLE_FOR_MS = 86_400_000
"""What failed longer ago has been seen, or does not matter."""
_TEXT_LENGTH_MAX = 1_000
_WORDS_LENGTH_MAX = 60
_ORDER_WORDS = {"id": "Id, A to Z", "-id": "Id, Z to A", "next": "Next instant, soonest first"}
_AFTER = re.compile(r"[A-Za-z0-9._@+/-]*")
_PLACE = re.compile(r"[0-9]{1,18}\.[0-9]{1,18}")


class Line(NamedTuple):
    """A schedule in the list."""

    sid: int
    view: ScheduleView
    kind: str
    target: str
    squares: Markup


@page("/schedules")
async def schedules(
    request: Request[Any, Any, Any],
    service: Given,
    caller: WhoAsks,
    q: Annotated[str, QueryParameter()] = "",
    sort: Annotated[str, QueryParameter()] = "id",
    after: Annotated[str, QueryParameter()] = "",
    part: Annotated[str, QueryParameter()] = "",
    sids: Annotated[str, QueryParameter()] = "",
) -> Response[Any]:
    """The whole page; or, by ``part``, the results of a search, some rows again, or just ids."""
    order = sort if sort in ORDERS else "id"
    text = q[:_TEXT_LENGTH_MAX]
    sought = understood(text, caller.prefixes, service.now_ms() - TROUBLE_FOR_MS)
    if order == "next" and sought.search.enabled is False:
        order = "id"  # a paused one has no next instant
    after = _known(after[:ID_LENGTH_MAX], order)
    if part == "ids":
        return await _only_ids(service, sought, after)
    if part == "rows":
        numbers = [int(sid) for sid in re.findall(r"[0-9]{1,18}", sids)[: 2 * PER_PAGE]]
        items = [row for row in await service.replica.read(rows.of, numbers) if caller.reaches(row.view.id)]
        lines = await _lines(service, items)
        return render("parts/schedule_rows.html", request, service, caller, lines=lines, may_act=_may(caller))
    found, is_elsewhere = await _found(service, sought, order, after)
    values: dict[str, Any] = {
        "q": text,
        "sort": order,
        "after": after,
        "sought": sought,
        "lines": await _lines(service, found.items),
        "found": found,
        "is_elsewhere": is_elsewhere,
        "held": await service.replica.read(rows.held) if caller.reaches_all else None,
        # Where it goes on it is already known that no id begins so.
        "more": _address("*" * is_elsewhere + text.lstrip(), order, found.after) if found.after else "",
        "first": _address(text, order, ""),
        "may_act": _may(caller),
    }
    if part:
        return render("parts/schedule_results.html", request, service, caller, **values)
    choices: dict[str, Any] = {"kinds": KINDS, "states": STATES, "orders": _ORDER_WORDS, "symbols": symbols()}
    return render("schedules.html", request, service, caller, **values, **choices)


HANDLERS = (schedules,)


async def _found(service: Service, sought: Sought, order: str, after: str) -> tuple[Found, bool]:
    """What begins so; and if nothing does, what has it somewhere (True)."""
    if sought.problem:
        return Found([], "", 0), False
    search = sought.search
    found = await service.replica.read(rows.page, search, order, after, PER_PAGE)
    if found.items or found.after or after or not search.prefix:
        return found, False
    if await _begins(service, search):
        return found, False
    return await service.replica.read(rows.page, _anywhere(search), order, after, PER_PAGE), True


async def _begins(service: Service, search: Search) -> bool:
    """Does any id begin so, whatever else is wanted of it?"""
    some = await service.replica.read(rows.ids, Search(search.prefix, within=search.within), "", 1)
    return bool(some.items)


def _anywhere(search: Search) -> Search:
    return search._replace(prefix="", contains=(search.prefix.lower(), *search.contains))


async def _only_ids(service: Service, sought: Sought, after: str) -> Response[Any]:
    """For whoever wants all that match: their ids, part by part."""
    search = sought.search
    if search.prefix and not await _begins(service, search):
        search = _anywhere(search)
    none = Found([], "", 0)
    found = none if sought.problem else await service.replica.read(rows.ids, search, after, IDS_AT_ONCE)
    return Response({"ids": found.items, "after": found.after}, headers=HEADERS)


async def _lines(service: Service, items: list[rows.Row]) -> list[Line]:
    known = await service.replica.read(rows.outcomes, [row.sid for row in items], EACH)
    return [
        Line(row.sid, row.view, *_target(row.view), squares(row.view.id, known[row.sid])) for row in items
    ]


def _target(view: ScheduleView) -> tuple[str, str]:
    """Its kind, and where it goes in a few words."""
    match view.target:
        case ExecTarget(argv=argv, shell=shell):
            kind, words = "exec", shell if shell is not None else " ".join(argv or ())
        case HttpTarget(url=url, method=method):
            kind, words = "http", f"{method} {url}"
        case KafkaTarget(topic=topic):
            kind, words = "kafka", topic
        case NatsTarget(subject=subject):
            kind, words = "nats", subject
        case _:
            kind, words = "null", "does nothing"
    words = "".join(letter if letter.isprintable() else " " for letter in words)
    return kind, words if len(words) <= _WORDS_LENGTH_MAX else words[: _WORDS_LENGTH_MAX - 1] + "…"


def _may(caller: Caller) -> bool:
    return caller.may(OPERATE) or caller.may(WRITE)


def _known(after: str, order: str) -> str:
    """A place in this list; of another one: its beginning."""
    return after if (_PLACE if order == "next" else _AFTER).fullmatch(after) else ""


def _address(q: str, sort: str, after: str) -> str:
    given = {"q": q, "sort": sort if sort != "id" else "", "after": after}
    query = urlencode({name: value for name, value in given.items() if value})
    return f"/schedules?{query}" if query else "/schedules"
