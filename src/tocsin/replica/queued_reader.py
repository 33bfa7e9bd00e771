"""Queued launches (backfills, ``overlap: queue`` and ``replace``) from turn to turn: which start, which are skipped.

A queued launch may find its lane full or a limit reached, and go on waiting for hours. The launches behind it must not
wait with it, so the reader goes round: each look reads the heads of a bounded number of schedules, behind those that
the last look read. Up to ``SLICE`` schedules, one look reads all of them. Above that a round takes several looks, and a
launch whose predecessor has just ended is read ahead of its turn.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from itertools import islice, takewhile

from tocsin.decide.waiting import QueuedDecision, QueuedRow, decide_queued
from tocsin.model import change as c
from tocsin.model.launch import LaunchState
from tocsin.replica.lanes import Line, Room
from tocsin.replica.limits import LimitedRoom, Waits
from tocsin.replica.queued_limits import QueuedLimits
from tocsin.state import queries, queued
from tocsin.state.queued import QueuedHead

SLICE = 1_000
SLICE_EVERY_MS = 100
"""Where a round takes several looks: how many schedules a look reads, and how often the reader looks."""
ENDED_AT_ONCE = 500
"""Launches that are skipped in one look: each has a reason, and all of them are to fit into one entry."""
SUCCESSORS_MAX = 1_000

Found = tuple[c.AttemptsStarted, c.LaunchesEnded]


class QueuedReader:
    """Where the round stands. A look that could not be written down needs no undoing: its launches are still queued."""

    def __init__(self, on_wait: Callable[[int, int], None] = lambda limit, number: None) -> None:
        """``on_wait`` is told of each limit how many began to wait for it."""
        self._limits = QueuedLimits(on_wait)
        self._after_sid = 0
        """The last schedule that the round has passed; 0: a round begins."""
        self._is_whole = True
        """One look reads all."""
        self._was_full = self._is_hurried = False
        """There was more to decide than a look may: in this round, in the last one. The next look follows at once."""
        self._ended: list[int] = []
        """Launches that have ended since the last look."""
        self.next_ms: int | None = None
        """When to look again. None: when something ends, or when somebody asks for something."""

    def ended(self, lids: Iterable[int]) -> None:
        """These launches have ended: the next launch of their schedules may start."""
        if not self._is_whole:
            self._ended.extend(islice(lids, SUCCESSORS_MAX - len(self._ended)))

    def waits(self, room: LimitedRoom) -> Waits:
        """How many wait for which limit."""
        return self._limits.waits(room)

    def look(self, db: sqlite3.Connection, now_ms: int, limit: int, room: Room) -> Found:
        """The launches that start now, ``limit`` at most, and those that are skipped."""
        page = queued.heads(db, self._after_sid, SLICE, now_ms)
        heads = page + self._successors(db, page, now_ms)
        decided = [(head, decide_queued(_row(head), now_ms)) for head in heads if head.is_next]
        asking = [head for head, decision in decided if decision.may_start or decision.skip_reason]
        lines = self._limits.read(db, asking, room)
        look = _Look(now_ms, limit, room, lines)
        look.skip_orphans(db, [head.sid for head in heads if head.id is None])
        for head, decision in decided:
            if decision.skip_reason:
                look.skip(head, decision.skip_reason)
        for head in sorted((head for head, decision in decided if decision.may_start), key=_turn):
            look.start(head)
        unread = {head.sid for head in asking if head.lid not in lines}
        self._move_on(page, list(takewhile(lambda head: head.sid not in unread, page)), look)
        self.next_ms = self._next_look_ms(look, decided)
        return look.started, look.ended

    def _successors(self, db: sqlite3.Connection, page: list[QueuedHead], now_ms: int) -> list[QueuedHead]:
        """The launches that waited for what has ended since, beside those of the page."""
        ended, self._ended = self._ended, []
        if not ended:
            return []
        own = {head.sid for head in page}
        return [head for head in queued.heads_behind(db, ended, now_ms) if head.sid not in own]

    def _move_on(self, page: list[QueuedHead], passed: list[QueuedHead], look: _Look) -> None:
        """The round goes on behind the schedules that were read, also where there was more to decide than one look may:
        the launches of one page must not keep those of the others waiting."""
        self._limits.wait(look.waiting, look.room)
        sids = {head.sid for head in passed}
        self._limits.count(keys for head, (_, keys) in look.waiting if keys and head.sid in sids)
        self._was_full |= look.is_full
        is_over = len(passed) == len(page) < SLICE
        self._is_whole = is_over and not self._after_sid
        if not is_over:
            self._after_sid = passed[-1].sid
            return
        self._after_sid = 0
        self._is_hurried, self._was_full = self._was_full, False
        self._limits.end_round()

    def _next_look_ms(self, look: _Look, decided: list[tuple[QueuedHead, QueuedDecision]]) -> int | None:
        if self._was_full or self._is_hurried:
            return look.now_ms
        if not self._is_whole:
            return look.now_ms + SLICE_EVERY_MS
        started = set(look.started.lids)
        moments = [d.expires_ms for head, d in decided if d.expires_ms and head.lid not in started]
        if isinstance(look.room, LimitedRoom):
            in_ms = look.room.in_ms({keys for _, (_, keys) in look.waiting})
            if in_ms is not None:
                moments.append(look.now_ms + in_ms)
        return min(moments, default=None)


class _Look:
    """What one look has decided so far."""

    def __init__(self, now_ms: int, limit: int, room: Room, lines: dict[int, Line]) -> None:
        self.now_ms = now_ms
        self.room = room
        self.started = c.AttemptsStarted([], [])
        self.ended = c.LaunchesEnded([], [], [], [], [], [])
        self.waiting: list[tuple[QueuedHead, Line]] = []
        """Launches that found no room."""
        self.is_full = False
        """There is more to decide than one look may."""
        self._lines = lines
        """By launch: the lane and the limits, as far as they were read."""
        self._starts_max = limit
        self._ends_max = min(limit, ENDED_AT_ONCE)
        self._bytes_left = queries.LOOK_BYTES

    def start(self, head: QueuedHead) -> None:
        """If there is room."""
        line = self._lines.get(head.lid)
        if line is None:
            return
        if not self.room.has(line):
            self.waiting.append((head, line))
        elif len(self.started.lids) >= self._starts_max or self._bytes_left <= 0:
            self.is_full = True
        else:
            self.room.count_line(line, head.size)
            self._bytes_left -= head.size
            self.started.lids.append(head.lid)
            self.started.attempts.append(head.attempt + 1)

    def skip(self, head: QueuedHead, reason: str) -> None:
        line = self._lines.get(head.lid)
        if line is None:
            return
        if isinstance(self.room, LimitedRoom) and (found := self.room.text_of(line[1])):
            reason += f", and the limit {found} was reached"
        self._end(head.lid, head.attempt, reason)

    def skip_orphans(self, db: sqlite3.Connection, sids: list[int]) -> None:
        """Their schedules were deleted."""
        for lid, attempt in queued.orphans(db, sids, self._ends_max + 1) if sids else ():
            self._end(lid, attempt, "the schedule was deleted while this launch waited")

    def _end(self, lid: int, attempt: int, reason: str) -> None:
        if len(self.ended.lids) >= self._ends_max:
            self.is_full = True
            return
        self.ended.lids.append(lid)
        self.ended.attempts.append(attempt)
        self.ended.states.append(LaunchState.SKIPPED)
        self.ended.reasons.append(reason)
        self.ended.ended_ms.append(self.now_ms)
        self.ended.exit_codes.append(None)


def _row(head: QueuedHead) -> QueuedRow:
    assert head.id is not None
    return QueuedRow(
        head.lid,
        head.instant_s,
        head.is_started,
        head.asked_ms,
        head.id,
        head.resolved,
        head.zone,
        head.rule,
        head.is_held,
    )


def _turn(head: QueuedHead) -> tuple[int, int]:
    """The order in which launches come to room: the one first that was due, or asked for, first."""
    return head.instant_s * 1000 if head.asked_ms is None else head.asked_ms, head.lid
