"""What happened in one simulated world, as somebody who sees everything would tell it.

Checkers read this and nothing else. ``at_ms`` is the true time, in unix milliseconds, which no machine knows exactly;
``clock_ms`` is what the machine's own clock showed. A replica that is started again is another ``process``.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from tocsin.model.command import Command
from tocsin.model.entry import Entry
from tocsin.model.schedule import Schedule

Receiver = Literal["plain", "idempotent", "fenced", "workshop", "herd"]
"""Who gets the orders.

plain        does what it is told, each time
idempotent   does it once a name, however often it is told (the schedule says ``idempotent: true``)
fenced       idempotent, and refuses orders of a term lower than the highest it has seen for that schedule
workshop     runs on the calling replica's own disk, can be looked up there, and refuses a second order of the same
             name and attempt (``exec``)
herd         takes many orders in one call, idempotent (``null``)
"""


class Landed(msgspec.Struct, frozen=True):
    """An entry came to stand in the journal."""

    at_ms: float
    incarnation: str
    seq: int
    author: str
    process: int
    entry: Entry
    size: int = 0
    """Bytes, as the journal stores it."""


class Acknowledged(msgspec.Struct, frozen=True):
    """A replica was told that its entry stands in the journal."""

    at_ms: float
    incarnation: str
    seq: int
    id: bytes
    replica: str
    process: int


class Applied(msgspec.Struct, frozen=True):
    """A replica has applied an entry: this is what all that it applied adds up to."""

    at_ms: float
    incarnation: str
    seq: int
    replica: str
    process: int
    digest: str


class Snapped(msgspec.Struct, frozen=True):
    """A replica's tables, all rows of them, add up to this."""

    at_ms: float
    incarnation: str
    seq: int
    replica: str
    digest: str


class Authority(msgspec.Struct, frozen=True):
    """From one moment to another a replica took itself to be provably in office."""

    replica: str
    process: int
    term: int
    from_ms: float
    until_ms: float


class Call(msgspec.Struct):
    """An order reached its receiver."""

    at_ms: float
    sent_ms: float
    clock_ms: int
    """The caller's clock when it was sent."""
    replica: str
    process: int
    term: int
    name: str
    schedule: str
    instant_s: int
    attempt: int
    receiver: Receiver
    place: str
    """Which one: two orders meet only at the same place. A workshop is one disk."""
    had_effect: bool
    """It was done. False: it was refused as stale, or known already."""
    answer: str = ""
    """How it ended in truth: succeeded, failed, cancelled, or '' while it goes on. 'refused' without effect."""
    ended_ms: float | None = None
    is_told: bool = True
    """False: the receiver never tells its caller how it ended, though nothing between them is broken."""
    is_timed: bool = True
    """Had its caller believed its clock at some moment of that term?"""


class Asked(msgspec.Struct):
    """A client's command. ``outcome``: done, refused, nobody (nothing was done), uncertain; '' while it waits."""

    at_ms: float
    replica: str
    command: Command
    outcome: str = ""
    answered_ms: float | None = None
    told: str = ""


class Fault(msgspec.Struct):
    """Something was broken, until it was mended."""

    at_ms: float
    until_ms: float | None
    kind: str
    text: str
    who: str = ""
    """The machine that was hit; empty: none in particular."""


class VersionRow(msgspec.Struct, frozen=True):
    """A version of a schedule, and when it was in force by the clock of whoever led."""

    id: str
    version: int
    enabled: bool
    resolved: str
    schedule: Schedule
    since_ms: int
    until_ms: int | None
    ended_by: str = ""


class LaunchRow(msgspec.Struct, frozen=True):
    """A launch as it is recorded in the end."""

    name: str
    schedule: str
    version: int
    instant_s: int
    is_manual: bool
    is_backfill: bool
    state: str
    reason: str
    attempt: int
    term: int
    planned_ms: int
    started_ms: int | None
    ended_ms: int | None
    cancel: str | None
    failed_attempts: tuple[tuple[int, int, str], ...] = ()
    """Former attempts: which, when it ended, and why."""
    held_ms: int | None = None
    """In doubt: until when it keeps its place."""
    doubt: int | None = None
    """The first attempt of which nobody knows how it ended."""


class MissedRow(msgspec.Struct, frozen=True):
    """Occurrences from one instant up to, not including, another that are recorded as missed."""

    schedule: str
    version: int
    from_s: int
    before_s: int
    at_ms: int
    reason: str


class Final(msgspec.Struct, frozen=True):
    """What the record says when all is over. ``due``: by schedule, the instant that comes next and when."""

    seq: int
    term: int
    leader: str
    versions: list[VersionRow]
    launches: list[LaunchRow]
    missed: list[MissedRow]
    absences: list[tuple[int, int]]
    due: dict[str, tuple[int, int]]
    deleted: list[str] = []
    """Names of those among the launches that retention has deleted."""


class Lost(msgspec.Struct, frozen=True):
    """The journal was lost: what was recorded after ``since_ms`` is not known any more at ``at_ms``."""

    at_ms: float
    since_ms: float
    former: str
    incarnation: str
    after: int
    """The journal with this incarnation goes on behind that entry of the former one."""


class PutBack(msgspec.Struct, frozen=True):
    """From ``at_ms`` to ``until_ms`` an old copy stood in place of the journal. It ended with entry ``after``."""

    at_ms: float
    until_ms: float
    after: int
    seen: dict[str, int]
    """By replica: the last entry that it had applied."""


class History(msgspec.Struct):
    """All of it."""

    began_ms: float = 0.0
    replicas: int = 3
    calm_ms: float = 0.0
    """From here on nothing is broken any more."""
    ended_ms: float = 0.0
    landed: list[Landed] = msgspec.field(default_factory=list)
    acknowledged: list[Acknowledged] = msgspec.field(default_factory=list)
    applied: list[Applied] = msgspec.field(default_factory=list)
    snapped: list[Snapped] = msgspec.field(default_factory=list)
    authorities: list[Authority] = msgspec.field(default_factory=list)
    calls: list[Call] = msgspec.field(default_factory=list)
    asked: list[Asked] = msgspec.field(default_factory=list)
    faults: list[Fault] = msgspec.field(default_factory=list)
    lost: list[Lost] = msgspec.field(default_factory=list)
    put_back: list[PutBack] = msgspec.field(default_factory=list)
    lies: set[str] = msgspec.field(default_factory=set)
    """Names of launches of which a target told something untrue when it was looked up."""
    timed: set[tuple[str, int, int]] = msgspec.field(default_factory=set)
    """Replica, process and term: those who believed their clock at some moment while they led."""
    clock_error_ms: float = 0.0
    """By how much a leader's clock was off at the most while it led, steps that were told as faults not counted."""
    launch_names: dict[tuple[str, int], set[str]] = msgspec.field(default_factory=dict)
    """By incarnation and number: the name of the launch that got that number (``lid``) when an entry was applied. More
    than one only where a journal was put back and gave the number out anew."""
    schedule_ids: dict[tuple[str, int], set[str]] = msgspec.field(default_factory=dict)
    """The same for the numbers of schedules (``sid``)."""
    deleted: dict[str, LaunchRow] = msgspec.field(default_factory=dict)
    """By name: launches that retention has deleted, as they were."""
    kept_each: int = 0
    """So many launches of each schedule are kept."""
    finals: dict[str, Final] = msgspec.field(default_factory=dict)
    """By replica."""
    begun_after: dict[str, int] = msgspec.field(default_factory=dict)
    """By incarnation: the last entry of a journal that there was before this world, and that goes on in it."""
    ended_badly: list[tuple[float, str, str]] = msgspec.field(default_factory=list)
    dropped: list[tuple[float, str, str]] = msgspec.field(default_factory=list)
    """Changes that a leader could not apply: when, who, and what was wrong."""
    """A replica that ended by itself: when, which, and why."""

    def final(self) -> Final | None:
        """As the leader records it; None: nobody leads in the end."""
        for name, final in self.finals.items():
            if final.leader == name:
                return final
        return None
