"""Every error Tocsin raises on purpose.

TocsinError                    .hint says what to do, .retryable whether trying again can help
├── InvalidInput               the caller's mistake: .field, .value, .allowed
│   └── InvalidSchedule        a schedule text or one of its policies
├── Refused                    a correct request that the present state does not allow
│   ├── NotFound               no such schedule or launch
│   ├── AlreadyExists          create of an id that is taken
│   ├── Forbidden              not allowed here: to this caller, or to anybody by the service's settings
│   └── VersionConflict        the caller edits a version that is no longer the newest
├── Unauthenticated            no token, or one that is not valid
├── TooMany                    asked faster than is allowed: .wait_s
├── JournalError
│   ├── Conflict               another entry holds that sequence number
│   │   ├── PresenceMoved      the leader was heard after it had last been observed: no election
│   │   └── PlaceTrimmed       the place of the entry was trimmed: it may have landed
│   ├── Unknown                the entry may have landed, or may land later
│   ├── JournalFull            no room: nothing landed, try again when there is room
│   ├── JournalUnavailable     the engine does not answer
│   ├── NotEnlisted            the replica is not among those of the journal, and may not take office: fatal
│   ├── Gap                    an entry is missing: fatal
│   ├── ChainBroken            the journal does not continue the entries that were applied here: fatal
│   └── WrongIncarnation       state and journal do not belong together: fatal
├── StateError
│   ├── Diverged               this replica's state differs from the others': fatal
│   ├── CannotApply            an entry that cannot be applied here: fatal
│   ├── UnknownChange          an entry of a kind this version does not know: fatal
│   ├── StateDamaged           the state file cannot be read: it is rebuilt
│   └── SnapshotDamaged        a snapshot's checksum does not match
├── BackupError                the place of the backups refuses, or is not what it should be
│   └── BackupUnavailable      it does not answer: another try may do
├── Stopping                   the service is on its way out: another try will find the next one
├── OfficeTaken                another process holds the office of this data directory
├── NameTaken                  another living replica has the same name
├── Deposed                    another replica took office
│   └── DeposedInDoubt         the same, and its last entry may have landed
├── NoLeader                   nobody leads at this moment, or not the one who was asked: nothing was done
├── ClockNotBelieved           the wall clock may be wrong, and the request depends on the time: nothing was done
├── Uncertain                  the answer was lost: it may have been done or not
├── ClusterError               a cluster that cannot be founded, joined or changed in this way
└── Unreachable                the service does not answer (raised by the client)
"""

from __future__ import annotations

import re

_SCHEME = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*::)*[A-Za-z][A-Za-z0-9+.-]*://")


def shown_url(url: str) -> str:
    """What of a URL may be shown: no user, no password, no options. A password may hold any character, so all up to the
    last ``@`` is taken for it, unless that is plainly a part of the path."""
    scheme = found[0] if (found := _SCHEME.match(url)) else ""
    login, at, where = url[len(scheme) :].rpartition("@")
    if at and "/" in login and ":" not in login:
        login, where = "", f"{login}@{where}"
    return f"{scheme}{'***@' if at and login else ''}{where.partition('?')[0]}"


def cuts_a_password(before: str, behind: str) -> bool:
    """Was a password cut at its ``?``: is what stands before it a user and half a password, and no host with a port?"""
    authority = before.partition("/")[0]
    _, colon, port = authority.rpartition(":")
    is_host = not colon or port.isdecimal() or authority.startswith("[")
    return "@" in behind and "@" not in before and not is_host


class TocsinError(Exception):
    """The root. ``str()`` is a full sentence for a person; ``hint`` is the remedy."""

    retryable = False

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class InvalidInput(TocsinError):
    """A value that cannot be accepted, with the field it stands in and what would be."""

    def __init__(self, message: str, *, field: str, value: object, allowed: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.field = field
        self.value = value
        self.allowed = allowed

    def __str__(self) -> str:
        parts = [f"{self.field}: {self.message}"]
        if self.allowed:
            parts.append(f"allowed: {self.allowed}")
        if self.hint:
            parts.append(self.hint)
        return "; ".join(parts)


class InvalidSchedule(InvalidInput):
    """A schedule text or policy that is refused."""


class Refused(TocsinError):
    """A correct request that the present state does not allow."""


class NotFound(Refused):
    """No such schedule or launch."""


class AlreadyExists(Refused):
    """A create of an id that is taken."""


class Forbidden(Refused):
    """Not allowed here: to this caller, or to anybody by the service's settings."""


class VersionConflict(Refused):
    """The caller edits a version that is no longer the newest."""


class Unauthenticated(TocsinError):
    """No token, or one that is not valid."""


class TooMany(TocsinError):
    """Somebody asks faster than is allowed."""

    retryable = True

    def __init__(self, message: str, *, hint: str = "", wait_s: int = 1) -> None:
        super().__init__(message, hint=hint)
        self.wait_s = wait_s


class JournalError(TocsinError):
    """Something about the journal."""


class Conflict(JournalError):
    """Another entry holds that sequence number."""


class PresenceMoved(Conflict):
    """The presence of the leader is not the one that was observed."""


class PlaceTrimmed(Conflict):
    """Its place was trimmed meanwhile: others write, and it may have landed before they did."""


class Unknown(JournalError):
    """The entry may have landed, or may land later."""

    retryable = True


class JournalFull(JournalError):
    """No room for the entry. It did not land."""

    retryable = True


class JournalUnavailable(JournalError):
    """The engine does not answer."""

    retryable = True


class NotEnlisted(JournalError):
    """This replica is not among those of the journal: it was removed, and may not take office."""

    @classmethod
    def of(cls, replica: str) -> NotEnlisted:
        return cls(
            f"{replica} was removed from the cluster: it does not take office, and stops",
            hint=f"to let it in again, run: tocsin cluster add {replica}=HOST:PORT, and start it",
        )


class Gap(JournalError):
    """An entry that must be there is missing."""


class ChainBroken(JournalError):
    """The journal does not continue the entries that this replica has applied: it lost some, or has others."""


class WrongIncarnation(JournalError):
    """State and journal do not belong together."""


class StateError(TocsinError):
    """Something about the local state."""


class UnknownChange(StateError):
    """An entry of a kind that this version does not know."""


class CannotApply(StateError):
    """An entry of the journal that cannot be read, or not be applied to this state."""

    def __init__(self, message: str, *, hint: str = "", seq: int = 0, id: bytes = b"") -> None:
        super().__init__(message, hint=hint)
        self.seq = seq
        self.id = id


class Diverged(StateError):
    """The state of this replica differs from that of the others."""


class StateDamaged(StateError):
    """The state file cannot be read."""


class SnapshotDamaged(StateError):
    """A snapshot's checksum does not match its content."""


class BackupError(TocsinError):
    """The place of the backups refuses, or is not what it should be."""


class BackupUnavailable(BackupError):
    """The place of the backups does not answer."""

    retryable = True


class Stopping(TocsinError):
    """The service is on its way out."""

    retryable = True


class OfficeTaken(TocsinError):
    """Another process holds the office."""


class NameTaken(TocsinError):
    """Another living replica of the journal has the name of this one."""


class Deposed(TocsinError):
    """Another replica took office."""


class DeposedInDoubt(Deposed):
    """Another replica leads, and the last entry of this one may have landed."""


class NoLeader(TocsinError):
    """Nobody leads at this moment, or not the one who was asked. Nothing was done."""

    retryable = True


class ClockNotBelieved(TocsinError):
    """The wall clock may be wrong, and the request depends on the time. Nothing was done."""


class Uncertain(TocsinError):
    """The answer was lost on the way: it may have been done or not."""


class ClusterError(TocsinError):
    """A cluster that cannot be founded, joined or changed in this way."""


class Unreachable(TocsinError):
    """The service does not answer."""

    retryable = True
