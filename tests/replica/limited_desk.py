"""A leader with limits on a clock that leaps from one moment at which something happens to the next."""

from __future__ import annotations

import heapq
from collections import Counter
from typing import Any, NamedTuple

from tests.core.desk import Desk

from tocsin.clock import SystemClock
from tocsin.model import change as c
from tocsin.model.command import Backfill, PutSchedule
from tocsin.model.limit import Limit
from tocsin.model.schedule import Schedule, convert
from tocsin.replica.lanes import ROOM_FOR_ALL, Room
from tocsin.replica.limited import LimitedOutlook
from tocsin.replica.limits import Limits
from tocsin.replica.scheduler import Agenda, agenda
from tocsin.state import queries
from tocsin.targets.contract import SUCCEEDED, Outcome

START = 1_700_000_000
DUE_AT_ONCE = 5_000


class DeskClock(SystemClock):
    """The desk's own time, on both clocks."""

    def __init__(self) -> None:
        self.now_ms = START * 1000

    def wall_ms(self) -> int:
        return self.now_ms

    def elapsed_s(self) -> float:
        return self.now_ms / 1000


class Started(NamedTuple):
    at_ms: int
    schedule: str
    instant_s: int
    attempt: int


class LimitedDesk(Desk):
    """Every launch lasts ``lasts_ms`` and then ends as ``outcome`` says."""

    def __init__(self, *limits: Limit, lasts_ms: int = 0, lanes: Room = ROOM_FOR_ALL) -> None:
        self.clock = DeskClock()
        super().__init__(START)
        self.limits = Limits(limits, self.clock)
        self.waits: Counter[str] = Counter()
        self.outlook = LimitedOutlook(self.limits, lambda name, number: self.waits.update({name: number}))
        self.lasts_ms = lasts_ms
        self.lanes = lanes
        self.outcome: Outcome = SUCCEEDED
        self.started: list[Started] = []
        self.at_once: Counter[tuple[int, str]] = Counter()
        """The most that were ever under way, by limit."""
        self._ends: list[tuple[int, int]] = []
        self.looks = 0

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms

    @now_ms.setter
    def now_ms(self, now_ms: int) -> None:
        self.clock.now_ms = now_ms

    def put(self, id: str, cron: str = f"@at {START + 10}", **fields: Any) -> None:
        target = {"kind": "null"}
        self.command(PutSchedule(convert({"id": id, "cron": cron, "target": target, **fields})))

    def backfill(self, id: str, number: int = 1) -> None:
        """The last so many hours of a schedule that is due at every full hour."""
        until_s = self.now_ms // 1000
        assert self.command(Backfill(id, until_s - number * 3_600, until_s)) == number

    def herd(self, prefix: str, count: int, **fields: Any) -> None:
        """Many that are due at the same moment, written in one go."""
        from tocsin.replica.prepare import prepare

        one = convert({"id": "x", "cron": f"@at {START + 10}", "target": {"kind": "null"}, **fields})
        changes = [
            prepare(self.db, PutSchedule(_named(one, f"{prefix}{number:07d}")), self.now_ms)
            for number in range(count)
        ]
        for first in range(0, count, 5_000):
            self.commit(*changes[first : first + 5_000])

    def turn(self, limit: int = DUE_AT_ONCE) -> Agenda:
        self.looks += 1
        plan = agenda(self.store, self.now_ms, limit, self.limits.room(self.lanes), self.outlook)
        changes = plan.changes()
        if not changes:
            return plan
        results = self.commit(*changes)
        for change, lids in zip(changes, results, strict=True):
            if isinstance(change, c.CancelsOrdered):
                self.cancelled |= set(change.lids)
            if isinstance(change, c.LaunchesStarted):
                rows = plan.decision.started_rows
                self.limits.started(zip(lids, (row.spec for row in rows), strict=True))
        orders = queries.orders(self.db, plan.attempts.lids)
        self.limits.started((row.lid, row.spec) for row in orders)
        begun = [*plan.attempts.lids]
        for change, lids in zip(changes, results, strict=True):
            if isinstance(change, c.LaunchesStarted):
                begun += lids
        self._note(begun)
        return plan

    def _note(self, lids: list[int]) -> None:
        self.hand_over(lids)
        for lid in lids:
            order = self.flights[lid].order
            self.started.append(Started(self.now_ms, order.schedule, order.scheduled_at_s, order.attempt))
            heapq.heappush(self._ends, (self.now_ms + self.lasts_ms, lid))
        for key, number in self.limits.under_way.items():
            self.at_once[key] = max(self.at_once[key], number)

    def run(self, for_s: float) -> None:
        """So long, from one moment at which something is to be done to the next."""
        until_ms = self.now_ms + int(for_s * 1000)
        while self.now_ms < until_ms:
            self.turn()
            if self._end_some():
                continue  # what ended may let something go that waited for it
            moments = [until_ms]
            if (next_ms := self.outlook.next_wake_ms(self.db)) is not None:
                moments.append(next_ms)
            if self._ends:
                moments.append(self._ends[0][0])
            # As a loop does that takes its time.
            self.now_ms = max(self.now_ms + 1, min(moments))

    def _end_some(self) -> bool:
        ended = []
        while self._ends and self._ends[0][0] <= self.now_ms:
            ended.append(heapq.heappop(self._ends)[1])
        for lid in ended:
            self.end(lid, self.outcome)
        held = dict(queries.held_of(self.db, ended, self.now_ms))
        self.limits.ended(lid for lid in ended if lid not in held)
        self.limits.hold(held.items())
        self.outlook.ended(ended)
        return bool(ended)

    def seconds(self, prefix: str = "") -> Counter[int]:
        """How many started in each second after the start."""
        found = (launch for launch in self.started if launch.schedule.startswith(prefix))
        return Counter(launch.at_ms // 1000 - START for launch in found)

    def reasons(self, state: int) -> list[str]:
        return [
            reason
            for (reason,) in self.db.execute(
                "SELECT reason FROM launch WHERE state = ? ORDER BY lid", (state,)
            )
        ]


def _named(schedule: Schedule, id: str) -> Schedule:
    import msgspec

    return msgspec.structs.replace(schedule, id=id)
