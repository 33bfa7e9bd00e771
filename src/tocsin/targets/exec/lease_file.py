"""The file ``.lease``, as Tocsin writes it. What keepers read of it is in ``lease``."""

from __future__ import annotations

import os
from pathlib import Path

import structlog

from tocsin.targets.exec.lease import line_of

log = structlog.get_logger()
_UNTOLD = "keepers of commands cannot be told that authority lasts"


class Lease:
    """How long authority lasts, by terms. What it says here, it has said to keepers before."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._descriptor: int | None = None
        self._term, self._until_s = 0, 0.0

    def begin(self) -> None:
        """Open the file, without the line of a former process."""
        try:
            how = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            self._descriptor = os.open(self.path, how, 0o600)
        except OSError as wrong:
            log.warning(_UNTOLD, reason=str(wrong))

    def end(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def until_s(self, term: int) -> float:
        return self._until_s if term == self._term else 0.0

    def renew(self, term: int, until_s: float) -> None:
        if self._descriptor is None or (term, until_s) <= (self._term, self._until_s):
            return
        try:
            os.pwrite(self._descriptor, line_of(term, until_s), 0)
        except OSError as wrong:  # a full disk: then commands that are slow to start begin anew
            log.warning(_UNTOLD, reason=str(wrong))
            return
        self._term, self._until_s = term, until_s
