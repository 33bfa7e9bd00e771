"""A leader without waiting, threads or targets: the real state and decisions, on a clock that is set by hand."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from tocsin.clock import SystemClock
from tocsin.decide.retention import Retention
from tocsin.decide.settling import new_row
from tocsin.journal import codec
from tocsin.journal.contract import Birth
from tocsin.model import change as c
from tocsin.model.command import Command, PutSchedule, PutSchedules
from tocsin.model.entry import Entry
from tocsin.model.new import NewRow, columns_of
from tocsin.model.schedule import Checked, Schedule, convert
from tocsin.replica.flight import Flight, flight_of_row, flights_of_starts
from tocsin.replica.forgetting import RETENTION_EVERY_S, Forgetting
from tocsin.replica.many import prepare_many
from tocsin.replica.outcomes import changes_of, resolutions
from tocsin.replica.prepare import prepare
from tocsin.replica.reports import Reports
from tocsin.replica.scheduler import Agenda, agenda
from tocsin.state import queries
from tocsin.state.apply import apply
from tocsin.state.store import Store
from tocsin.targets.contract import Outcome, Target, Verdict
from tocsin.targets.null import NullTarget


class _Receiver(NullTarget):
    """Stands where a target would: it is never called, only asked whether it deduplicates. It does not."""

    def idempotent(self, spec: object) -> bool:
        return False


class Desk:
    """Decides, writes and applies as the leader does, one call at a time."""

    def __init__(self, now_s: int, folder: Path | None = None, birth: Birth | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory() if folder is None else None
        path = Path(self._folder.name if self._folder else folder or "") / "state.db"
        self.store = Store(path)
        self.store.db.execute("PRAGMA synchronous = OFF")
        self.now_ms = now_s * 1000
        self.records: list[bytes] = []
        self.flights: dict[int, Flight] = {}
        self.cancelled: set[int] = set()
        self._ids = itertools.count(1)
        if birth is not None:
            self.store.adopt(birth.incarnation, birth.start)
        self.take_office()

    def close(self) -> None:
        self.store.close()
        if self._folder is not None:
            self._folder.cleanup()

    @property
    def db(self) -> sqlite3.Connection:
        return self.store.db

    def command_many(
        self, actor: str, id: list[str], *, expect: int | None = 0, **fields: object
    ) -> dict[int, Any]:
        """What an import does with these: the answers by place, of those that were not simply created."""
        rows: list[NewRow] = []
        for each in id:
            schedule = convert({"target": {"kind": "null"}, "cron": "0 * * * *", **fields, "id": each})
            checked = Checked(schedule, schedule.expression(), schedule.rule())
            rows.append(new_row(checked, msgspec.msgpack.encode(schedule), self.now_ms // 1000))
        many = prepare_many(self.db, PutSchedules(columns_of(rows), expect=expect, actor=actor), self.now_ms)
        return many.result(self.commit(*many.changes) if many.changes else [])

    def commit(self, *changes: c.Change) -> list[Any]:
        meta = self.store.meta
        term = changes[0].term if isinstance(changes[0], c.TookOffice) else meta.term
        entry = Entry(next(self._ids).to_bytes(16, "big"), meta.last_id, term, self.now_ms, list(changes))
        raw = codec.encode(entry)
        self.records.append(raw)
        return apply(self.store, self.store.meta.seq + 1, codec.decode(raw, 0), raw)

    def take_office(self, *, is_counted: bool = True) -> None:
        """A new leader. What was handed over stays open: the tests decide what became of it."""
        self.commit(c.TookOffice(self.store.meta.term + 1, "desk", is_counted=is_counted))

    def returned(self, absent_since_ms: int) -> None:
        self.commit(c.Returned(absent_since_ms))

    def command(self, command: Command) -> Any:
        (result,) = self.commit(prepare(self.db, command, self.now_ms))
        if isinstance(result, Exception):
            raise result
        return result

    def turn(self, limit: int = 1000) -> Agenda:
        """One decision, made durable, handed over."""
        plan = agenda(self.store, self.now_ms, limit)
        changes = plan.changes()
        if changes:
            results = self.commit(*changes)
            lids = list(plan.attempts.lids)
            for change, result in zip(changes, results, strict=True):
                if isinstance(change, c.LaunchesStarted):
                    started = flights_of_starts(plan.decision.started_rows, result, 1, self.now_ms)
                    self.flights |= {flight.lid: flight for flight in started}
                if isinstance(change, c.CancelsOrdered):
                    self.cancelled |= set(change.lids)
            self.hand_over(lids)
        return plan

    def hand_over(self, lids: list[int]) -> None:
        for row in queries.orders(self.db, lids):
            if row.state == 1:
                self.flights[row.lid] = flight_of_row(row, 1)

    def turns(self) -> None:
        """Until there is nothing more to decide at this moment."""
        for _ in range(5_000):
            if not self.turn().changes():
                return
        raise AssertionError("the decisions never come to rest")

    def end(self, lid: int, outcome: Outcome) -> None:
        """A target reports."""
        flight = self.flights.pop(lid)
        (flight.cancel,) = self.db.execute("SELECT cancel FROM launch WHERE lid = ?", (lid,)).fetchone()
        self.commit(*changes_of(Reports({}, [(flight, outcome)]), _targets(), self.now_ms))

    def expire(self, lid: int) -> None:
        """It waited for a place until its deadline had passed: it is never called."""
        self.commit(*changes_of(Reports(expired=[self.flights.pop(lid)]), _targets(), self.now_ms))

    def withdraw(self, lid: int) -> None:
        """The leader leaves before the call."""
        self.commit(*changes_of(Reports(withdrawn=[self.flights.pop(lid)]), _targets(), self.now_ms))

    def tell(self, lid: int, outcome: Outcome) -> object:
        """The replica that made the call tells, late, how it ended."""
        (row,) = queries.orders(self.db, [lid])
        (result,) = self.commit(
            *resolutions([(flight_of_row(row, 1), outcome, "a")], _targets(), self.now_ms)
        )
        return result

    def forget(self, age_s: int = 10**9, each: int = 10**9, total: int = 10**9) -> list[c.HistoryForgotten]:
        """Retention as a leader with these limits carries it out, until nothing is left to do."""
        return self.forget_on(self.retention(age_s, each, total))

    def retention(self, age_s: int = 10**9, each: int = 10**9, total: int = 10**9) -> Forgetting:
        return Forgetting(self.store, _Rested(), Retention(age_s * 1000, each, total), _at_once)

    def forget_on(self, forgetting: Forgetting) -> list[c.HistoryForgotten]:
        """The same with one that has been at it before."""
        found: list[c.HistoryForgotten] = []
        forgetting._next_s = 0.0
        while forgetting.rest_s() < RETENTION_EVERY_S:
            for change in asyncio.run(forgetting.changes(self.now_ms)):
                assert isinstance(change, c.HistoryForgotten)
                self.commit(change)
                found.append(change)
            assert len(found) < 5_000, "retention never comes to rest"
            if forgetting.rest_s() < RETENTION_EVERY_S:
                forgetting._next_s = 0.0
        return found

    def launches(self) -> list[tuple[str, int, int, int]]:
        """(schedule, instant, kind, state) of every launch recorded."""
        return self.db.execute(
            "SELECT coalesce(s.id, r.id), l.instant_s, l.kind, l.state FROM launch l "
            "LEFT JOIN schedule s ON s.sid = l.sid "
            "LEFT JOIN (SELECT DISTINCT sid, id FROM revision) r ON r.sid = l.sid ORDER BY l.lid"
        ).fetchall()

    def states_of(self, schedule: str) -> dict[int, str]:
        """Instant to state, of the scheduled launches of one schedule."""
        from tocsin.model.launch import LaunchState

        return {
            instant: LaunchState(state).name.lower()
            for found, instant, kind, state in self.launches()
            if found == schedule and kind == 0
        }


def _targets() -> dict[str, Target]:
    return {kind: _Receiver() for kind in ("null", "exec", "http")}


class _Rested(SystemClock):
    """It is always time for the next portion, and never for starting from the beginning."""

    def elapsed_s(self) -> float:
        return 0.0


async def _at_once(work: Callable[..., Any], *given: Any) -> Any:
    return work(*given)


def schedule_of(**fields: Any) -> Schedule:
    """A checked schedule with a target that does nothing."""
    return convert({"id": "s", "cron": "@every 60s", "target": {"kind": "null"}, **fields})


START = 1_700_000_000  # 2023-11-14T22:13:20Z
FAILED = Outcome(Verdict.FAILED, reason="exit status 1", exit_code=1)


def put(desk: Desk, **fields: Any) -> None:
    desk.command(PutSchedule(schedule_of(**fields)))


def at(desk: Desk, second: int) -> None:
    """So many seconds after the start, with everything decided that is due by then."""
    desk.now_ms = (START + second) * 1000
    desk.turns()


def only_flight(desk: Desk) -> int:
    (lid,) = desk.flights
    return lid
