"""What is to be expected of a schedule, and why it did what it did: upcoming, why."""

from __future__ import annotations

import sqlite3
from typing import Annotated, Any
from urllib.parse import unquote

import msgspec
from litestar import get
from litestar.params import FromPath, QueryParameter

from tocsin.api import query
from tocsin.api.description.about import about
from tocsin.api.resources.limits import waits_for
from tocsin.api.service import Given, Service, moment_of, seconds_of
from tocsin.decide import why
from tocsin.decide.timeline import plan
from tocsin.errors import InvalidInput, NotFound
from tocsin.model.answer import UpcomingView, WhyView
from tocsin.model.rule import encode_rule
from tocsin.model.schedule import ScheduleView
from tocsin.state import facts, past, views


@get(
    "/v1/schedules/{id:str}/upcoming",
    operation_id="upcoming",
    opt=about(
        "schedules",
        "The next instants of a schedule",
        answers={200: ("The instants, the next one first.", UpcomingView)},
        refusals={404: "There is no such schedule."},
    ),
)
async def upcoming(
    service: Given,
    id: FromPath[str],
    count: Annotated[int, QueryParameter(ge=1, le=1000, description="How many instants.")] = 10,
    after: Annotated[
        str | None, query.moment("The instants after this moment; by default after now.")
    ] = None,
) -> UpcomingView:
    """The instants after a moment, by default after now. A paused schedule has them too, but none is launched."""
    moment_s = service.now_ms() // 1000 if after is None else seconds_of(moment_of(after, "after"))
    return await service.replica.read(_upcoming, unquote(id), moment_s, count)


@get(
    "/v1/schedules/{id:str}/why",
    operation_id="why",
    opt=about(
        "schedules",
        "Why it was launched, or why not",
        answers={200: ("The answer in words, and the launches of that instant.", WhyView)},
        refusals={404: "There is no such schedule, and no record that there was."},
    ),
)
async def why_launched(
    service: Given,
    id: FromPath[str],
    at: Annotated[str | None, query.moment("The instant; by default the last one before now.")] = None,
) -> WhyView:
    """For any instant, past or to come: what was launched, what was skipped and why, or why there was nothing to
    launch."""
    return await answer_why(service, unquote(id), None if at is None else seconds_of(moment_of(at, "at")))


HANDLERS = (upcoming, why_launched)


async def answer_why(service: Service, id: str, instant_s: int | None) -> WhyView:
    """Of the last instant before now, if none is named."""
    view: WhyView
    view, spec = await service.replica.read(_why, id, instant_s, service.now_ms(), service.history_age_ms)
    limit = waits_for(service, spec) if spec is not None else ""
    if limit:
        view = msgspec.structs.replace(view, answer=f"{view.answer} It waits: the limit {limit} is reached.")
    return view


def _upcoming(db: sqlite3.Connection, id: str, after_s: int, count: int) -> UpcomingView:
    view = views.schedule(db, id)
    settled = plan(view.resolved, view.timezone, encode_rule(view.rule()))
    instants: list[int] = []
    found: int | None = after_s
    while len(instants) < count and found is not None:
        found = settled.next_instant(found)
        if found is not None:
            instants.append(found)
    return UpcomingView(
        schedule=view.id,
        timezone=view.timezone,
        resolved=view.resolved,
        enabled=view.enabled,
        items=[moment_of(str(instant), "after") for instant in instants],
    )


def _why(
    db: sqlite3.Connection, id: str, instant_s: int | None, now_ms: int, history_age_ms: int
) -> tuple[WhyView, bytes | None]:
    """And its schedule, if something of that instant is due and has not been started."""
    if instant_s is None:
        instant_s = _last_instant(views.schedule(db, id), now_ms // 1000)
    gathered = facts.gather(db, id, instant_s)
    if gathered.first_known_ms is None and not gathered.launches:
        raise NotFound(
            f"there is no schedule {id!r}, and no record that there was", hint="'tocsin list' shows all"
        )
    in_force = gathered.in_force
    known = gathered._replace(in_force=None if in_force is None else why.InForce(*in_force))
    told: Any = (id, instant_s, now_ms, *known, history_age_ms, past.lost_until_ms(db, now_ms))
    answer = why.explain(why.Facts(*told))
    at = moment_of(str(instant_s), "at")
    view = WhyView(schedule=id, at=at, answer=answer, launches=gathered.launches)
    return view, facts.overdue_spec(db, id, instant_s, now_ms)


def _last_instant(view: ScheduleView, now_s: int) -> int:
    settled = plan(view.resolved, view.timezone, encode_rule(view.rule()))
    found = settled.expression.previous_unix(now_s + 1)
    if found is None:
        raise InvalidInput(
            f"the schedule {view.id!r} has had no occurrence yet", field="at", value="", allowed="an instant"
        )
    return found
