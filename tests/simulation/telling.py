"""Histories made by hand: an ordinary world, in which everything goes as it should, to be told otherwise.

Replica ``a`` leads in term 1. The schedule ``s`` is created at ``T0`` and falls due every minute; each launch is
written down, acknowledged, called and recorded. A test changes what it is about.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tocsin.model import change as c
from tocsin.model.command import Command
from tocsin.model.entry import Entry
from tocsin.model.ids import launch_name
from tocsin.model.schedule import Schedule
from tocsin.model.target import ExecTarget, HttpTarget
from tocsin.simulation.checkers import ALL
from tocsin.simulation.history import (
    Acknowledged,
    Applied,
    Asked,
    Authority,
    Call,
    Fault,
    Final,
    History,
    Landed,
    LaunchRow,
    Lost,
    MissedRow,
    VersionRow,
)

T0 = 1_760_000_400
"""A whole minute."""
REPLICAS = ("a", "b", "c")


class Telling:
    """A history in the making."""

    def __init__(self, **policies: Any) -> None:
        self.history = History(
            began_ms=T0 * 1000.0, calm_ms=(T0 + 330) * 1000.0, ended_ms=(T0 + 590) * 1000.0
        )
        self.rows: dict[str, LaunchRow] = {}
        self.versions: list[VersionRow] = []
        self.missed: list[MissedRow] = []
        self.absences: list[tuple[int, int]] = []
        self.due: dict[str, tuple[int, int]] = {}
        self.seq = 0
        self.lid = 0
        self.incarnation = "journal-1"
        self.took_office("a", 1, T0)
        self.put(**policies)

    # What is told

    def entry(
        self,
        at_s: float,
        *changes: c.Change,
        term: int = 1,
        by: str = "a",
        process: int = 1,
        acked: bool = True,
    ) -> Landed:
        self.seq += 1
        entry = Entry(
            f"{self.incarnation}-{self.seq}-{by}".encode(),
            f"{self.incarnation}-{self.seq - 1}".encode(),
            term,
            int(at_s * 1000),
            list(changes) or [c.Checkpoint()],
        )
        landed = Landed(at_s * 1000, self.incarnation, self.seq, by, process, entry)
        self.history.landed.append(landed)
        if acked:
            self.acknowledge(landed)
        for replica in REPLICAS:
            self.history.applied.append(
                Applied(at_s * 1000 + 5, self.incarnation, self.seq, replica, 1, f"digest {self.seq}")
            )
        return landed

    def acknowledge(self, landed: Landed, after_ms: float = 5.0) -> None:
        self.history.acknowledged.append(
            Acknowledged(
                landed.at_ms + after_ms,
                landed.incarnation,
                landed.seq,
                landed.entry.id,
                landed.author,
                landed.process,
            )
        )

    def took_office(self, replica: str, term: int, at_s: float, until_s: float = 0) -> None:
        self.entry(at_s, c.TookOffice(term, replica), term=term, by=replica)
        until_ms = (until_s or T0 + 600) * 1000.0
        self.history.authorities.append(Authority(replica, 1, term, at_s * 1000 + 5, until_ms))

    def put(
        self, id: str = "s", at_s: float = T0, cron: str = "* * * * *", enabled: bool = True, **policies: Any
    ) -> VersionRow:
        former = [row for row in self.versions if row.id == id]
        if former:
            index = self.versions.index(former[-1])
            self.versions[index] = msgspec.structs.replace(
                former[-1], until_ms=int(at_s * 1000), ended_by="edited"
            )
        policies.setdefault("target", HttpTarget("http://plain-steady/"))
        schedule = Schedule(id=id, cron=cron, enabled=enabled, **policies)
        row = VersionRow(id, len(former) + 1, enabled, cron, schedule, int(at_s * 1000), None)
        self.versions.append(row)
        self.entry(at_s, c.SchedulePut(schedule, cron, None, None, 0))
        self.history.schedule_ids[self.incarnation, 1] = {id}
        return row

    def call(
        self,
        name: str,
        at_s: float,
        *,
        attempt: int = 1,
        by: str = "a",
        term: int = 1,
        answer: str = "succeeded",
        lasts_s: float | None = 0.05,
        **more: Any,
    ) -> Call:
        id, instant = name.removesuffix("-manual").rsplit("-", 1)
        facts = {"receiver": "plain", "place": "plain-steady", "had_effect": True, "process": 1, **more}
        call = Call(
            at_ms=at_s * 1000 + 12,
            sent_ms=at_s * 1000 + 10,
            clock_ms=int(at_s * 1000) + 10,
            replica=by,
            term=term,
            name=name,
            schedule=id,
            instant_s=int(instant),
            attempt=attempt,
            answer=answer,
            ended_ms=None if lasts_s is None else (at_s + lasts_s) * 1000 + 12,
            **facts,
        )
        self.history.calls.append(call)
        return call

    def start(self, instant_s: int, at_s: float | None = None, id: str = "s", **entry: Any) -> str:
        """The journal hears that an occurrence starts, and so does the record."""
        at_s = instant_s if at_s is None else at_s
        self.entry(at_s, c.LaunchesStarted([1], [1], [instant_s], [instant_s + 60], None, None), **entry)
        return self.row(instant_s, "started", id=id, started_ms=int(at_s * 1000))

    def row(self, instant_s: int, state: str, id: str = "s", manual: bool = False, **facts: Any) -> str:
        name = launch_name(id, instant_s, manual)
        self.lid += 1
        self.history.launch_names[self.incarnation, self.lid] = {name}
        version = max(row.version for row in self.versions if row.id == id)
        row = LaunchRow(
            name, id, version, instant_s, manual, False, state, "", 1, 1, instant_s * 1000, None, None, None
        )
        self.rows[name] = msgspec.structs.replace(row, **facts)
        return name

    def mark(self, name: str, **facts: Any) -> None:
        self.rows[name] = msgspec.structs.replace(self.rows[name], **facts)

    def launch(self, instant_s: int, at_s: float | None = None, **call: Any) -> str:
        """An occurrence that goes all its way."""
        at_s = instant_s if at_s is None else at_s
        name = self.start(instant_s, at_s)
        made = self.call(name, at_s, **call)
        state = made.answer or "running"
        reason = "" if state in ("succeeded", "running") else "status 500"
        ended_ms = None if made.ended_ms is None else int(made.ended_ms) + 2
        self.mark(name, state=state, reason=reason, ended_ms=ended_ms)
        return name

    def launches(self, first: int = 1, last: int = 9, **call: Any) -> list[str]:
        return [self.launch(T0 + 60 * minute, **call) for minute in range(first, last + 1)]

    def asked(self, at_s: float, command: Command, outcome: str = "done") -> None:
        self.history.asked.append(Asked(at_s * 1000, "a", command, outcome, at_s * 1000 + 20))

    def fault(self, kind: str, at_s: float, until_s: float | None = None) -> None:
        until_ms = None if until_s is None else until_s * 1000
        self.history.faults.append(Fault(at_s * 1000, until_ms, kind, kind))

    def lost(self, at_s: float, since_s: float, after: int) -> None:
        """All disks are gone, and a new journal goes on behind that entry."""
        former, self.incarnation = self.incarnation, "journal-2"
        self.history.lost.append(Lost(at_s * 1000, since_s * 1000, former, self.incarnation, after))
        self.seq = after

    def told(self) -> History:
        """As it stands. What comes next is the tenth minute, unless something else was said."""
        for row in self.versions:
            if row.enabled and row.until_ms is None:
                self.due.setdefault(row.id, (T0 + 600, (T0 + 600) * 1000))
        for replica in REPLICAS:
            self.history.finals[replica] = Final(
                self.seq,
                1,
                "a",
                list(self.versions),
                list(self.rows.values()),
                list(self.missed),
                list(self.absences),
                dict(self.due),
            )
        return self.history


def ordinary(**policies: Any) -> Telling:
    """Nine launches, all well."""
    telling = Telling(**policies)
    telling.launches()
    return telling


def at_workshop(**policies: Any) -> Telling:
    """The same with commands, nothing launched yet."""
    return Telling(target=ExecTarget(shell="steady"), **policies)


def found(telling: Telling | History, name: str) -> list[str]:
    """What one checker finds."""
    (checker,) = [checker for checker in ALL if checker.name == name]
    history = telling.told() if isinstance(telling, Telling) else telling
    return [finding.text for finding in checker.check(history)]


def all_found(telling: Telling) -> list[str]:
    """What all of them find."""
    history = telling.told()
    return [f"{checker.name}: {finding.text}" for checker in ALL for finding in checker.check(history)]
