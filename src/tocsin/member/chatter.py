"""What etcd prints: kept in a file that cannot grow for ever, and asked for its last words.

A file and not a pipe, because etcd lives on when Tocsin is killed, and would die of a pipe that nobody reads.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import msgspec

_BYTES_MAX = 8 << 20
_LOOK_BYTES = 64 << 10
_WORDS_MAX = 400
_GRAVE = ("error", "fatal", "panic", "dpanic")
_LOST_LOG = re.compile(r"tocommit\(\d+\) is out of range \[lastIndex\(\d+\)\]\. Was the raft log .*")


class _Line(msgspec.Struct):
    level: str = ""
    msg: str = ""
    error: str = ""


class Chatter:
    """``etcd.log``, and ``etcd.log.1`` for what came before."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mark = 0

    def open(self) -> BinaryIO:
        """For a new process. Its last words are looked for behind this place."""
        self.rotate()
        file = _opened(self._path, os.O_APPEND)
        self._mark = os.fstat(file.fileno()).st_size
        return file

    def listen_from_here(self) -> None:
        """What was said before was another process, or is an old story."""
        self._mark = self._size()

    def rotate(self) -> None:
        """Copied and cut off, not renamed: etcd goes on writing to the file that it has. It repeats what strangers
        send to it, as fast as they can, so that only the end is copied."""
        size = self._size()
        if size <= _BYTES_MAX:
            return
        before = self._path.with_name(self._path.name + ".1")
        with self._path.open("rb") as file, _opened(before, os.O_TRUNC) as copy:
            file.seek(size - _BYTES_MAX)
            copy.write(file.read(_BYTES_MAX))
        os.truncate(self._path, 0)
        self._mark = 0

    def has_said(self, message: str) -> bool:
        """Lately, and as its own words: what strangers send stands in its log too, as fields of a line."""
        told = (_told(line) for line in self._lately())
        return any(line is not None and line.msg == message for line in told)

    def has_lost_log(self) -> bool:
        """Did etcd panic because its leader knows that this log was longer once?"""
        told = (_told(line) for line in self._lately())
        return any(
            line is not None and line.level == "panic" and _LOST_LOG.fullmatch(line.msg) for line in told
        )

    def last_words(self) -> str:
        """The gravest thing that it said last, as one line."""
        lines = [line for line in self._lately() if line.strip()]
        for line in reversed(lines):
            if line.startswith("panic:"):
                return line[:_WORDS_MAX]
            told = _told(line)
            if told is not None and told.level in _GRAVE:
                return f"{told.msg}: {told.error}"[:_WORDS_MAX] if told.error else told.msg[:_WORDS_MAX]
        return _plain(reversed(lines))

    def _lately(self) -> list[str]:
        """Lines, which end with a line feed and with nothing else that a stranger could send."""
        size = self._size()
        if size == 0:
            return []
        with self._path.open("rb") as file:
            file.seek(max(self._mark, size - _LOOK_BYTES))
            return file.read().decode(errors="replace").split("\n")

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0


def _opened(path: Path, how: int) -> BinaryIO:
    """For this user only, even where it was there before and was not."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | how, 0o600)
    os.fchmod(descriptor, 0o600)
    return os.fdopen(descriptor, "wb")


def _told(line: str) -> _Line | None:
    try:
        return msgspec.json.decode(line, type=_Line)
    except msgspec.MsgspecError:
        return None


def _plain(lines: Iterable[str]) -> str:
    """What is said before its log is set up is no JSON."""
    return next((line.strip()[:_WORDS_MAX] for line in lines if not line.startswith(("{", "\t"))), "")
