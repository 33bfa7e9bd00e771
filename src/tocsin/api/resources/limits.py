"""Limits, and what waits for them. Only the leader counts; the others tell what they last heard of it."""

from __future__ import annotations

import msgspec
from litestar import get

from tocsin.api.description.about import about
from tocsin.api.door.access import WhoAsks
from tocsin.api.service import Given, Service
from tocsin.model.cluster import PeerStatus
from tocsin.model.limit import LimitsView


@get(
    "/v1/limits",
    operation_id="limits",
    opt=about(
        "service",
        "Limits of rate and concurrency",
        answers={200: ("Each limit, and how it stands.", LimitsView)},
    ),
)
async def limits(service: Given, caller: WhoAsks) -> LimitsView:
    """The limits that the service was given, how fast launches start under each, how many are under way and how many
    wait. Values of labels are shown to who may see all schedules."""
    parts = service.replica.parts
    told: PeerStatus | None = service.replica.status()
    if parts.limits and told is not None and told.role != "leader":
        told = (await parts.rounds.look()).statuses.get(told.leader)
    if told is None or told.role != "leader":
        return LimitsView(leader="", items=parts.limits.views())
    items = told.limits
    if not caller.reaches_all:
        items = [msgspec.structs.replace(item, values=[]) for item in items]
    return LimitsView(leader=told.name, items=items)


HANDLERS = (limits,)


def waits_for(service: Service, spec: bytes) -> str:
    """The limit that keeps what is due of this schedule waiting; empty: none, as far as is known here."""
    parts, own = service.replica.parts, service.replica.status()
    if own.role == "leader":
        return parts.limits.waits_for(spec)
    told = parts.rounds.seen.statuses.get(own.leader)
    waited_for = {item.limit for item in told.limits if item.waiting} if told is not None else set()
    held_to = [parts.limits.limits[number] for number, _ in parts.limits.keys_of(spec)]
    return next((limit.text for limit in held_to if limit.name in waited_for), "")
