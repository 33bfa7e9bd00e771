"""What an entry can say happened.

Changes that come in herds are columns, not rows: five thousand starts are a few lists of integers, written and
applied in a few statements. Schedules and launches are referred to by the numbers that ``apply`` gave them
(``sid``, ``lid``), which are the same on every replica.

Decisions (the leader's own) come first in an entry: they were made on exactly the state that the entry is
appended to, so they hold without another look. Commands (a caller's) come after them and are judged by ``apply``,
which refuses the ones that no longer fit, in the same way on every replica.
"""

from __future__ import annotations

import msgspec

from tocsin.model.new import NewSchedules
from tocsin.model.schedule import Schedule
from tocsin.model.token import Session, Token


class _Change(msgspec.Struct, frozen=True, array_like=True, tag=True, tag_field="change"):
    """All changes share one wire form: an array that starts with the change's name."""


# Office


class TookOffice(_Change, frozen=True):
    """A replica became leader. What fell due before this moment and was not started has been missed, unless
    somebody was in office until a few seconds ago: then it is late."""

    term: int
    replica: str
    heard_ms: int = 0
    """When the former leader was last known to be there; 0: the last entry tells."""
    is_counted: bool = True
    """Is it known how much time has passed since? After a reboot only the wall clock tells, and it may be ahead."""
    is_timed: bool = True
    """False: the wall clock is not believed, so that nothing is decided yet."""


class Resigned(_Change, frozen=True):
    """The leader leaves office of its own will: nobody needs to wait."""


class Returned(_Change, frozen=True):
    """The leader was not able to act (suspend, stall, a clock stepped forward) since that moment."""

    absent_since_ms: int
    is_counted: bool = True
    """As in ``TookOffice``; not, if the wall clock stepped as far as it may."""


class Restored(_Change, frozen=True):
    """The journal was lost, and what was written after that moment with it. What fell due since may have been launched:
    it is in doubt."""

    since_ms: int
    is_timed: bool = True
    """False: the wall clock is not believed, so that nobody knows yet until when."""


class ClockSet(_Change, frozen=True):
    """The wall clock is right as it is at this moment, though entries were stamped with another time before: a person
    says so, or the other replicas. It may be earlier than the last entry."""

    now_ms: int
    actor: str = ""
    note: str = ""
    absent_since_ms: int | None = None
    """Since when nothing was decided, by the time before."""
    is_confirmed: bool = True
    """By a person."""


class ClockDoubted(_Change, frozen=True):
    """The leader's wall clock is not believed, and has not been for a while: nothing that depends on time was decided
    since that moment, by the time that is believed. Whoever leads next has to know."""

    since_ms: int


class Checkpoint(_Change, frozen=True):
    """Every replica makes a snapshot at this very entry, so that snapshots can be compared."""


class EntrySkipped(_Change, frozen=True):
    """Stands alone in the place of an entry that no replica could apply. What that entry said did not happen."""

    id: bytes
    """Of that entry."""


# Decisions about occurrences: each also says where the schedule's due row goes.
# An instant of None: there is no next occurrence. at = instant + delay.


class LaunchesStarted(_Change, frozen=True):
    """These occurrences start now, and each schedule's next instant is this: in one entry, never apart."""

    sids: list[int]
    versions: list[int]
    instants_s: list[int]
    next_instants_s: list[int | None]
    next_delays_ms: list[int] | None
    """None when there is no delay anywhere, which is the rule in a herd."""
    planned_ms: list[int | None] | None
    """Where jitter planned another moment than the instant itself."""


class LaunchesQueued(_Change, frozen=True):
    """These occurrences wait for an earlier launch of their schedule to end."""

    sids: list[int]
    versions: list[int]
    instants_s: list[int]
    next_instants_s: list[int | None]
    next_delays_ms: list[int]
    reasons: list[str]


class LaunchesSkipped(_Change, frozen=True):
    """These occurrences will not be launched, and why."""

    sids: list[int]
    versions: list[int]
    instants_s: list[int]
    next_instants_s: list[int | None]
    next_delays_ms: list[int]
    reasons: list[str]


class OccurrencesMissed(_Change, frozen=True):
    """All occurrences of a schedule from one instant up to, not including, another were missed and stay so."""

    sids: list[int]
    versions: list[int]
    from_s: list[int]
    before_s: list[int]
    reasons: list[str]


class DueMoved(_Change, frozen=True):
    """Nothing starts yet: the due row goes elsewhere (catching up is spread, or there was nothing to launch)."""

    sids: list[int]
    next_instants_s: list[int | None]
    next_delays_ms: list[int]


# Decisions about launches that exist


class AttemptsStarted(_Change, frozen=True):
    """A queued launch starts, a failed one is tried again, a doubtful one is called again."""

    lids: list[int]
    attempts: list[int]
    doubtful: list[bool] | None = None
    """Which of these may have been called before, in this very attempt, by a former leader. None: none of them."""


class CancelsOrdered(_Change, frozen=True):
    """These open launches make room for a newer occurrence."""

    lids: list[int]
    reasons: list[str]


class LaunchesAccepted(_Change, frozen=True):
    """The target took these; they run."""

    lids: list[int]
    attempts: list[int]
    called_ms: list[int | None] | None = None
    """When the calls were made. None: as good as at the start's entry, which is the rule in a herd."""


class LaunchesSucceeded(_Change, frozen=True):
    """These ended well. ``ended_ms`` and ``exit_codes`` are None where no target reported any."""

    lids: list[int]
    attempts: list[int]
    ended_ms: list[int] | None
    exit_codes: list[int | None] | None
    called_ms: list[int | None] | None = None
    """As in ``LaunchesAccepted``."""


class LaunchesEnded(_Change, frozen=True):
    """These ended otherwise: failed, skipped, cancelled or in doubt."""

    lids: list[int]
    attempts: list[int]
    states: list[int]
    reasons: list[str]
    ended_ms: list[int]
    exit_codes: list[int | None]
    called_ms: list[int | None] | None = None
    """As in ``LaunchesAccepted``."""
    held_ms: list[int | None] | None = None
    """Until when each that is in doubt keeps its place in ``overlap`` and in limits. None: nothing is in doubt."""


class AttemptsFailed(_Change, frozen=True):
    """An attempt ended badly and another one is due at ``retry_at_ms``."""

    lids: list[int]
    attempts: list[int]
    reasons: list[str]
    ended_ms: list[int]
    exit_codes: list[int | None]
    retry_at_ms: list[int]
    doubtful: list[bool]
    """Which of these attempts may have gone out."""
    called_ms: list[int | None] | None = None
    """As in ``LaunchesAccepted``."""
    held_ms: list[int | None] | None = None
    """Until when each that may have gone out keeps its place in limits, unless its repeat starts before. None: as it
    was recorded of a former attempt."""


class HandOversWithdrawn(_Change, frozen=True):
    """These starts never reached their target, for certain: the leader left office before the call. Whoever comes
    next makes the same attempt."""

    lids: list[int]
    attempts: list[int]


class HistoryForgotten(_Change, frozen=True):
    """Closed launches and former versions that are too old or too many, by number; a portion of what was missed, of
    absences and of records, by age."""

    lids: list[int]
    before_ms: int
    counted_lid: int = 0
    """Launches up to this number are counted from now on. 0: as before."""
    revision_sids: list[int] = []
    revision_versions: list[int] = []
    kept_each: int = 0
    """No schedule has more launches than this any more. 0: as before."""


# Commands


class SchedulePut(_Change, frozen=True):
    """Create or replace a schedule.

    ``expect``: None accepts anything, 0 demands that the id is free, n demands version n. The first instant was
    computed by the proposer at the entry's time; it is used only if the edit touches the timing at all.
    """

    schedule: Schedule
    resolved: str
    expect: int | None
    first_instant_s: int | None
    first_delay_ms: int
    actor: str = ""
    restored: int | None = None
    """The former version that this one is a copy of."""
    skip_past: bool = False
    """A moment that has passed (``@at``) is not made up for: it may have been launched elsewhere."""


class SchedulesCreated(_Change, frozen=True):
    """Many at once, whose ids were never in use, each with its first instant in the future or none. An import of
    millions is made of these; whatever needs a closer look is put one by one."""

    new: NewSchedules
    actor: str = ""


class ScheduleDeleted(_Change, frozen=True):
    id: str
    expect: int | None
    actor: str = ""


class ScheduleSwitched(_Change, frozen=True):
    """Paused or resumed. A resumed schedule's next instant was computed by the proposer."""

    id: str
    enabled: bool
    expect: int | None
    note: str
    first_instant_s: int | None
    first_delay_ms: int
    actor: str = ""


class LaunchRequested(_Change, frozen=True):
    """A person wants this schedule launched now."""

    id: str
    instant_s: int
    actor: str = ""


class CancelRequested(_Change, frozen=True):
    """A person wants this launch stopped."""

    schedule: str
    instant_s: int
    manual: bool
    reason: str
    actor: str = ""


class LaunchResolved(_Change, frozen=True):
    """A person has found out what became of a launch that was in doubt. No state: it is to be called again.
    ``attempt``: a replica tells how the call of that attempt ended. The fields behind it are of that call."""

    schedule: str
    instant_s: int
    manual: bool
    state: int | None
    note: str
    actor: str = ""
    attempt: int | None = None
    called_ms: int | None = None
    """As in ``LaunchesAccepted``."""
    ended_ms: int | None = None
    """None: at the time of the entry."""
    exit_code: int | None = None
    retry_at_ms: int | None = None
    """With the state ``retrying``: when another attempt is due."""
    is_uncalled: bool = False
    """That attempt was never called."""


class DueRepaired(_Change, frozen=True):
    """The next instants of these schedules were computed under a clock that was ahead. They are computed anew: not
    before now, and none that was launched."""

    sids: list[int]
    versions: list[int]
    instants_s: list[int]
    delays_ms: list[int]
    is_last: bool = False
    """All schedules were looked at."""
    actor: str = ""
    texts: list[str | None] | None = None
    """The settled text of what is to count from now; None: as it was."""


class BackfillRequested(_Change, frozen=True):
    """A person wants these occurrences launched after the fact. The proposer found that they never were."""

    id: str
    instants_s: list[int]
    actor: str = ""


class TokenCreated(_Change, frozen=True):
    token: Token
    actor: str = ""


class SessionOpened(_Change, frozen=True):
    session: Session


class TokenRevoked(_Change, frozen=True):
    id: str
    actor: str = ""


class TokensUsed(_Change, frozen=True):
    """When tokens were last used, to the minute or so."""

    ids: list[str]
    used_ms: list[int]


Change = (
    TookOffice
    | Resigned
    | Returned
    | Restored
    | ClockSet
    | ClockDoubted
    | Checkpoint
    | EntrySkipped
    | LaunchesStarted
    | LaunchesQueued
    | LaunchesSkipped
    | OccurrencesMissed
    | DueMoved
    | AttemptsStarted
    | CancelsOrdered
    | LaunchesAccepted
    | LaunchesSucceeded
    | LaunchesEnded
    | AttemptsFailed
    | HandOversWithdrawn
    | HistoryForgotten
    | SchedulePut
    | SchedulesCreated
    | ScheduleDeleted
    | ScheduleSwitched
    | LaunchRequested
    | CancelRequested
    | LaunchResolved
    | BackfillRequested
    | DueRepaired
    | TokenCreated
    | SessionOpened
    | TokenRevoked
    | TokensUsed
)
