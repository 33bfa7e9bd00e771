"""What happened, line by line: the same seed gives the same lines, byte for byte."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import structlog

from tocsin.simulation.virtual import PROCESS

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50, "exception": 40}


class Line(NamedTuple):
    at_ms: float
    text: str

    def __str__(self) -> str:
        moment = datetime.fromtimestamp(self.at_ms / 1000, UTC)
        return f"{moment.isoformat(timespec='milliseconds')[:-6]}Z {self.text}"


class Trace:
    """The lines so far."""

    def __init__(self, now_ms: Callable[[], float], folder: Path) -> None:
        """``folder``: where on this machine the world is kept, which is no part of what happens in it."""
        self._now_ms = now_ms
        self._here = str(folder)
        self.lines: list[Line] = []

    def tell(self, text: str) -> None:
        self.lines.append(Line(self._now_ms(), text.replace(self._here, "")))

    def close(self) -> None:
        """Nothing more happens: what is left are the lines."""
        self._now_ms = float

    def digest(self) -> str:
        total = hashlib.blake2b(digest_size=12)
        for line in self.lines:
            total.update(f"{line.at_ms!r} {line.text}\n".encode())
        return total.hexdigest()

    def about(self, words: Sequence[str], before_ms: float) -> list[Line]:
        """Lines in which one of these occurs, up to that moment."""
        return [
            line
            for line in self.lines
            if line.at_ms <= before_ms and any(word in line.text for word in words)
        ]


@contextlib.contextmanager
def listening(trace: Trace) -> Iterator[None]:
    """What replicas log becomes part of the trace."""

    def heard(logger: Any, level: str, event: Any) -> Any:
        if _LEVELS.get(level, 20) >= 20:
            what = event.pop("event", "")
            error = event.pop("exc_info", None)
            facts = "".join(f" {key}={value}" for key, value in sorted(event.items()))
            cause = "" if error is None else f" {error!r}"
            trace.tell(f"{PROCESS.get() or 'world'}: {what}{facts}{cause}")
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[heard], cache_logger_on_first_use=False)
    try:
        yield
    finally:
        structlog.configure(**before)
