"""Answers to calls that are not known to be recorded, on the disk of the replica that made them.

Where all replicas are stopped together, the answers to the last calls come when nobody leads any more. The next leader
asks this replica after its start, and learns what became of them, or that they were never made (``TOO_LATE``).
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import structlog

from tocsin.files import write_whole
from tocsin.replica.terms import OwnTerms
from tocsin.targets.contract import Outcome

log = structlog.get_logger()
KEPT_MAX = 10_000
KEPT_MS = 7 * 86_400_000


class KeptAnswer(msgspec.Struct, frozen=True):
    """How an attempt ended that was made in that term."""

    name: str
    attempt: int
    term: int
    outcome: Outcome
    kept_ms: int


_decode = msgspec.msgpack.Decoder(list[KeptAnswer]).decode


class KeptAnswers:
    """The file ``answers``."""

    def __init__(self, path: Path, own: OwnTerms) -> None:
        self._path = path
        self._own = own
        self._known: dict[tuple[str, int, int], KeptAnswer] = {}

    def load(self) -> None:
        try:
            found = _decode(self._path.read_bytes())
        except FileNotFoundError:
            return
        except (OSError, msgspec.MsgspecError) as wrong:  # to forget them only means doubt
            log.warning("answers to calls of an earlier process cannot be read", reason=str(wrong))
            return
        self._known = {(each.name, each.attempt, each.term): each for each in found}

    def of(self, name: str, attempt: int, term: int) -> Outcome | None:
        """None: nothing is known, or another disk led in that term."""
        found = self._known.get((name, attempt, term))
        if found is None or term not in self._own:
            return None
        # What was not called before a record was lost may have been called in the lost time.
        return None if found.outcome.is_too_late and not self._own.proves(term) else found.outcome

    def save(self, answers: list[KeptAnswer], now_ms: int) -> None:
        """These, and what was kept before: whether it was recorded since is not known here."""
        former = [each for each in self._known.values() if now_ms - each.kept_ms < KEPT_MS]
        kept = [*former, *answers][-KEPT_MAX:]
        try:
            if kept:
                write_whole(self._path, msgspec.msgpack.encode(kept))
            else:
                self._path.unlink(missing_ok=True)
        except OSError as wrong:
            log.warning("answers to the last calls cannot be kept", reason=str(wrong), answers=len(kept))
