"""The wall clock: look at it, confirm it, and repair next instants that were computed under a wrong one."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from typing import Any, NamedTuple

from litestar import Request, get, post

from tocsin.api import bodies
from tocsin.api.description.about import about
from tocsin.api.door.access import WhoAsks
from tocsin.api.service import Given, Service, moment_of
from tocsin.model.clock import ClockView, ConfirmClockRequest, RepairDueRequest, RepairedView, RepairView
from tocsin.model.cluster import PeerStatus
from tocsin.model.command import ConfirmClock, RepairDue
from tocsin.model.token import Caller
from tocsin.replica.prepare import Repair, repairs
from tocsin.state import queries

LOOKED_AT_ONCE = 2_000
"""So many schedules one request looks at: whoever asks goes on with the next ones."""
REPAIRED_AT_ONCE = 500
"""So many go into one entry."""
SHOWN_MAX = 100


@get(
    "/v1/clock",
    operation_id="getClock",
    opt=about("service", "The wall clock", answers={200: ("The clock of whoever leads.", ClockView)}),
)
async def get_clock(service: Given) -> ClockView:
    """Is the wall clock of the leader believed? If it is not, nothing that depends on time is decided."""
    return await _seen(service)


@post(
    "/v1/clock:confirm",
    operation_id="confirmClock",
    status_code=200,
    opt=about(
        "service",
        "Confirm the wall clock",
        body=ConfirmClockRequest,
        example={"now": "2026-01-01T00:00:00Z"},
        answers={200: ("The clock, which is believed now.", ClockView)},
        refusals={409: "It is believed already, or it shows another time."},
    ),
)
async def confirm_clock(request: Request[Any, Any, Any], service: Given, caller: WhoAsks) -> ClockView:
    """The leader's wall clock is right, though it has stepped or is far from the last entry: launching goes on by it.
    ``now`` is what it showed: another time is refused, so that nobody confirms what they have not seen."""
    wish = await bodies.taken(request, bodies.json_of, ConfirmClockRequest)
    now_ms = round(moment_of(wish.now, "now").timestamp() * 1000)
    await service.propose(caller, ConfirmClock(now_ms))
    return await _seen(service)


@post(
    "/v1/due:repair",
    operation_id="repairDue",
    status_code=200,
    opt=about(
        "service",
        "Compute next instants anew",
        body=RepairDueRequest,
        body_is_optional=True,
        example={"prefix": "billing/", "preview": True},
        answers={200: ("Which schedules had a next instant that was too late.", RepairView)},
        refusals={503: "The wall clock is not believed."},
    ),
)
async def repair_due(request: Request[Any, Any, Any], service: Given, caller: WhoAsks) -> RepairView:
    """After the clock was ahead and was put back: schedules whose next instant was computed under it get the one that
    they should have, not before now and never one that was launched. A request looks at some thousand schedules in the
    order of their ids; ``after`` of its answer asks for the next ones. With ``preview`` only tell."""
    wish = await bodies.taken(request, bodies.optional, RepairDueRequest)
    found = await service.replica.read(_look, wish, caller, service.now_ms())
    is_last = found.is_all and not wish.prefix and caller.reaches_all
    if not wish.preview:
        ids = [repair.id for repair in found.repairs]
        for start in range(0, len(ids), REPAIRED_AT_ONCE):
            await service.propose(caller, RepairDue(ids[start : start + REPAIRED_AT_ONCE]))
        if is_last:
            await service.propose(caller, RepairDue([], is_last=True))
    return RepairView(
        preview=wish.preview,
        looked_at=found.looked_at,
        repaired=len(found.repairs),
        items=[_told(repair) for repair in found.repairs[:SHOWN_MAX]],
        after="" if found.is_all else found.last,
    )


HANDLERS = (get_clock, confirm_clock, repair_due)


class _Found(NamedTuple):
    repairs: list[Repair]
    looked_at: int
    last: str
    is_all: bool


def _look(db: sqlite3.Connection, wish: RepairDueRequest, caller: Caller, now_ms: int) -> _Found:
    ids = queries.ids_behind(db, wish.after, wish.prefix, LOOKED_AT_ONCE)
    reached = [id for id in ids if caller.reaches(id)]
    is_all = len(ids) < LOOKED_AT_ONCE
    return _Found(repairs(db, reached, now_ms), len(reached), ids[-1] if ids else "", is_all)


async def _seen(service: Service) -> ClockView:
    replica = service.replica
    told: PeerStatus | None = replica.status()
    if told is not None and told.role != "leader" and told.leader:
        told = (await replica.parts.rounds.look()).statuses.get(told.leader)
    is_leader = told is not None and told.role == "leader"
    if told is None:
        told = replica.status()
    meta = replica.meta
    return ClockView(
        leader=told.name if is_leader else "",
        is_believed=told.clock_step_ms == 0,
        state=told.clock,
        shows=_moment(told.wall_ms),
        believed=_moment(told.wall_ms - told.clock_step_ms),
        step_s=round(told.clock_step_ms / 1000),
        ahead_until=_moment(meta.ahead_until_ms) if meta.is_due_ahead else None,
    )


def _told(repair: Repair) -> RepairedView:
    was = None if repair.from_s is None else _moment(repair.from_s * 1000)
    return RepairedView(schedule=repair.id, was=was, next=_moment(repair.to.instant_s * 1000))


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
