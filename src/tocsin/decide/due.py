"""Due rows become starts, skips and waits, and every schedule gets its next instant.

A row is a plain tuple and the answer is columns: a herd of five thousand passes through ``decide_due`` in one loop
without an object a launch. Only rows that need a policy take the longer way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, NamedTuple

import msgspec

from tocsin.decide.missed import Presence, catch_up, doubtful_until_ms, next_catch_up_slot
from tocsin.decide.timeline import Plan, Slot, plan
from tocsin.errors import InvalidSchedule
from tocsin.model import change as c
from tocsin.model.ids import launch_name
from tocsin.model.launch import LaunchKind, LaunchState
from tocsin.model.rule import Missed, Overlap

LOOK_AGAIN_MS = 60_000
DECISION_BYTES_MAX = 256 * 1024
"""Decisions of one entry, as far as their reasons are concerned: what is left is decided in the next turn."""
_ROW_BYTES = 40
"""What a row takes in an entry beside its reason, at most."""


class DueRow(NamedTuple):
    """What ``state.queries.due`` gives for one schedule."""

    at_ms: int
    sid: int
    instant_s: int
    id: str
    version: int
    resolved: str
    zone: str
    rule: bytes | None
    spec: bytes


class OpenRow(NamedTuple):
    """A launch that is open, or in doubt and keeps its place, as far as the overlap policy needs it."""

    lid: int
    instant_s: int
    kind: int
    state: int


class Decision(msgspec.Struct):
    """What was decided, as columns; ``changes()`` is what goes into the entry, in this order."""

    cancels: c.CancelsOrdered = msgspec.field(default_factory=lambda: c.CancelsOrdered([], []))
    missed: c.OccurrencesMissed = msgspec.field(
        default_factory=lambda: c.OccurrencesMissed([], [], [], [], [])
    )
    moved: c.DueMoved = msgspec.field(default_factory=lambda: c.DueMoved([], [], []))
    skipped: c.LaunchesSkipped = msgspec.field(
        default_factory=lambda: c.LaunchesSkipped([], [], [], [], [], [])
    )
    queued: c.LaunchesQueued = msgspec.field(default_factory=lambda: c.LaunchesQueued([], [], [], [], [], []))
    sids: list[int] = msgspec.field(default_factory=list)
    versions: list[int] = msgspec.field(default_factory=list)
    instants_s: list[int] = msgspec.field(default_factory=list)
    next_instants_s: list[int | None] = msgspec.field(default_factory=list)
    next_delays_ms: list[int] = msgspec.field(default_factory=list)
    planned_ms: list[int | None] = msgspec.field(default_factory=list)
    replacing: list[tuple[int, int]] = msgspec.field(default_factory=list)
    """What each of the cancelled ones is cancelled for: schedule and instant."""
    unreadable: dict[str, str] = msgspec.field(default_factory=dict)
    """Schedules whose text cannot be read on this machine, and why."""
    started_rows: list[DueRow] = msgspec.field(default_factory=list)
    """The rows behind the starts, for the launcher."""
    undecided: Sequence[DueRow] = ()
    """Rows that did not fit into one entry: they stay due."""
    reason_bytes: int = 0

    @property
    def is_full(self) -> bool:
        return self.reason_bytes + len(self.sids) * _ROW_BYTES > DECISION_BYTES_MAX

    def changes(self) -> list[c.Change]:
        found: list[c.Change] = []
        if self.cancels.lids:
            found.append(self.cancels)
        if self.missed.sids:
            found.append(self.missed)
        if self.moved.sids:
            found.append(self.moved)
        if self.skipped.sids:
            found.append(self.skipped)
        if self.queued.sids:
            found.append(self.queued)
        if self.sids:
            found.append(self.started())
        return found

    def started(self) -> c.LaunchesStarted:
        return c.LaunchesStarted(
            self.sids,
            self.versions,
            self.instants_s,
            self.next_instants_s,
            self.next_delays_ms if any(self.next_delays_ms) else None,
            self.planned_ms if any(self.planned_ms) else None,
        )

    def start(self, row: DueRow, instant_s: int, following: Slot | None, planned_ms: int | None) -> None:
        self.sids.append(row.sid)
        self.versions.append(row.version)
        self.instants_s.append(instant_s)
        self.next_instants_s.append(None if following is None else following.instant_s)
        self.next_delays_ms.append(0 if following is None else following.delay_ms)
        self.planned_ms.append(planned_ms)
        self.started_rows.append(row if row.instant_s == instant_s else row._replace(instant_s=instant_s))

    def record(
        self,
        column: c.LaunchesSkipped | c.LaunchesQueued,
        row: DueRow,
        instant_s: int,
        following: Slot | None,
        reason: str,
    ) -> None:
        column.sids.append(row.sid)
        column.versions.append(row.version)
        column.instants_s.append(instant_s)
        column.next_instants_s.append(None if following is None else following.instant_s)
        column.next_delays_ms.append(0 if following is None else following.delay_ms)
        column.reasons.append(reason)
        self._count(reason)

    def _count(self, reason: str) -> None:
        self.reason_bytes += _ROW_BYTES + len(reason.encode())

    def cancel(self, lid: int, row: DueRow, reason: str) -> None:
        self.cancels.lids.append(lid)
        self.cancels.reasons.append(reason)
        self.replacing.append((row.sid, row.instant_s))
        self._count(reason)

    def move(self, row: DueRow, to: Slot | None) -> None:
        self._count("")
        self.moved.sids.append(row.sid)
        self.moved.next_instants_s.append(None if to is None else to.instant_s)
        self.moved.next_delays_ms.append(0 if to is None else to.delay_ms)

    def leave_out(self, taken: Set[tuple[int, int]]) -> None:
        """These occurrences (of which schedule, and when) have a launch already: only the due row moves, and nothing is
        cancelled for them."""
        if not taken:
            return
        for place in reversed(range(len(self.replacing))):
            if self.replacing[place] in taken:
                _drop(place, self.cancels.lids, self.cancels.reasons, self.replacing)
        for column in (self.skipped, self.queued):
            for place in reversed(range(len(column.sids))):
                if (column.sids[place], column.instants_s[place]) in taken:
                    self._move_on(column.sids, column.next_instants_s, column.next_delays_ms, place)
                    _drop(place, column.sids, column.versions, column.instants_s, column.next_instants_s)
                    _drop(place, column.next_delays_ms, column.reasons)
        for place in reversed(range(len(self.sids))):
            if (self.sids[place], self.instants_s[place]) in taken:
                self._move_on(self.sids, self.next_instants_s, self.next_delays_ms, place)
                _drop(place, self.sids, self.versions, self.instants_s, self.next_instants_s)
                _drop(place, self.next_delays_ms, self.planned_ms, self.started_rows)

    def _move_on(
        self, sids: list[int], instants_s: list[int | None], delays_ms: list[int], place: int
    ) -> None:
        self.moved.sids.append(sids[place])
        self.moved.next_instants_s.append(instants_s[place])
        self.moved.next_delays_ms.append(delays_ms[place])

    def give_up(self, row: DueRow, before_s: int, reason: str) -> None:
        self.missed.sids.append(row.sid)
        self.missed.versions.append(row.version)
        self.missed.from_s.append(row.instant_s)
        self.missed.before_s.append(before_s)
        self.missed.reasons.append(reason)
        self._count(reason)


def _drop(place: int, *columns: list[Any]) -> None:
    for column in columns:
        del column[place]


def decide_due(
    rows: Sequence[DueRow],
    now_ms: int,
    presence: Presence,
    open_launches: Mapping[int, Sequence[OpenRow]],
    without_room: Set[int] = frozenset(),
) -> Decision:
    """Decide every row. ``open_launches`` is needed for schedules whose overlap policy asks for it. ``without_room``:
    schedules that have no room. What is over is skipped; a later occurrence that is caught up has its own turn."""
    decision, judged_until_ms = Decision(), presence.judged_until_ms
    for place, row in enumerate(rows):
        try:
            settled = plan(row.resolved, row.zone, row.rule)
        except InvalidSchedule as unreadable:
            # It could be read when it was written: this machine's time zones are others. The rest must go on,
            # and this one is looked at again later.
            decision.unreadable[row.id] = str(unreadable)
            decision.move(row, Slot(row.instant_s, now_ms + LOOK_AGAIN_MS - row.instant_s * 1000))
            continue
        if settled.plain and row.at_ms >= judged_until_ms:
            following = settled.next_instant(row.instant_s)
            decision.start(row, row.instant_s, None if following is None else Slot(following, 0), None)
        else:
            open_beside = open_launches.get(row.sid, ())
            _decide_row(decision, row, settled, now_ms, presence, open_beside, row.sid not in without_room)
            if decision.is_full:
                decision.undecided = rows[place + 1 :]
                break
    return decision


def _decide_row(
    decision: Decision,
    row: DueRow,
    settled: Plan,
    now_ms: int,
    presence: Presence,
    open_launches: Sequence[OpenRow],
    has_room: bool,
) -> None:
    slot = Slot(row.instant_s, row.at_ms - row.instant_s * 1000)
    if _is_missed(row, settled, presence):
        caught = _decide_missed(decision, row, settled, now_ms, presence)
        if caught is None:
            return
        slot = caught
    following = _following(settled, row.id, slot, presence)
    deadline_ms = settled.rule.deadline_ms
    planned_ms = settled.slot(row.id, slot.instant_s).planned_ms
    late_ms = now_ms - planned_ms
    if deadline_ms and late_ms > deadline_ms:
        reason = f"deadline: it would have started {late_ms / 1000:.0f} s late, {deadline_ms // 1000} s are allowed"
        decision.record(decision.skipped, row, slot.instant_s, following, reason)
    elif open_launches and settled.rule.overlap is not Overlap.ALLOW:
        _decide_overlap(decision, row, settled, slot, following, open_launches)
    elif not has_room and slot.instant_s != row.instant_s:
        decision.move(row, slot)
    else:
        decision.start(row, slot.instant_s, following, planned_ms if settled.rule.jitter_ms else None)


def _is_missed(row: DueRow, settled: Plan, presence: Presence) -> bool:
    """Did its moment come while nobody was in office, or while somebody was whose record is lost? A moment that was
    chosen to catch up, and comes after the lost time, did not."""
    if row.at_ms < presence.since_ms:
        return True
    until_ms = doubtful_until_ms(settled, row.id, row.instant_s, presence)
    return until_ms > presence.doubtful_until_ms or row.at_ms < until_ms


def _decide_missed(
    decision: Decision, row: DueRow, settled: Plan, now_ms: int, presence: Presence
) -> Slot | None:
    """The occurrence to launch now, if any; what is given up or put off is recorded."""
    caught = catch_up(settled, row.id, row.instant_s, presence)
    if caught.keep is None:
        following = settled.slot_after(row.id, caught.last_s)
        if caught.last_s == row.instant_s:
            decision.record(decision.skipped, row, row.instant_s, following, caught.given_up)
        else:
            decision.give_up(row, caught.last_s + 1, caught.given_up)
            decision.move(row, following)
        return None
    if caught.keep_from_s > row.instant_s:
        decision.give_up(row, caught.keep_from_s, caught.given_up)
    if caught.keep.planned_ms > now_ms:
        decision.move(row, caught.keep)
        return None
    return caught.keep


def _following(settled: Plan, schedule: str, slot: Slot, presence: Presence) -> Slot | None:
    """The next occurrence. While ``all`` catches up it may itself have been missed: then it has its place in
    the catching up, and is not judged again."""
    following = settled.slot_after(schedule, slot.instant_s)
    if (
        following is not None
        and following.planned_ms < presence.since_ms
        and settled.rule.missed is Missed.ALL
    ):
        return next_catch_up_slot(settled, schedule, slot, following.instant_s, presence)
    return following


def _decide_overlap(
    decision: Decision,
    row: DueRow,
    settled: Plan,
    slot: Slot,
    following: Slot | None,
    open_launches: Sequence[OpenRow],
) -> None:
    oldest = min(open_launches)
    holder = launch_name(row.id, oldest.instant_s, oldest.kind == LaunchKind.MANUAL)
    name = launch_name(row.id, slot.instant_s)
    waiting = [found for found in open_launches if found.state == LaunchState.QUEUED]
    was_open = "was in doubt and kept its place" if oldest.state == LaunchState.IN_DOUBT else "was still open"
    match settled.rule.overlap:
        case Overlap.FORBID:
            decision.record(decision.skipped, row, slot.instant_s, following, f"overlap: {holder} {was_open}")
        case Overlap.QUEUE if waiting:
            reason = f"overlap: {holder} {was_open} and another launch was waiting for it already"
            decision.record(decision.skipped, row, slot.instant_s, following, reason)
        case Overlap.REPLACE:
            for found in open_launches:
                # What nobody knows of cannot be stopped: it is waited for.
                if found.state != LaunchState.IN_DOUBT:
                    decision.cancel(found.lid, row._replace(instant_s=slot.instant_s), f"replaced by {name}")
            decision.record(
                decision.queued, row, slot.instant_s, following, f"waits until {holder} has stopped"
            )
        case _:
            decision.record(decision.queued, row, slot.instant_s, following, f"waits for {holder} to end")
