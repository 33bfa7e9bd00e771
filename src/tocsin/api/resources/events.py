"""What happens, as server-sent events: live, or from an event on that the reader names."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated, NamedTuple

from litestar import get
from litestar.di import NamedDependency
from litestar.params import HeaderParameter, QueryParameter

from tocsin.api import query
from tocsin.api.description.about import about
from tocsin.api.door.access import WhoAsks
from tocsin.api.resources.streams import STREAM_PATHS, EventStream, Streams, frame_of
from tocsin.api.service import Given, Service
from tocsin.errors import Gap, InvalidInput, NoLeader, Unauthenticated
from tocsin.model.event import END, GAP, KINDS, Event, Place, kinds_of, place_behind
from tocsin.model.rights import require_reach
from tocsin.model.token import Caller
from tocsin.replica.replica import Replica

PATH = STREAM_PATHS[0]
CATCH_UP_S = 5.0
KEEP_ALIVE_S = 15.0
"""A stream never says nothing for longer than this: so a reader can tell that it has been cut off."""
TOKEN_TRUSTED_S = 600.0
_RETRY_MS = 1000
_ABOUT = (
    "Each event has an id and JSON data. A stream that begins behind entries that are no longer kept starts with an "
    "event `gap` that names them, and so does one that begins behind an event whose record was lost; "
    "one that does not follow ends with an event `end`."
)


class Wanted(NamedTuple):
    """What one reader is told."""

    prefix: str
    schedule: str | None
    kinds: frozenset[str]
    may_see: Callable[[str], bool]

    def __call__(self, event: Event) -> bool:
        if self.kinds and event.kind not in self.kinds:
            return False
        if event.schedule is None:
            return not self.prefix and self.schedule is None
        if self.schedule is not None and event.schedule != self.schedule:
            return False
        return event.schedule.startswith(self.prefix) and self.may_see(event.schedule)


@get(
    PATH,
    operation_id="events",
    media_type="text/event-stream",
    opt=about(
        "service",
        "Follow what happens",
        answers={200: (_ABOUT, Event, ("text/event-stream",))},
        refusals={503: "So many streams are open that no more are served."},
    ),
)
async def events(
    caller: WhoAsks,
    service: Given,
    streams: NamedDependency[Streams],
    after: Annotated[
        str | None, QueryParameter(description="Go on behind this event; 0: from the first that is kept.")
    ] = None,
    last_event_id: Annotated[
        str | None,
        HeaderParameter(name="Last-Event-ID", description="The same; it counts for more than `after`."),
    ] = None,
    prefix: query.Prefix = "",
    schedule: Annotated[
        str | None,
        QueryParameter(description="Only of this schedule.", schema_extra={"pattern": query.ID_PATTERN}),
    ] = None,
    kind: Annotated[
        list[str] | None,
        QueryParameter(
            description="Only these. May be given several times, or as `launch.failed,schedule.*`.",
            schema_extra={
                "items": {"type": "string", "examples": ["launch.*", *KINDS]},
                "maxItems": query.REPEATED_MAX,
            },
        ),
    ] = None,
    follow: Annotated[
        bool, QueryParameter(description="False: end when all is told that has happened.")
    ] = True,
) -> EventStream:
    """As server-sent events. Without an id the stream begins with what comes next."""
    replica = service.replica
    query.check_few(kind, query.REPEATED_MAX, "kind")
    given = [part for text in kind or () for part in text.split(",") if part]
    if schedule is not None:
        require_reach(caller, schedule)
    wanted = Wanted(prefix, schedule, kinds_of(given, field="kind"), _visible(caller))
    place, lost = await _start(replica, last_event_id, after)
    streams.check_room(caller)
    may_stay = stay(service, caller)
    return EventStream(
        streams, caller.account, _frames(replica, streams, place, lost, wanted, may_stay, follow)
    )


HANDLERS = (events,)


def _visible(caller: Caller) -> Callable[[str], bool]:
    """Which schedules this caller may hear of. What is about no schedule, all may hear."""
    return caller.reaches


MayStay = Callable[[], Awaitable[bool]]
"""Asked again and again: may this reader stay?"""


def stay(service: Service, caller: Caller) -> MayStay:
    """A reader with a token stays as long as the token is valid, and has to show it again now and then."""
    clock = service.replica.clock
    until_s = clock.elapsed_s() + TOKEN_TRUSTED_S

    async def may_stay() -> bool:
        if not caller.token:
            return True
        try:
            await service.doorkeeper.check_still_valid(caller)
        except Unauthenticated:
            return False
        return clock.elapsed_s() < until_s

    return may_stay


async def _start(replica: Replica, header: str | None, after: str | None) -> tuple[Place, str]:
    """Where this reader goes on, and the event that it saw, if that one was lost: then it is told all that came behind
    the loss. A browser that reconnects repeats the address and adds the header."""
    field, given = ("Last-Event-ID", header) if header else ("after", after)
    if given is None:
        return Place(replica.meta.seq + 1, 0), ""
    place, mark = place_behind(given, field=field)
    meta = replica.meta
    if mark not in ("", meta.mark, meta.former_mark):
        return Place(1, 0), given
    if mark and mark != meta.mark and place > (common := Place(meta.common_seq + 1, 0)):
        return common, given
    if _is_beyond(replica, place) and (mark or replica.status().role != "leader"):
        await _caught_up(replica, place)
    if _is_beyond(replica, place):
        newest = replica.meta.seq
        raise InvalidInput(
            f"there is no event {given!r} yet: the newest entry is {newest}",
            field=field,
            value=given,
            allowed=f"up to {newest}",
            hint="is it an event of this service, and were its data put back to an older state?",
        )
    return place, ""


def _is_beyond(replica: Replica, place: Place) -> bool:
    newest = replica.meta.seq
    return place.seq > newest + 1 or (place.seq == newest + 1 and bool(place.slot))


async def _caught_up(replica: Replica, place: Place) -> None:
    """The event may be one of another replica, which this one will have applied in a moment: also if this one leads,
    because it applies an entry after the others have it. If it takes longer the reader is better off elsewhere."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CATCH_UP_S):
            await replica.applied.wait_beyond(place.seq - (0 if place.slot else 1) - 1)
    if _is_beyond(replica, place):
        raise NoLeader(
            f"this replica is at entry {replica.meta.seq} and has not come to that event yet",
            hint="try again in a moment, or ask another replica",
        )


async def _frames(
    replica: Replica,
    streams: Streams,
    place: Place,
    lost: str,
    wanted: Wanted,
    may_stay: MayStay,
    follow: bool,
) -> AsyncGenerator[bytes, None]:
    """All that this reader is told, in portions."""
    applied, clock = replica.applied, replica.clock
    upto = replica.meta.seq
    # An id without data: a reader that is cut off before its first event knows where to go on.
    yield f"retry: {_RETRY_MS}\nid: {_id(replica, place)}\n\n".encode()
    if lost:
        yield _loss(replica, place, lost)
    spoken_s = clock.elapsed_s()
    while await may_stay():
        while place.seq <= upto and await may_stay():
            place, frames = await _next(replica, streams, place, wanted)
            if not frames and clock.elapsed_s() - spoken_s > KEEP_ALIVE_S:
                frames = _still_here(replica, place)
            if frames:
                yield frames
                spoken_s = clock.elapsed_s()
        if not follow and place.seq > upto:
            yield frame_of(Event(id=_id(replica, Place(upto + 1, 0)), at=_now(replica), kind=END), END)
            return
        try:
            # Not wait_for: before Python 3.12 it swallows a cancellation that comes with the entry waited for.
            async with asyncio.timeout(KEEP_ALIVE_S):
                upto = await applied.wait_beyond(place.seq - 1)
        except TimeoutError:
            yield _still_here(replica, place)
            spoken_s = clock.elapsed_s()
        if applied.is_over:
            return


async def _next(replica: Replica, streams: Streams, place: Place, wanted: Wanted) -> tuple[Place, bytes]:
    """The next portion, as far as it is wanted, and what comes behind it."""
    try:
        portion = await streams.portion(place)
    except Gap:
        # Trimmed away, perhaps while this reader was on its way to it.
        first = await replica.first_kept()
        if first <= place.seq:
            raise
        return Place(first, 0), _gap(replica, place.seq, first)
    return portion.next, b"".join(frame for event, frame in portion.told if wanted(event))


def _gap(replica: Replica, asked: int, first: int) -> bytes:
    gap = Event(
        id=_id(replica, Place(first, 0)),
        at=_now(replica),
        kind=GAP,
        first_sequence=asked,
        last_sequence=first - 1,
        reason="these entries are covered by a snapshot and no longer kept",
    )
    return frame_of(gap, GAP)


def _loss(replica: Replica, place: Place, lost: str) -> bytes:
    """Of a record that was restored more than once since, nobody knows any more which of its events were lost."""
    reason = f"event {lost} is of a record that was lost; what is kept behind entry {place.seq - 1} follows"
    if place == Place(1, 0):
        reason = (
            f"event {lost} is of an earlier record, and may have been lost since; all that is kept follows"
        )
    gap = Event(id=_id(replica, place), at=_now(replica), kind=GAP, reason=reason)
    return frame_of(gap, GAP)


def _id(replica: Replica, place: Place) -> str:
    return place.id(replica.meta.mark)


def _still_here(replica: Replica, place: Place) -> bytes:
    """With how far it has come: a reader that wants little need not be shown the same again."""
    return f": still here\nid: {_id(replica, place)}\n\n".encode()


def _now(replica: Replica) -> datetime:
    return datetime.fromtimestamp(replica.clock.wall_ms() / 1000, UTC)
