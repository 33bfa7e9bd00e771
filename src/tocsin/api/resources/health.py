"""What somebody should look at, in sentences that name the command to look with.

Each issue is one function: it says nothing, or what is wrong. The order is how bad it is.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tocsin.api.service import BEHIND_MS_MAX, Service
from tocsin.cron import format_duration
from tocsin.decide.clock import AGREE_MS
from tocsin.model.token import reaches
from tocsin.replica.liveness import DISK_TAKES_NO_WRITES
from tocsin.state.counts import Counts, counts, newest_missed
from tocsin.state.queries import due_behind
from tocsin.state.store import DOUBT_OPEN_MS

OVERDUE_MS = 10_000
SILENT_MS = 180_000
"""After so long without a turn that was finished, the loop of a leader stands still."""
COUNTED_MAX = 100_000
"""So many schedules are counted for a sentence: more are told as that."""
SNAPSHOT_INTERVALS_MAX = 3
"""A snapshot is missing when so many of its intervals have passed."""
_ABOUT_ROOM = ("no room on the disk", "disk is full", "no space left", "No space left")
_ABOUT_DISK = (DISK_TAKES_NO_WRITES, " cannot be written: ", "entries cannot be applied")
DISK_FREE_PART_MIN = 0.05
DISK_FREE_BYTES_MIN = 100 * 1024 * 1024
DISK_FREE_BYTES_ENOUGH = 5 * 1024**3
"""With so much left a disk is not nearly full, however small a part of it that is: the service has time to be told."""

_UNLESS_REPEATED = "and are left out, unless on_doubt is 'relaunch'. 'tocsin run' launches one nevertheless."


class Disk(NamedTuple):
    """The room where the data is."""

    size: int
    free: int

    @property
    def is_nearly_full(self) -> bool:
        part = min(self.size * DISK_FREE_PART_MIN, DISK_FREE_BYTES_ENOUGH)
        return self.free < max(DISK_FREE_BYTES_MIN, part)


class Health(NamedTuple):
    """What was found at one moment."""

    now_ms: int
    counts: Counts
    disk: Disk | None
    """None: the disk does not say."""
    due_ahead: int = 0
    """How many schedules have their next instant behind the time up to which a clock was ahead, if nobody has repaired
    them since. Counted up to ``COUNTED_MAX``."""
    missed: Sequence[tuple[str, int]] = ()
    """Some of the stretches that nobody was in office for: the schedule, and the first instant."""

    @property
    def lag_ms(self) -> int:
        return self.counts.lag_ms(self.now_ms)


async def look(service: Service, within: Sequence[str] = ()) -> Health:
    """On a reader's thread: neither the state nor the disk holds anybody up. Only schedules that these prefixes reach
    are named."""
    meta = service.replica.meta
    ahead_ms = meta.ahead_until_ms if meta.is_due_ahead else 0
    return await service.replica.read(_look, service.now_ms(), service.data, within, ahead_ms)


def _look(
    db: sqlite3.Connection, now_ms: int, data: Path, within: Sequence[str], ahead_ms: int = 0
) -> Health:
    due_ahead = due_behind(db, ahead_ms, COUNTED_MAX) if ahead_ms > now_ms else 0
    missed = newest_missed(db, now_ms, within)
    return Health(now_ms, counts(db, now_ms), disk_of(data), due_ahead, missed)


def disk_of(data: Path) -> Disk | None:
    try:
        usage = shutil.disk_usage(data)
    except OSError:
        return None
    return Disk(usage.total, usage.free)


class Issue(NamedTuple):
    """Something that somebody should look at."""

    kind: str
    words: str


def issues(service: Service, found: Health, within: Sequence[str] = ()) -> list[str]:
    """The worst first. Empty: all is well."""
    return [issue.words for issue in issues_by_kind(service, found, within)]


def issues_by_kind(service: Service, found: Health, within: Sequence[str] = ()) -> list[Issue]:
    """The same, for who has more to say about some kinds of them."""
    told = {
        "unwritable": _cannot_write(service),
        "still": _stands_still(service, found),
        "silent": _is_silent(service, within),
        "wrong": _is_wrong(service),
        "lost": _replicas_are_lost(service),
        "not_joined": _replicas_have_not_joined(service),
        "lag": _lags(service, found),
        "clock": _clock_is_not_believed(service),
        "clocks": _clocks_differ(service),
        "ahead": _due_is_ahead(service, found),
        "left_out": _are_left_out(service, found),
        "disk": _disk_is_nearly_full(service, found),
        "in_doubt": _in_doubt(found),
        "released": _released(found),
        "stalled": _stalled(found),
        "failed": _failed(found),
        "missed": _missed(found),
        "snapshot": _snapshot_is_missing(service, found),
        "backup": _backup_is_missing(service),
    }
    return [Issue(kind, words) for kind, words in told.items() if words]


def uptime_s(service: Service) -> float:
    return service.replica.clock.elapsed_s() - service.started_s


def snapshot_age_s(service: Service, now_ms: int) -> float:
    """Of the newest one; while there is none, since the start of this process."""
    newest = service.replica.snapshotter.newest
    return uptime_s(service) if newest is None else max(0.0, (now_ms - newest.time_ms) / 1000)


def cannot_take_over(service: Service) -> str:
    """Why this replica could not lead where another one does; empty: it could, or it leads itself.

    A leader is heard several times a second, and tells which entry was its last.
    """
    own = service.replica.status()
    if own.role == "leader":
        return ""
    if own.role != "follower":
        return "it is starting" if own.role == "starting" else "it is stopping"
    behind_ms = service.now_ms() - service.replica.told_ms
    if behind_ms > BEHIND_MS_MAX:
        return f"what it knows is {_length(behind_ms)} old: it is behind, or nobody leads"
    return ""


def _cannot_write(service: Service) -> str:
    problem = service.replica.problem.rstrip(".")
    if not problem:
        return ""
    command = "'tocsin cluster'"
    if any(words in problem for words in _ABOUT_ROOM):
        command = f"'df -h {service.data}'"
    elif any(words in problem for words in _ABOUT_DISK):
        command = f"'findmnt -T {service.data}', 'dmesg'"
    return f"{_consequence(service, problem)} {command} and the log ('journalctl -u tocsin') tell more."


def _consequence(service: Service, problem: str) -> str:
    """A replica whose own etcd does not work writes through the etcds of the others, as long as they are a majority."""
    if not service.replica.parts.problem and service.replica.trouble.rstrip(".") == problem:
        return f"The etcd of this replica does not work, and only those of the others are left: {problem}."
    return f"Nothing can be written, so nothing is launched: {problem}."


def _stands_still(service: Service, found: Health) -> str:
    silent_ms = found.now_ms - service.replica.told_ms
    is_leader = service.replica.status().role == "leader"
    if silent_ms <= (SILENT_MS if is_leader else BEHIND_MS_MAX) or service.replica.problem:
        return ""
    if not is_leader:
        return (
            f"Nothing was heard of a leader for {_length(silent_ms)}: nobody leads, or this replica is behind. "
            "'tocsin cluster' shows who does."
        )
    return (
        f"The scheduling loop has finished no turn for {_length(silent_ms)}: it stands still. "
        "The log ('journalctl -u tocsin') may tell why; a restart loses nothing."
    )


def _replicas_are_lost(service: Service) -> str:
    rounds = service.replica.parts.rounds
    voters = rounds.voters()
    lost = [name for name in rounds.lost if name in voters.names]
    if not lost:
        return ""
    # The etcd of a replica that does not answer may run.
    needed = f"; it takes the etcds of {voters.needed} to write and to launch" if voters.needed > 1 else ""
    return (
        f"{len(lost)} of {len(voters.names)} replicas {'does' if len(lost) == 1 else 'do'} not answer "
        f"({', '.join(lost)}){needed}. 'tocsin cluster' shows who is there."
    )


def _replicas_have_not_joined(service: Service) -> str:
    """They were added and not started yet, or ``--recover`` went on without them."""
    rounds = service.replica.parts.rounds
    voters = rounds.voters().names
    absent = [name for name in rounds.lost if name not in voters]
    if not absent:
        return ""
    return (
        f"{len(absent)} of the replicas that may join {'has' if len(absent) == 1 else 'have'} not done so "
        f"({', '.join(absent)}), and nothing waits for them: start them, with an empty --data if their disks are lost, "
        "or take them off the list with 'tocsin cluster remove'."
    )


def _clocks_differ(service: Service) -> str:
    rounds = service.replica.parts.rounds
    apart = rounds.seen.clocks_apart_ms()
    clock = service.replica.clock
    leader_ms = clock.leader_ahead_ms()
    if not apart and leader_ms is not None and clock.is_believed and abs(leader_ms) > AGREE_MS:
        apart = {"the last leader": leader_ms}
    if not apart:
        return ""
    listed = ", ".join(f"{name} {ahead_ms / 1000:+.0f}s" for name, ahead_ms in sorted(apart.items()))
    whose = (
        f"The clocks of other replicas differ from the one here ({listed})"
        if not rounds.seen.is_clock_off
        else f"The clock here is not the one that is gone by ({listed}), so this replica does not stand for office"
    )
    return f"{whose}. 'timedatectl' or 'chronyc tracking' on each machine shows whether it is right."


def has_stopped(service: Service) -> str:
    """What was due since when while nothing was decided, here or by whoever leads; empty: nothing."""
    return service.replica.parts.silence.problem()


def audited(service: Service) -> str:
    """What the audit has found that must not be; empty: nothing. It keeps nobody from launching."""
    return service.replica.parts.auditor.note


def _is_silent(service: Service, within: Sequence[str]) -> str:
    problem, due = has_stopped(service), service.replica.parts.silence.due
    if not problem or due is None:
        return ""
    named = f" (of {due.id})" if reaches(within, due.id) else ""
    problem = problem.replace("an occurrence", f"an occurrence{named}", 1)
    leader = "" if service.replica.is_leader else f" The leader, {service.replica.meta.leader}, is heard of."
    return (
        f"{problem[0].upper()}{problem[1:]}.{leader} Save the log of whoever leads ('journalctl -u tocsin') and "
        "restart it, or have another one lead with 'tocsin cluster step-down': nothing is lost by either."
    )


def _is_wrong(service: Service) -> str:
    note = audited(service)
    return f"{note[0].upper()}{note[1:]}." if note else ""


def _lags(service: Service, found: Health) -> str:
    silence = service.replica.parts.silence
    if found.lag_ms <= OVERDUE_MS or silence.due is not None:
        return ""
    if limit := silence.limit or service.replica.parts.limits.most_waited_for():
        return (
            f"The earliest occurrence is overdue by {_length(found.lag_ms)}, and launches wait because the limit "
            f"{limit} is reached: 'tocsin limits' shows how many."
        )
    if silence.waits_for:
        return (
            f"The earliest occurrence is overdue by {_length(found.lag_ms)}, because so many calls of its kind wait "
            f"for an answer ({silence.waits_for}): 'tocsin launches --state started' shows them."
        )
    return (
        f"The earliest occurrence is overdue by {_length(found.lag_ms)}: "
        "'tocsin launches --state started' shows which calls it may be waiting for."
    )


def clock_problem(service: Service) -> str:
    """Why nothing that depends on time is decided here, or would be; empty: the clock is believed."""
    clock = service.replica.clock
    step_ms = clock.step_ms()
    if not step_ms:
        return ""
    shown = f"{_length(abs(step_ms))} {'ahead of' if step_ms > 0 else 'behind'}"
    if clock.state == "unknown":
        return f"the wall clock is {shown} the last entry"
    if clock.basis == "leader":
        return f"the wall clock is {shown} that of the last leader, and no other replica agrees with it"
    if clock.basis == "others":
        return f"the wall clock is {shown} the time that other replicas believe"
    return f"the wall clock has stepped: it is {shown} the time that was believed until then"


def _clock_is_not_believed(service: Service) -> str:
    problem = clock_problem(service)
    if not problem:
        return _leader_doubts_its_clock(service)
    problem = f"{problem[0].upper()}{problem[1:]}."
    if not service.replica.is_leader:
        return f"{problem} This replica does not decide anything if it comes to lead. 'chronyc tracking' tells more."
    return (
        f"{problem} Nothing is launched, nothing is forgotten and no token expires until it is right again or somebody "
        "says that it is: 'tocsin clock' shows it, 'tocsin clock confirm' confirms it, and 'timedatectl' or "
        "'chronyc tracking' tells where it is from."
    )


def _leader_doubts_its_clock(service: Service) -> str:
    if not service.replica.parts.is_leader_in_doubt:
        return ""
    return (
        f"The wall clock of the leader, {service.replica.meta.leader}, is not believed: nothing is launched until it "
        "is right again or somebody says that it is ('tocsin clock', asked of the leader). If the clock here is "
        "right, stop the leader for half a minute: then this replica can lead. 'chronyc tracking' on each machine "
        "tells more."
    )


def _due_is_ahead(service: Service, found: Health) -> str:
    """The clock was ahead, decided by it and was put back."""
    until_ms = service.replica.meta.ahead_until_ms
    if not service.replica.meta.is_due_ahead or until_ms <= found.now_ms:
        return ""
    number = found.due_ahead
    counted = f"more than {COUNTED_MAX - 1}" if number >= COUNTED_MAX else f"{number}"
    whose = (
        f"{counted} {'schedule has its' if number == 1 else 'schedules have their'} next instant after "
        f"{_written(until_ms)}, some of them because of that, and these do not launch until then"
        if number
        else "schedules may have their next instant later because of that"
    )
    return (
        f"The clock was {_length(until_ms - found.now_ms)} ahead, and was put back: {whose}. "
        "'tocsin repair due --preview' counts them, "
        "'tocsin repair due' computes their next instants anew."
    )


def _are_left_out(service: Service, found: Health) -> str:
    meta = service.replica.meta
    from_ms, until_ms = meta.lost_ahead_from_ms, meta.lost_ahead_until_ms
    if until_ms > found.now_ms:
        return (
            f"The record was lost while the clock was ahead: occurrences from {_written(from_ms)} to "
            f"{_written(until_ms)} may have been launched then, {_UNLESS_REPEATED}"
        )
    if found.now_ms < meta.doubtful_until_ms < DOUBT_OPEN_MS:
        return (
            "The record was lost, and the clock of whoever led then may have been some seconds ahead of ours: "
            f"occurrences up to {_written(meta.doubtful_until_ms)} may have been launched, {_UNLESS_REPEATED}"
        )
    return ""


def _disk_is_nearly_full(service: Service, found: Health) -> str:
    if found.disk is None or not found.disk.is_nearly_full:
        return ""
    return (
        f"The disk is nearly full, {found.disk.free // 1024**2} MB are left; when there is no room, nothing is "
        f"launched. 'df -h {service.data}' and 'du -sh {service.data}/*' show where it went."
    )


def _in_doubt(found: Health) -> str:
    number = found.counts.in_doubt
    if not number:
        return ""
    return (
        f"{_launches(number)} of the last 24 hours {'is' if number == 1 else 'are'} in doubt: "
        "'tocsin launches --state in_doubt' names them."
    )


def _released(found: Health) -> str:
    number = found.counts.released
    if not number:
        return ""
    return (
        f"{_launches(number)} in doubt {'has' if number == 1 else 'have'} given up {'its' if number == 1 else 'their'} "
        "place in overlap and limits, so what went before may still run beside what comes next: 'tocsin resolve' "
        "ends the doubt."
    )


def _stalled(found: Health) -> str:
    number = found.counts.stalled
    if not number:
        return ""
    return (
        f"{_launches(number)} {'has' if number == 1 else 'have'} been open for too long (past the time-out, or "
        "for more than a day): 'tocsin launches --state started,running,retrying' names what is open."
    )


def _failed(found: Health) -> str:
    if not found.counts.failed:
        return ""
    return (
        f"{_launches(found.counts.failed)} of the last 24 hours failed: "
        "'tocsin launches --state failed' names them."
    )


def _missed(found: Health) -> str:
    number = found.counts.missed
    if not number:
        return ""
    stretches = "One stretch of occurrences was" if number == 1 else f"{number} stretches of occurrences were"
    named = (
        ", ".join(f"'tocsin why {id} {instant_s}'" for id, instant_s in found.missed)
        or "'tocsin why ID TIME'"
    )
    return f"{stretches} missed and given up in the last 24 hours: {named} tells more."


def _snapshot_is_missing(service: Service, found: Health) -> str:
    """Only entries since the newest one make another necessary; time before this process does not count."""
    newest = service.replica.snapshotter.newest
    if newest is not None and newest.seq == service.replica.meta.seq:
        return ""
    age_s = min(snapshot_age_s(service, found.now_ms), uptime_s(service))
    every_s = max(service.snapshot_interval_s, service.replica.parts.checkpoint_every_s())
    if age_s <= SNAPSHOT_INTERVALS_MAX * every_s:
        return ""
    return (
        "There was no snapshot for several of its intervals, so the journal grows and a restart takes longer: "
        f"the log ('journalctl -u tocsin') says why, 'ls -l {service.data}/snapshots' what there is."
    )


def _backup_is_missing(service: Service) -> str:
    """Only who leads makes any."""
    backuper = service.replica.parts.backuper
    if backuper is None or not backuper.problem or not service.replica.is_leader:
        return ""
    return (
        f"There is no new backup: {backuper.problem.rstrip('.')}. It is tried again and again; "
        "'tocsin backup' tries at once and tells how it went."
    )


def _launches(count: int) -> str:
    return f"{count} launch" if count == 1 else f"{count} launches"


def _written(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")


def _length(ms: int) -> str:
    return format_duration(ms // 1000)
