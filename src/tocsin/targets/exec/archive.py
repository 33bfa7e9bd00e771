"""All the records of an ``exec_dir``: where each one is, what it says, and when it may go."""

from __future__ import annotations

import enum
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from tocsin.targets.contract import Outcome, Output, Verdict
from tocsin.targets.exec.processes import boot_id, lives
from tocsin.targets.exec.records import VOID, Record

_NAME_BYTES_MAX = 200


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

    def __init__(self, exec_dir: Path) -> None:
        self.exec_dir = exec_dir
        self.boot = boot_id()

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
            return _over(outcome_of(ended))
        keeper = claim if lives(claim, self.boot) else None
        command = record.command()
        if command is not None and not lives(command, self.boot):
            command = None
        if keeper is not None or command is not None:
            return Finding(Standing.RUNNING, keeper, command)
        ended = record.ended()
        return _over(_lost(record, claim, self.boot) if ended is None else outcome_of(ended))

    def output(self, record: Record) -> Output | None:
        """What it printed so far."""
        finding = self.look(record)
        if finding.standing is Standing.NO_CLAIM:
            return None
        dropped, _, tail = (record.read("tail") or b"0\n").partition(b"\n")
        return Output(record.read("head") or b"", tail, int(dropped), finding.standing is Standing.OVER)

    def over_before(self, cutoff_s: float) -> list[Record]:
        """Records of what was over before that moment. What lives is never among them."""
        return [record for record in self._unchanged_since(cutoff_s) if not self._runs(record)]

    def _unchanged_since(self, cutoff_s: float) -> Iterator[Record]:
        """A record's directory itself changes last when ``ended`` is put into it."""
        for name in os.scandir(self.exec_dir):
            if name.is_dir(follow_symlinks=False):
                with suppress(FileNotFoundError):  # another one may be pruning too
                    for attempt in os.scandir(name.path):
                        if attempt.stat(follow_symlinks=False).st_mtime < cutoff_s:
                            yield Record(attempt.path)

    def _runs(self, record: Record) -> bool:
        return self.look(record).standing is Standing.RUNNING

    def remove(self, record: Record) -> None:
        shutil.rmtree(record.path, ignore_errors=True)
        record.unmake()


def directory_name(name: str) -> str:
    """A launch's name as one directory's name: readable where possible, never over the limit of 255 bytes."""
    encoded = quote(name, safe="@+")
    if encoded.startswith("."):
        encoded = "%2E" + encoded[1:]
    if len(encoded) <= _NAME_BYTES_MAX:
        return encoded
    # '=' never comes out of the encoding above, so a shortened name cannot collide with a whole one.
    return f"{encoded[:120]}={hashlib.sha256(name.encode()).hexdigest()}"


def outcome_of(ended: dict[str, Any]) -> Outcome:
    """The outcome that a keeper wrote or said."""
    return Outcome(
        Verdict[ended["verdict"].upper()],
        ended["reason"],
        exit_code=ended["exit_code"],
        permanent=ended["permanent"],
        ended_ms=ended["ended_ms"],
    )


def _over(outcome: Outcome) -> Finding:
    return Finding(Standing.OVER, outcome=outcome)


def _lost(record: Record, claim: str, boot: str) -> Outcome:
    if not claim.startswith(boot):
        return Outcome(Verdict.UNKNOWN, "the machine was restarted while it ran, the exit status is lost")
    if record.cancel_asked():
        return Outcome(Verdict.CANCELLED, "cancelled; its keeper was killed, the exit status is lost")
    return Outcome(Verdict.UNKNOWN, "its keeper was killed, the exit status is lost")
