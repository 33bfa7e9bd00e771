"""All the records of an ``exec_dir``: where each one is, what it says, and when it may go."""

from __future__ import annotations

import enum
import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from tocsin.clock import Clock, SystemClock
from tocsin.targets.contract import Outcome, Output, Verdict
from tocsin.targets.exec.processes import began_s, boot_id, lives
from tocsin.targets.exec.records import VOID, Record

_NAME_BYTES_MAX = 200
_AGREE_MS = 30_000
"""A wall clock that has stepped by less is believed (``ClockGuard``). Whether it was right before, or is right now,
cannot be known here; what was noted then is what others heard at that time."""


class Standing(enum.Enum):
    """What the record of an attempt says."""

    NO_CLAIM = 1
    RUNNING = 2
    OVER = 3


class Finding(NamedTuple):
    """What the record of an attempt says: which of its processes live, or how it ended."""

    standing: Standing
    keeper: str | None = None
    command: str | None = None
    outcome: Outcome | None = None


class Archive:
    """Finds the record of an attempt and reads it."""

    def __init__(self, exec_dir: Path, clock: Clock | None = None) -> None:
        self.exec_dir = exec_dir
        self.boot = boot_id()
        self._clock = clock or SystemClock()

    def record(self, name: str, attempt: int) -> Record:
        return Record(f"{self.exec_dir}/{directory_name(name)}/{attempt}")

    def look(self, record: Record) -> Finding:
        """What became of it. ``ended`` is read again once its keeper is found dead: it may just have come."""
        claim = record.claimed_by()
        if claim is None:
            return Finding(Standing.NO_CLAIM)
        if claim == VOID:
            reason = "the helper that starts commands did not take the order in time"
            return _over(Outcome(Verdict.NOT_STARTED, reason))
        ended = record.ended()
        if ended is not None:
            return _over(self._outcome_of(ended, claim))
        keeper = claim if lives(claim, self.boot) else None
        command = record.command()
        if command is not None and not lives(command, self.boot):
            command = None
        if keeper is not None or command is not None:
            return Finding(Standing.RUNNING, keeper, command)
        ended = record.ended()
        return _over(_lost(record, claim, self.boot) if ended is None else self._outcome_of(ended, claim))

    def _outcome_of(self, ended: dict[str, Any], claim: str) -> Outcome:
        return outcome_of(ended, self._clock if claim.startswith(self.boot) else None)

    def started_ms(self, record: Record) -> int | None:
        """When its command began, by the time that is believed. None: that is not known."""
        try:
            at_s = began_s(record.command() or "", self.boot)
        except OSError:
            return None
        noted_ms = record.began_ms()
        if at_s is None or noted_ms is None:
            return noted_ms
        return _believed_ms(self._clock, int(at_s * 1000), noted_ms)

    def output(self, record: Record) -> Output | None:
        """What it printed so far."""
        finding = self.look(record)
        if finding.standing is Standing.NO_CLAIM:
            return None
        dropped, _, tail = (record.read("tail") or b"0\n").partition(b"\n")
        return Output(record.read("head") or b"", tail, int(dropped), finding.standing is Standing.OVER)

    def over_before(self, cutoff_s: float) -> list[Record]:
        """Records of what was over before that moment. What lives is never among them."""
        return [record for record in self._unchanged_since(cutoff_s) if self._was_over(record, cutoff_s)]

    def _unchanged_since(self, cutoff_s: float) -> Iterator[Record]:
        """A record's directory itself changes last when ``ended`` is put into it. The clock may have been wrong then,
        but nothing ends before the second that its name tells."""
        for name in os.scandir(self.exec_dir):
            if name.is_dir(follow_symlinks=False) and _instant_s(name.name) < cutoff_s:
                with suppress(FileNotFoundError):  # another one may be pruning too
                    for attempt in os.scandir(name.path):
                        if attempt.stat(follow_symlinks=False).st_mtime < cutoff_s:
                            yield Record(attempt.path)

    def _was_over(self, record: Record, cutoff_s: float) -> bool:
        finding = self.look(record)
        if finding.standing is Standing.RUNNING:
            return False
        ended_ms = None if finding.outcome is None else finding.outcome.ended_ms
        return ended_ms is None or ended_ms < cutoff_s * 1000

    def remove(self, record: Record) -> None:
        shutil.rmtree(record.path, ignore_errors=True)
        record.unmake()

    def is_of_former(self, record: Record, asked_lid: int) -> bool:
        """Is it the record of an earlier launch of the same name, which was forgotten before a person asked for this
        one?"""
        noted = record.asked_lid() if asked_lid else None
        return noted is not None and noted != asked_lid

    def set_aside(self, record: Record) -> None:
        """In one step, so that nobody finds half of it. It is removed with the others of its time."""
        os.rename(record.path, f"{record.path}-taken-back-{time.time_ns()}")


def directory_name(name: str) -> str:
    """A launch's name as one directory's name: readable where possible, never over the limit of 255 bytes."""
    encoded = quote(name, safe="@+")
    if encoded.startswith("."):
        encoded = "%2E" + encoded[1:]
    if len(encoded) <= _NAME_BYTES_MAX:
        return encoded
    # '=' never comes out of the encoding above, so a shortened name cannot collide with a whole one.
    return f"{encoded[:120]}={hashlib.sha256(name.encode()).hexdigest()}"


def _instant_s(encoded: str) -> int:
    """The second of the occurrence, which a launch's name ends with; 0: the name was too long for that."""
    digits = encoded.removesuffix("-manual").rpartition("-")[2]
    return int(digits) if digits.isdecimal() else 0


def outcome_of(ended: dict[str, Any], clock: Clock | None) -> Outcome:
    """The outcome that a keeper wrote or said. No clock: that was before the machine was started again, and only the
    wall clock of then tells when."""
    boot_ms, ended_ms = ended.get("ended_boot_ms"), ended["ended_ms"]
    if clock is not None and isinstance(boot_ms, int):
        ended_ms = _believed_ms(clock, boot_ms, ended_ms)
    return Outcome(
        Verdict[ended["verdict"].upper()],
        ended["reason"],
        exit_code=ended["exit_code"],
        permanent=ended["permanent"],
        ended_ms=ended_ms,
        is_uncalled=ended.get("is_uncalled", False),
    )


def _believed_ms(clock: Clock, boot_ms: int, noted_ms: int) -> int:
    """That moment of the clock that never steps, by the wall time that is believed now. What was noted of the wall
    clock then is more exact, and always the same: it stands unless the clock has stepped far."""
    at_ms = clock.wall_ms() - max(0, round(clock.elapsed_s() * 1000) - boot_ms)
    return noted_ms if abs(noted_ms - at_ms) <= _AGREE_MS else at_ms


def _over(outcome: Outcome) -> Finding:
    return Finding(Standing.OVER, outcome=outcome)


def _lost(record: Record, claim: str, boot: str) -> Outcome:
    if not claim.startswith(boot):
        return Outcome(Verdict.UNKNOWN, "the machine was restarted while it ran, the exit status is lost")
    # The cancellation may have come after the end of the command: its exit status is not known.
    was_asked = "it was to be cancelled; " if record.cancel_asked() else ""
    return Outcome(Verdict.UNKNOWN, f"{was_asked}its keeper was killed, the exit status is lost")
