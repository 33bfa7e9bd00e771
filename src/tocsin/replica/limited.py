"""The look at what is due where there are limits (``lineup`` says how)."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence, Set

from tocsin.decide.due import Decision, DueRow
from tocsin.decide.timeline import plan
from tocsin.decide.waiting import RetryRow
from tocsin.errors import InvalidSchedule
from tocsin.model.launch import LaunchState
from tocsin.model.rule import Overlap, decode_rule
from tocsin.observe.metrics import Metrics
from tocsin.replica.lanes import Key, Keys, Room
from tocsin.replica.limits import LimitedRoom, Limits, Waits
from tocsin.replica.lineup import Lineup, Source
from tocsin.replica.outlook import Outlook, Retry, earliest
from tocsin.replica.queued_reader import QueuedReader
from tocsin.state import queries


class LimitedOutlook(Outlook):
    """What waits for room, from turn to turn. Attempts come before what is due, and both in their own order."""

    def __init__(self, limits: Limits, on_wait: Callable[[str, int], None]) -> None:
        super().__init__()
        self._limits = limits
        names = [limit.name for limit in limits.limits]

        def tell(limit: int, number: int) -> None:
            on_wait(names[limit], number)

        self._due_lines = Lineup(_DUE, tell)
        self._retry_lines = Lineup(_RETRIES, tell)
        self._queued = QueuedReader(tell)

    def forget(self) -> None:
        self._due_lines.forget()
        self._retry_lines.forget()

    def retries(self, db: sqlite3.Connection, now_ms: int, limit: int, room: Room) -> list[RetryRow]:
        assert isinstance(room, LimitedRoom)
        return [RetryRow(row.lid, row.attempt) for row in self._retry_lines.rows(db, now_ms, limit, room)]

    def rows(self, db: sqlite3.Connection, now_ms: int, limit: int, room: Room) -> list[DueRow]:
        assert isinstance(room, LimitedRoom)
        found = self._due_lines.rows(db, now_ms, limit, room)
        self._limits.waits = _together(
            self._queued.waits(room), self._retry_lines.waits(room), self._due_lines.waits(room)
        )
        return found

    @property
    def without_room(self) -> Set[int]:
        return self._due_lines.without_room

    def waited_for(self, sid: int) -> str:
        number = self._due_lines.expired_for.get(sid)
        return "" if number is None else self._limits.limits[number].text

    def decided(self, decision: Decision, now_ms: int) -> None:
        """Who is late may be due again at once."""
        back = [row.sid for row in decision.undecided]
        for column in (decision, decision.skipped, decision.queued, decision.moved):
            delays = column.next_delays_ms or [0] * len(column.sids)
            for sid, instant_s, delay_ms in zip(column.sids, column.next_instants_s, delays, strict=True):
                if instant_s is not None and instant_s * 1000 + delay_ms <= now_ms:
                    back.append(sid)
        self._due_lines.came_back(back)

    def next_wake_ms(self, db: sqlite3.Connection) -> int | None:
        due_ms = queries.next_wake_ms(db, self._due_lines.seen_ms, self._retry_lines.seen_ms)
        return earliest(due_ms, self._due_lines.next_ms(), self._retry_lines.next_ms(), self._queued.next_ms)


def outlook_for(limits: Limits, metrics: Metrics) -> Outlook:
    """How the leader looks at what is due."""
    if not limits:
        return Outlook()
    return LimitedOutlook(limits, lambda name, number: metrics.limit_waits.labels(name).inc(number))


def _expires_ms(row: DueRow) -> int | None:
    if row.rule is None:
        return None
    try:
        settled = plan(row.resolved, row.zone, row.rule)
    except InvalidSchedule:
        return row.at_ms  # whoever decides puts it off until it can be read
    deadline_ms = settled.rule.deadline_ms
    if not deadline_ms:
        return None
    return settled.slot(row.id, row.instant_s).planned_ms + deadline_ms + 1


def _overlapping(db: sqlite3.Connection, rows: Sequence[DueRow]) -> frozenset[int]:
    """Those whose overlap policy skips them, lets them queue, or has them replace what is open: their own launch may be
    the one that holds the place."""
    asking = [row.sid for row in rows if row.rule and decode_rule(row.rule).overlap is not Overlap.ALLOW]
    if not asking:
        return frozenset()
    found = queries.open_launches(db, asking, max(row.at_ms for row in rows))
    return frozenset(
        sid for sid, asked_ms, *_, state in found if asked_ms is None or state != LaunchState.QUEUED
    )


def _never(row: Retry) -> None:
    return None


def _together(*several: Waits) -> Waits:
    by_limit: Counter[int] = Counter()
    by_key: Counter[Key] = Counter()
    reasons: dict[Keys, int] = {}
    for waits in several:
        by_limit.update(waits.by_limit)
        by_key.update(waits.by_key)
        reasons.update(waits.reasons)
    return Waits(by_limit, by_key, reasons)


_DUE: Source[DueRow] = Source(
    row=DueRow._make,
    page=queries.due,
    fetch=queries.due_of,
    expires_ms=_expires_ms,
    starts_not=_overlapping,
    line_of=lambda room, row: room.line_of(row.spec),
)
_RETRIES: Source[Retry] = Source(
    row=Retry._make,
    page=queries.retries_due,
    fetch=queries.retries_of,
    expires_ms=_never,
    starts_not=lambda db, rows: frozenset(),
    line_of=lambda room, row: room.line_of_retry(row.lid, row.spec),
)
