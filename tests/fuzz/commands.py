"""Random histories of one leader: every command with every option, decisions, outcomes, changes of leaders.

Everything goes through the code that a leader runs: ``agenda``, ``changes_of``, ``prepare``, ``apply``. A world is a
sequence of turns. Each turn draws from a random source of its own, so a turn can be left out without changing the
others: that is how ``shrink`` finds the few turns that are needed for a failure.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from tests.core.desk import Desk

from tocsin.decide import timeline
from tocsin.decide.due import Decision, DueRow
from tocsin.decide.retrace import Retrace
from tocsin.decide.settling import new_row
from tocsin.errors import Refused, TocsinError
from tocsin.journal import codec
from tocsin.model import change as c
from tocsin.model import command as cmd
from tocsin.model.ids import launch_name, parse_launch_name
from tocsin.model.launch import CLOSED_FROM, LaunchKind, LaunchState
from tocsin.model.new import columns_of
from tocsin.model.schedule import Checked, Schedule, convert
from tocsin.model.token import Session, Token
from tocsin.replica.audits import retraced
from tocsin.replica.flight import Flight, flight_of_row, flights_of_starts
from tocsin.replica.many import Many, prepare_many
from tocsin.replica.outcomes import changes_of, resolutions
from tocsin.replica.prepare import prepare
from tocsin.replica.reports import Reports
from tocsin.replica.scheduler import agenda
from tocsin.state import queries
from tocsin.state.apply import apply
from tocsin.state.digest import full_digest
from tocsin.state.store import CLOCKS_APART_MS, Store, load_meta
from tocsin.state.tables import started_at
from tocsin.state.views import decode_spec
from tocsin.targets.contract import Outcome, Verdict
from tocsin.targets.null import NullTarget

START_S = 1_711_846_500  # 2024-03-31T00:55:00Z, five minutes before clocks change in Europe
DAY_MS = 86_400_000
LONGEST_WAIT_MS = 2 * 3_600_000
"""Longer than any back-off that is drawn, and than doubt keeps its place."""
IDS = ("a", "b", "c/d", "c/e")
VERDICTS = (Verdict.SUCCEEDED, Verdict.FAILED, Verdict.NOT_STARTED, Verdict.UNKNOWN, Verdict.CANCELLED)
NO_CALL = Outcome(Verdict.NOT_STARTED, "no call was made", permanent=True)
Key = tuple[str, int]


class _Receiver(NullTarget):
    """It is never called, only asked whether it deduplicates. It does not."""

    def idempotent(self, spec: object) -> bool:
        return False


TARGETS = {kind: _Receiver() for kind in ("null", "exec", "http")}


class _Backup(NamedTuple):
    """The state and the journal of a moment, and what the targets had seen by then."""

    db: sqlite3.Connection
    entries: int
    called: set[Key]
    succeeded: set[str]
    doubted: set[str]


class World:
    """One state, its journal, and what its targets have seen."""

    def __init__(self) -> None:
        self.desk = Desk(START_S)
        self.flights: dict[int, Flight] = {}
        self.called: set[Key] = set()
        self.succeeded: set[str] = set()
        self.unsent: set[Key] = set()
        """Those of them that wait for a free place at their target, and those that never got it."""
        self.sent: set[str] = set()
        """Launches of which a call reached its target."""
        self.doubted: set[str] = set()
        """Launches whose call may have gone out, of schedules that say ``on_doubt: skip``."""
        self.lost: dict[str, int] = {}
        """Launches that were called, and the record of it lost: once more only by their policy, or a person's word."""
        self._backup: _Backup | None = None
        self._since_backup: dict[str, int] = {}
        """Launches that were called since then."""
        self._found_open: set[int] = set()
        """Launches that were open when a state was restored: nobody can tell what became of them."""
        self._tokens = itertools.count(1)

    def close(self) -> None:
        if self._backup is not None:
            self._backup.db.close()
        self.desk.close()

    @property
    def now_s(self) -> int:
        return self.desk.now_ms // 1000

    def turn(self, chance: random.Random) -> None:
        """One iteration of the leader's loop."""
        desk = self.desk
        desk.now_ms += chance.choice([0, 1, 400, 1_000, 5_000, 30_000, 61_000, 600_000, 7_200_000])
        if chance.random() < 0.08:
            self._change_of_leaders(chance)
        if chance.random() < 0.05:
            self._back_up()
        if self._backup is not None and chance.random() < 0.04:
            self._restore(self._backup, chance)
        if chance.random() < 0.04:
            self._set_clock(chance)
        plan = agenda(desk.store, desk.now_ms, chance.choice([1, 3, 1_000]))
        self._check_replaced(plan.decision)
        reports = self._reports(chance)
        commands, changes, many = self._commands(chance)
        told = self._told_late(chance, {command.about for command in commands})
        outcomes = changes_of(reports, dict(TARGETS), desk.now_ms)
        decisions = [*plan.changes(), *outcomes, *told, *self._chores(chance)]
        in_doubt = self._in_doubt()
        if not decisions and not changes:
            return
        results = desk.commit(*decisions, *changes)
        for change, result in zip(decisions, results, strict=False):
            assert not isinstance(result, Exception), f"a decision was refused: {change} {result}"
            if isinstance(change, c.LaunchesStarted):
                self._check_nothing_early(plan.decision.started_rows)
                self._call(flights_of_starts(plan.decision.started_rows, result, 1, desk.now_ms), chance)
        self._answered(commands, changes, results[len(decisions) :], many)
        self._check_cancelled(in_doubt, commands, decisions)
        wanted = [*plan.attempts.lids, *(r for r in results[len(decisions) :] if type(r) is int)]
        rows = [row for row in queries.orders(desk.db, wanted) if row.state == LaunchState.STARTED]
        self._call([flight_of_row(row, 1) for row in rows if row.lid not in self.flights], chance)

    # Parts of a turn

    def _change_of_leaders(self, chance: random.Random) -> None:
        desk = self.desk
        # Long: the machine was off, or its clock is ahead and was believed.
        desk.now_ms += chance.choice([0, 2_000, 90_000, 6 * 3_600_000])
        desk.take_office(is_counted=chance.random() < 0.5)
        if chance.random() < 0.2:
            self._lose_record()
            desk.commit(c.Restored(desk.now_ms - chance.choice([0, 60_000])))
            self._open_again()
        else:
            self._begin_again(chance)

    def _begin_again(self, chance: random.Random) -> None:
        """A new leader calls what was left open, under the same number: it was never called, or its owner would rather
        have it twice."""
        for lid, flight in list(self.flights.items()):
            key = flight.order.name, flight.order.attempt
            state = self.desk.db.execute("SELECT state FROM launch WHERE lid = ?", (lid,)).fetchone()
            if lid in self._found_open or state != (LaunchState.STARTED,) or chance.random() < 0.5:
                continue
            is_known = key in self.unsent and chance.random() < 0.5
            if not is_known and flight.spec.on_doubt != "relaunch":
                continue
            self.desk.commit(c.AttemptsStarted([lid], [flight.order.attempt], [not is_known]))
            flight.doubted |= not is_known
            if chance.random() < 0.5:  # otherwise it waits once more
                self.unsent.discard(key)
                self.sent.add(flight.order.name)

    def _back_up(self) -> None:
        if self._backup is not None:
            self._backup.db.close()
        copy = sqlite3.connect(":memory:")
        self.desk.db.backup(copy)
        self._since_backup.clear()
        self._backup = _Backup(
            copy, len(self.desk.records), set(self.called), set(self.succeeded), set(self.doubted)
        )

    def _restore(self, backup: _Backup, chance: random.Random) -> None:
        """Everything since the backup is lost: commands, decisions, outcomes. Only the targets know of it."""
        desk = self.desk
        backup.db.backup(desk.db)
        meta = desk.store.meta = load_meta(desk.db)
        del desk.records[backup.entries :]
        self.called, self.succeeded = set(backup.called), set(backup.succeeded)
        self.doubted = set(backup.doubted)
        if meta.time_ms > desk.now_ms + 60_000 and chance.random() < 0.5:  # the clock was ahead at the backup
            is_believed = chance.random() < 0.5
            desk.commit(c.TookOffice(meta.term + 1, "desk"), c.Restored(meta.time_ms, is_believed))
            desk.command(cmd.ConfirmClock(desk.now_ms))
            desk.returned(desk.now_ms)
        else:
            # On a machine whose clock is behind, perhaps, or long after.
            desk.now_ms = max(desk.now_ms, meta.time_ms) + chance.choice([-25_000, 2_000, 90_000])
            desk.commit(c.TookOffice(meta.term + 1, "desk"), c.Restored(meta.time_ms))
        self.lost |= self._since_backup
        self._forget_lost_ahead()
        self._open_again()

    def _forget_lost_ahead(self) -> None:
        """Calls of a time that has not come, on a clock that was ahead when the record was lost, or that is put back:
        nobody can know of them, except where the record ends ahead."""
        meta = self.desk.store.meta
        self.lost = {
            name: called_ms
            for name, called_ms in self.lost.items()
            if called_ms < self.desk.now_ms + CLOCKS_APART_MS
            or meta.lost_ahead_from_ms <= called_ms < meta.lost_ahead_until_ms
        }

    def _lose_record(self) -> None:
        """The record that is lost tells that what was queued has had its turn."""
        for row in queries.orders(self.desk.db, _queued(self.desk.db)):
            flight = flight_of_row(row, 1)
            self._note_call(flight.order.name, flight.order.attempt + 1)
            if flight.spec.on_doubt == "skip":
                self.doubted.add(flight.order.name)

    def _set_clock(self, chance: random.Random) -> None:
        """Forward, or back behind what was decided; a person says that it is right, and may have it repaired."""
        desk = self.desk
        now_ms = desk.now_ms + chance.choice([40 * DAY_MS, 7_200_000, -90_000, -7_200_000, -40 * DAY_MS])
        desk.command(cmd.ConfirmClock(now_ms))
        desk.now_ms = now_ms
        self._forget_lost_ahead()
        if chance.random() < 0.5:
            ids = [id for (id,) in desk.db.execute("SELECT id FROM schedule")]
            desk.command(cmd.RepairDue(ids, is_last=True))
            if not desk.store.meta.is_due_ahead:
                self._check_not_silent()

    def _open_again(self) -> None:
        """What a new leader finds open after a restore is concluded as unknown."""
        self.flights.clear()
        self._found_open.clear()
        for row in queries.orders(self.desk.db, queries.handed_over(self.desk.db)):
            flight = flight_of_row(row, 1)
            self._note_call(flight.order.name, flight.order.attempt)
            self.flights[flight.lid] = flight
            self._found_open.add(flight.lid)

    def _chores(self, chance: random.Random) -> list[c.Change]:
        found: list[c.Change] = []
        if chance.random() < 0.05:
            found.append(c.Checkpoint())
        if chance.random() < 0.3:
            never = 10**9
            keep = self.desk.retention(
                age_s=chance.choice([1, 600, 7_200, never]),
                each=chance.choice([1, 2, 5, never]),
                total=chance.choice([1, 3, never]),
            )
            change = keep._portion(self.desk.now_ms).change
            found += [] if change is None else [change]
        return found

    def _reports(self, chance: random.Random) -> Reports:
        reports = Reports()
        for lid in list(self.flights):
            if chance.random() < 0.5:
                continue
            flight = self.flights[lid]
            found = self.desk.db.execute("SELECT cancel, state FROM launch WHERE lid = ?", (lid,)).fetchone()
            if found is None:
                del self.flights[lid]
                continue
            flight.cancel = found[0]
            if lid in self._found_open:
                self._found_open.discard(lid)
                del self.flights[lid]
                reports.ended.append((flight, self._ended(flight, Verdict.UNKNOWN, chance)))
                continue
            key = flight.order.name, flight.order.attempt
            if key in self.unsent and chance.random() < 0.5:
                self.unsent.discard(key)
                self.sent.add(flight.order.name)
            is_unsent = key in self.unsent
            if chance.random() < 0.2 and not is_unsent:
                reports.accepted[lid] = flight
                continue
            del self.flights[lid]
            if chance.random() < (0.5 if is_unsent else 0.15):
                reports.withdrawn.append(flight)
                self.called.discard((flight.order.name, flight.order.attempt))
                continue
            if flight.deadline_ms is not None and chance.random() < 0.3:
                reports.expired.append(flight)
                self.called.discard((flight.order.name, flight.order.attempt))
                continue
            # Of what never got a place its leader's death leaves nothing but doubt.
            verdict = Verdict.UNKNOWN if is_unsent else chance.choice(VERDICTS)
            reports.ended.append((flight, self._ended(flight, verdict, chance)))
        return reports

    def _ended(self, flight: Flight, verdict: Verdict, chance: random.Random) -> Outcome:
        if verdict is Verdict.SUCCEEDED:
            self.succeeded.add(flight.order.name)
        if verdict is Verdict.UNKNOWN and flight.spec.on_doubt == "skip":
            self.doubted.add(flight.order.name)
        permanent = chance.random() < 0.2
        return Outcome(verdict, chance.choice(["", "why"]), permanent=permanent, ended_ms=self.desk.now_ms)

    def _told_late(self, chance: random.Random, but: set[str]) -> list[c.Change]:
        """A replica that was silent tells how a call of a former term ended. What is unknown because the record was
        lost is told by nobody."""
        if chance.random() < 0.7:
            return []
        lids = queries.doubted_since(self.desk.db, 0, 20)
        rows = [row for row in queries.orders(self.desk.db, lids) if row.attempt]
        flights = [flight_of_row(row, 1) for row in rows]
        known = [
            flight
            for flight in flights
            if (flight.order.name, flight.order.attempt) in self.called
            and flight.order.name not in {*self.lost, *but}
        ]
        if not known:
            return []
        flight = chance.choice(known)
        (is_first,) = self.desk.db.execute(
            "SELECT coalesce(doubt, attempt) = attempt FROM launch WHERE lid = ?", (flight.lid,)
        ).fetchone()
        if (flight.order.name, flight.order.attempt) in self.unsent:
            if not is_first:
                return []
            self.doubted.discard(flight.order.name)
            self.called.discard((flight.order.name, flight.order.attempt))
            flight.doubted = False
            return resolutions([(flight, NO_CALL, "b")], dict(TARGETS), self.desk.now_ms)
        verdict = chance.choice([Verdict.SUCCEEDED, Verdict.FAILED, Verdict.CANCELLED])
        self.doubted.discard(flight.order.name)
        return resolutions(
            [(flight, self._ended(flight, verdict, chance), "b")], dict(TARGETS), self.desk.now_ms
        )

    def _in_doubt(self) -> set[str]:
        lids = self.desk.db.execute(f"SELECT lid FROM launch WHERE state = {LaunchState.IN_DOUBT:d}")
        rows = queries.orders(self.desk.db, [lid for (lid,) in lids])
        return {flight_of_row(row, 1).order.name for row in rows}

    def _check_cancelled(
        self, before: set[str], commands: Sequence[cmd.Command], decisions: Sequence[c.Change]
    ) -> None:
        """To want something stopped says nothing of what became of it."""
        wanted = {command.name for command in commands if isinstance(command, cmd.CancelLaunch)} & before
        if any(isinstance(change, c.HistoryForgotten) for change in decisions):
            return
        settled = wanted - self._in_doubt()
        assert not settled, f"{settled} were in doubt, and a cancel has ended that"

    def _was_in_doubt(self, lid: int) -> bool:
        (doubt,) = self.desk.db.execute("SELECT doubt FROM launch WHERE lid = ?", (lid,)).fetchone()
        return doubt is not None

    def _call(self, flights: Sequence[Flight], chance: random.Random) -> None:
        for flight in flights:
            name, attempt = flight.order.name, flight.order.attempt
            assert (name, attempt) not in self.called, f"{name} attempt {attempt} is called twice"
            is_first = attempt == 1 or (name, attempt - 1) in self.called or self._was_in_doubt(flight.lid)
            assert is_first, f"{name} attempt {attempt} is called, and the one before it was not"
            assert name not in self.succeeded, f"{name} is called after it succeeded"
            assert name not in self.doubted, f"{name} is called although an earlier call may have gone out"
            may_repeat = (
                name not in self.lost or flight.spec.on_doubt == "relaunch" or self._was_jittered(flight)
            )
            assert may_repeat, f"{name} is called, and it was called in the time whose record was lost"
            self._note_call(name, attempt)
            self.flights[flight.lid] = flight
            if chance.random() < 0.25:
                self.unsent.add((name, attempt))
            else:
                self.unsent.discard((name, attempt))
                self.sent.add(name)

    def _was_jittered(self, flight: Flight) -> bool:
        """By the jitter that is known, its moment was not within the lost time. It may have been changed there."""
        (planned_ms,) = self.desk.db.execute(
            "SELECT coalesce(planned_ms, 0) FROM launch WHERE lid = ?", (flight.lid,)
        ).fetchone()
        return int(planned_ms) >= self.desk.store.meta.lost_until_ms

    def _note_call(self, name: str, attempt: int) -> None:
        self.called.add((name, attempt))
        # What waited in line may be called after the clock was put back.
        moment_ms = max(self.desk.now_ms, parse_launch_name(name).instant_s * 1000)
        self._since_backup.setdefault(name, moment_ms)

    def _commands(self, chance: random.Random) -> tuple[list[cmd.Command], list[c.Change], Many | None]:
        """Those that are accepted for this entry, with their changes: each about something else."""
        kept: list[cmd.Command] = []
        changes: list[c.Change] = []
        if chance.random() < 0.15:
            listed = self._list_of_schedules(chance)
            many = prepare_many(self.desk.db, listed, self.desk.now_ms)
            return [listed], many.changes, many
        for _ in range(chance.choice([0, 0, 1, 1, 1, 2, 4])):
            command = chance.choice(_COMMANDS)(self, chance)
            if command.about in {each.about for each in kept}:
                continue
            with contextlib.suppress(TocsinError):  # it is refused at once, and goes into no entry
                changes.append(prepare(self.desk.db, command, self.desk.now_ms))
                kept.append(command)
        return kept, changes, None

    def _answered(
        self,
        commands: Sequence[cmd.Command],
        changes: Sequence[c.Change],
        results: Sequence[Any],
        many: Many | None,
    ) -> None:
        if many is not None:
            for result in many.result(results).values():
                assert not isinstance(result, Exception) or isinstance(result, Refused), repr(result)
            return
        for command, change, result in zip(commands, changes, results, strict=True):
            assert not isinstance(result, Exception) or isinstance(result, Refused), repr(result)
            if isinstance(result, Exception):
                continue
            # A person wants it once more, or says that it was not done: then a backfill may call it.
            if isinstance(command, cmd.ResolveLaunch) and command.outcome in ("relaunch", "skipped"):
                self.doubted.discard(command.name)
                self.lost.pop(command.name, None)
            if isinstance(change, c.BackfillRequested) and isinstance(command, cmd.Backfill):
                self._backfilled(command, change)

    def _backfilled(self, command: cmd.Backfill, change: c.BackfillRequested) -> None:
        """A person may want occurrences launched whose record is no longer kept: they may have been launched before."""
        names = {launch_name(change.id, instant_s) for instant_s in change.instants_s}
        if not command.unrecorded:
            again = names & self.lost.keys()
            assert not again, f"a backfill takes for certain that {again} were not launched"
        else:
            for name in names:
                self.lost.pop(name, None)
            self.called = {key for key in self.called if key[0] not in names}
            attempts = dict(
                self.desk.db.execute(
                    "SELECT instant_s, attempt FROM launch WHERE kind = 0 AND attempt AND sid = "
                    "(SELECT sid FROM schedule WHERE id = ?)",
                    (change.id,),
                )
            )
            # One that was in doubt, and that a person said was not made, has had its number.
            self.called |= {
                (launch_name(change.id, instant_s), attempts[instant_s])
                for instant_s in change.instants_s
                if instant_s in attempts
            }
            self.succeeded -= names
            self.doubted -= names

    # Commands

    def schedule(self, chance: random.Random, id: str | None = None) -> Schedule:
        """Any schedule: also one that was over before it began."""
        moment = datetime.fromtimestamp(self.now_s + chance.choice([-86_400, -60, 0, 2, 90]), UTC)
        fixed = datetime.fromtimestamp(START_S + chance.choice([-60, 0, 600]), UTC)
        cron = [f"@at {when.isoformat()}" for when in (moment, fixed, fixed)]
        cron += ["* * * * *", "@every 37s", "*/20 * * * * *", "0 * * * *", "30 2 * * *", "0 0 29 2 *"]
        fields: dict[str, object] = {
            "id": id or chance.choice(IDS),
            "cron": chance.choice(cron),
            "target": {"kind": "null"},
            "timezone": chance.choice(["UTC", "Europe/Berlin"]),
            "missed": chance.choice(["skip", "last", "all"]),
            "overlap": chance.choice(["allow", "forbid", "replace", "queue"]),
            "on_doubt": chance.choice(["skip", "skip", "relaunch"]),
            "enabled": chance.random() < 0.85,
        }
        options: dict[str, Sequence[object]] = {
            "deadline": ["1s", "45s", "10m"],
            "jitter": ["1s", "50s", "1h", "1h"],
            "timeout": ["1s", "1h"],
            "catch_up_spread": ["5s", "1h"],
            "retry": [{"limit": 1, "backoff": "5s", "jitter": 0}, {"limit": 3, "max_backoff": "1s"}],
            "start": [moment.isoformat(), fixed.isoformat()],
            "end": [moment.isoformat(), "2024-04-01T00:00:00Z"],
            "labels": [{"team": "x"}],
            "description": ["x", "y"],
            "payload": [{"n": 1}, [1, 2], "text"],
        }
        for name, values in options.items():
            if chance.random() < 0.15:
                fields[name] = chance.choice(values)
        try:
            return convert(fields)
        except TocsinError:  # a window that ends before it starts, for example
            return convert({k: v for k, v in fields.items() if k not in ("start", "end")})

    def _list_of_schedules(self, chance: random.Random) -> cmd.PutSchedules:
        """What an import sends: some of it is as it was, some new, some changed."""
        rows = []
        for id in chance.sample([*IDS, "n1", "n2", "n3"], chance.randint(1, 4)):
            present = self._present(id)
            schedule = present if present and chance.random() < 0.4 else self.schedule(chance, id)
            checked = Checked(schedule, schedule.expression(), schedule.rule())
            # The list was read a moment ago.
            asked_s = self.now_s - chance.choice([0, 0, 3])
            rows.append(new_row(checked, msgspec.msgpack.encode(schedule), asked_s))
        expect, skip_past = chance.choice([None, 0]), chance.random() < 0.5
        return cmd.PutSchedules(columns_of(rows), expect=expect, actor="import", skip_past=skip_past)

    def _present(self, id: str) -> Schedule | None:
        found = self.desk.db.execute("SELECT spec FROM schedule WHERE id = ?", (id,)).fetchone()
        return None if found is None else decode_spec(found[0])

    def put(self, chance: random.Random) -> cmd.Command:
        schedule = self.schedule(chance)
        present = self._present(schedule.id)
        if present is not None and chance.random() < 0.6:  # an edit of one or two fields
            fields = ["deadline", "cron", "overlap", "enabled", "missed", "description", "on_doubt"]
            names = chance.sample(fields, 2)
            schedule = msgspec.structs.replace(present, **{name: getattr(schedule, name) for name in names})
        return cmd.PutSchedule(
            schedule,
            expect=chance.choice([None, None, 0, 1, 2]),
            restored=chance.choice([None, None, None, 1, 2]),
            skip_past=chance.random() < 0.4,
        )

    def delete(self, chance: random.Random) -> cmd.Command:
        return cmd.DeleteSchedule(chance.choice(IDS), expect=chance.choice([None, None, 1]))

    def switch(self, chance: random.Random) -> cmd.Command:
        return cmd.SwitchSchedule(
            chance.choice(IDS), chance.random() < 0.6, chance.choice([None, 3]), note="n"
        )

    def launch_now(self, chance: random.Random) -> cmd.Command:
        return cmd.LaunchNow(chance.choice(IDS))

    def cancel(self, chance: random.Random) -> cmd.Command:
        return cmd.CancelLaunch(self._name(chance))

    def resolve(self, chance: random.Random) -> cmd.Command:
        outcome = chance.choice(["succeeded", "failed", "skipped", "relaunch", "relaunch"])
        name = self._name(chance, f"AND state = {LaunchState.IN_DOUBT:d}" if chance.random() < 0.8 else "")
        return cmd.ResolveLaunch(name, outcome)

    def backfill(self, chance: random.Random) -> cmd.Command:
        id, from_s = chance.choice(IDS), self.now_s - chance.choice([60, 600, 7_200, 90_000])
        if self.lost and chance.random() < 0.7:
            name = parse_launch_name(chance.choice(sorted(self.lost)))
            id, from_s = name.schedule, name.instant_s
        until_s = from_s + chance.choice([1, 61, 3_600])
        return cmd.Backfill(
            id,
            from_s,
            until_s,
            unrecorded=chance.random() < 0.3,
            recorded_since_s=chance.choice([0, self.now_s - 600]),
        )

    def create_token(self, chance: random.Random) -> cmd.Command:
        number = next(self._tokens) if chance.random() < 0.7 else 1
        expires_ms = chance.choice([None, self.desk.now_ms + 1_000])
        return cmd.CreateToken(
            Token(f"{number:012x}", f"t{number % 3}", b"h", ("read",), expires_ms=expires_ms)
        )

    def revoke_token(self, chance: random.Random) -> cmd.Command:
        return cmd.RevokeToken(chance.choice(["t1", "t2", f"{1:012x}", f"{chance.randrange(30):016x}"]))

    def open_session(self, chance: random.Random) -> cmd.Command:
        id, token = f"{chance.randrange(30):016x}", f"{chance.choice([1, 1, 2]):012x}"
        expires_ms = self.desk.now_ms + chance.choice([1_000, 3_600_000])
        return cmd.OpenSession(Session(id, token, b"h", expires_ms, "::1"))

    def note_token_use(self, chance: random.Random) -> cmd.Command:
        ids = (f"{1:012x}", f"{chance.randrange(30):016x}", "gone")
        return cmd.NoteTokenUse(dict.fromkeys(ids, self.desk.now_ms))

    def confirm_clock(self, chance: random.Random) -> cmd.Command:
        return cmd.ConfirmClock(self.desk.now_ms)

    def repair_due(self, chance: random.Random) -> cmd.Command:
        return cmd.RepairDue(chance.sample(IDS, 2), is_last=chance.random() < 0.5)

    def checkpoint(self, chance: random.Random) -> cmd.Command:
        return cmd.MakeCheckpoint()

    def _name(self, chance: random.Random, condition: str = "") -> str:
        rows = self.desk.db.execute(
            "SELECT coalesce(s.id, (SELECT r.id FROM revision r WHERE r.sid = l.sid LIMIT 1)), l.instant_s, l.kind "
            f"FROM launch l LEFT JOIN schedule s ON s.sid = l.sid WHERE 1 {condition} ORDER BY l.lid DESC LIMIT 20"
        ).fetchall()
        rows = [row for row in rows if row[0] is not None]
        if not rows or chance.random() < 0.1:
            return launch_name(chance.choice(IDS), self.now_s - chance.randint(0, 100), chance.random() < 0.3)
        id, instant_s, kind = chance.choice(rows)
        return launch_name(id, instant_s, bool(kind))

    # What must hold after every turn

    def check(self) -> None:
        db, meta = self.desk.db, self.desk.store.meta
        count, enabled = db.execute("SELECT count(*), coalesce(sum(enabled), 0) FROM schedule").fetchone()
        assert (meta.schedules, meta.enabled) == (count, enabled)
        orphans = db.execute("SELECT sid FROM due WHERE sid NOT IN (SELECT sid FROM schedule WHERE enabled)")
        assert not orphans.fetchall(), "a schedule that is not there or paused is due"
        self._check_history()
        self._check_starts()
        self._check_losses()
        self._check_waits()
        silent = db.execute(
            "SELECT s.id FROM schedule s LEFT JOIN due d ON d.sid = s.sid WHERE s.enabled AND d.sid IS NULL "
            "AND s.resolved IN ('* * * * *', '*/20 * * * * *')"
        ).fetchall()
        for (id,) in silent:
            present = self._present(id)
            assert present is None or present.end is not None, f"{id} is enabled and will never be due again"

    def _check_nothing_early(self, rows: Sequence[DueRow]) -> None:
        for row in rows:
            planned_ms = (
                timeline.plan(row.resolved, row.zone, row.rule).slot(row.id, row.instant_s).planned_ms
            )
            assert planned_ms <= self.desk.now_ms, f"{row.id} at {row.instant_s} was to start at {planned_ms}"

    def _check_replaced(self, decision: Decision) -> None:
        """Whatever something is stopped for waits for it to stop."""
        waiting = set(zip(decision.queued.sids, decision.queued.instants_s, strict=True))
        assert waiting.issuperset(decision.replacing), "something is stopped for what does not come"

    def _check_not_silent(self) -> None:
        """A repair, or an issue that stays, ends every wait that a wrong clock brought about."""
        rows = self.desk.db.execute(
            "SELECT s.id, s.sid, s.resolved, s.zone, s.rule, d.instant_s, d.at_ms FROM schedule s "
            "JOIN due d ON d.sid = s.sid WHERE s.enabled AND d.instant_s > ?",
            (self.now_s,),
        ).fetchall()
        for id, sid, *settled, due_s, at_ms in rows:
            free_s = timeline.plan(*settled).next_instant(self.now_s)
            while free_s is not None and self._is_decided(sid, free_s):
                free_s = timeline.plan(*settled).next_instant(free_s)
            planned_ms = timeline.plan(*settled).slot(id, due_s).planned_ms
            assert at_ms <= planned_ms, f"{id} at {due_s} waits until {at_ms}, and nobody is told"
            is_next = free_s is None or due_s <= free_s
            assert is_next, (
                f"{id} waits for {due_s}, and nobody is told; now is {self.now_s}, {free_s} is free"
            )

    def _is_decided(self, sid: int, instant_s: int) -> bool:
        """Launched or skipped, even if its record is deleted; or missed in a time whose record was lost: it may have
        been."""
        found = self.desk.db.execute(
            "SELECT 1 FROM launch WHERE sid = ?1 AND instant_s = ?2 UNION ALL "
            "SELECT 1 FROM missed WHERE sid = ?1 AND from_s <= ?2 AND ?2 < before_s UNION ALL "
            "SELECT 1 FROM forgotten WHERE sid = ?1 AND epoch AND ?2 BETWEEN from_s AND upto_s",
            (sid, instant_s),
        )
        return found.fetchone() is not None

    def _check_waits(self) -> None:
        """Nothing waits for a time that a clock once showed, or to be called although it is to be stopped."""
        stopped = self.desk.db.execute(
            "SELECT lid FROM launch WHERE cancel IS NOT NULL "
            f"AND state IN ({LaunchState.RETRYING:d}, {LaunchState.QUEUED:d})"
        ).fetchall()
        assert not stopped, f"launches that are to be stopped wait: {stopped}"
        latest_ms = self.desk.now_ms + LONGEST_WAIT_MS
        for column in ("retry_at_ms", "held_ms"):
            found = self.desk.db.execute(
                f"SELECT lid, {column} FROM launch WHERE {column} > ?", (latest_ms,)
            ).fetchall()
            assert not found, f"{column} is later than any wait: {found}"
        certain = self.desk.db.execute(
            f"SELECT lid FROM launch WHERE held_ms IS NOT NULL AND state <> {LaunchState.IN_DOUBT:d} "
            f"AND (state >= {CLOSED_FROM} OR doubt IS NULL)"
        ).fetchall()
        assert not certain, f"launches keep places, and no call of theirs may still run: {certain}"

    def _check_history(self) -> None:
        db, meta = self.desk.db, self.desk.store.meta
        counted = db.execute(
            "SELECT sid, version, count(*) FROM launch WHERE lid <= ? GROUP BY sid, version ORDER BY sid, version",
            (meta.counted_lid,),
        ).fetchall()
        assert counted == db.execute("SELECT * FROM kept ORDER BY sid, version").fetchall()
        assert meta.launches_kept == sum(count for _, _, count in counted)
        lost = db.execute(
            "SELECT lid FROM launch l WHERE NOT EXISTS "
            "(SELECT 1 FROM schedule s WHERE s.sid = l.sid AND s.version = l.version) AND NOT EXISTS "
            "(SELECT 1 FROM revision r WHERE r.sid = l.sid AND r.version = l.version)"
        ).fetchall()
        assert not lost, f"the version of launches was deleted: {lost}"

    def _check_starts(self) -> None:
        later = self.desk.db.execute(
            f"SELECT l.lid, {started_at('l')} AS shown, a.started_ms FROM launch l JOIN attempt a ON a.lid = l.lid "
            "AND a.attempt = (SELECT min(attempt) FROM attempt WHERE lid = l.lid AND started_ms IS NOT NULL) "
            "WHERE shown > a.started_ms"
        ).fetchall()
        assert not later, f"launches that are shown as started after one of their attempts: {later}"
        skipped = self.desk.db.execute(
            "SELECT l.lid, a.attempt, a.reason FROM launch l JOIN attempt a ON a.lid = l.lid "
            f"WHERE l.state = {LaunchState.SKIPPED:d} AND NOT a.doubtful"
        ).fetchall()
        assert not skipped, f"launches are skipped, though an attempt of them was made: {skipped}"
        ended = self.desk.db.execute(
            "SELECT (SELECT id FROM schedule WHERE sid = l.sid UNION SELECT id FROM revision WHERE sid = l.sid), "
            f"l.instant_s, l.kind, l.state FROM launch l WHERE l.state >= {CLOSED_FROM} "
            f"AND ({started_at('l')} IS NOT NULL OR l.state = {LaunchState.FAILED:d} AND l.reason LIKE '%told by %')"
        )
        for id, instant_s, kind, state in ended:
            name = launch_name(id, instant_s, kind == LaunchKind.MANUAL)
            how = LaunchState(state).name.lower()
            assert name in self.sent, f"{name} is {how} or shown as started, and was never called"

    def _check_losses(self) -> None:
        """What was called in a lost time is not told as skipped for certain, unless it may be repeated: then it counts
        as if it had not been."""
        skipped = self.desk.db.execute(
            "SELECT coalesce(s.id, r.id), coalesce(s.spec, r.spec), l.instant_s, l.kind, l.reason FROM launch l "
            "LEFT JOIN schedule s ON s.sid = l.sid AND s.version = l.version "
            "LEFT JOIN revision r ON r.sid = l.sid AND r.version = l.version "
            f"WHERE l.state = {LaunchState.SKIPPED:d} AND l.doubt IS NULL AND l.reason NOT LIKE '%lost%'"
        )
        for id, spec, instant_s, kind, reason in skipped:
            name = launch_name(id, instant_s, kind == LaunchKind.MANUAL)
            is_certain = name in self.lost and decode_spec(spec).on_doubt == "skip"
            assert not is_certain, (
                f"{name} is skipped ({reason}), and was called in the time whose record was lost"
            )


_COMMANDS: tuple[Callable[[World, random.Random], cmd.Command], ...] = (
    *[World.put] * 5,
    *[World.delete] * 2,
    World.switch,
    World.switch,
    World.launch_now,
    World.cancel,
    *[World.resolve] * 2,
    *[World.backfill] * 2,
    World.create_token,
    World.open_session,
    World.revoke_token,
    World.note_token_use,
    World.checkpoint,
    World.confirm_clock,
    *[World.repair_due] * 3,
)


def play(seed: str, turns: Sequence[int]) -> Exception | None:
    """Play these turns of that world, then replay its journal. The error, if anything went wrong."""
    world = World()
    try:
        for turn in turns:
            world.turn(random.Random(f"{seed} {turn}"))
            world.check()
        _replay(world)
        _retrace(world)
    except (AssertionError, sqlite3.Error, ValueError, TypeError, KeyError, TocsinError) as wrong:
        return wrong
    finally:
        world.close()
    return None


def _queued(db: sqlite3.Connection) -> list[int]:
    return [lid for (lid,) in db.execute(f"SELECT lid FROM launch WHERE state = {LaunchState.QUEUED:d}")]


def _replay(world: World) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "state.db")
        store.db.execute("PRAGMA synchronous = OFF")
        for seq, raw in enumerate(world.desk.records, 1):
            apply(store, seq, codec.decode(raw, seq), raw)
        assert full_digest(store.db) == full_digest(world.desk.db), "a replay gives another state"
        store.close()


def _retrace(world: World) -> None:
    """The journal shows nothing that must not be: all of it, and what is left of it wherever it is trimmed. A start is
    held against its version only if nothing was forgotten since: a journal reaches back less far than history does."""
    entries = [(seq, codec.decode(raw, seq)) for seq, raw in enumerate(world.desk.records, 1)]
    forgotten = [seq for seq, entry in entries for it in entry.changes if isinstance(it, c.HistoryForgotten)]
    for first in range(0, len(entries), 10):
        found = [
            finding
            for finding in retraced(world.desk.db, Retrace(), entries[first:])
            if finding.kind not in ("no_occurrence", "not_in_force")
            or (finding.sequence or 0) > max(forgotten, default=0)
        ]
        assert not found, f"from entry {first + 1} on: {found}"


def shrink(seed: str, turns: Sequence[int]) -> list[int]:
    """As few turns as still fail in the same way."""
    kept = list(turns)
    kind = type(play(seed, kept))
    size = len(kept) // 2
    while size:
        at = 0
        while at < len(kept):
            fewer = kept[:at] + kept[at + size :]
            if type(play(seed, fewer)) is kind:
                kept = fewer
            else:
                at += size
        size //= 2
    return kept
