"""Processes found by what they were started with. Each is signalled by its id, never by a name that others may have."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path


def alive(pid: int) -> bool:
    """Is it there, and not a mere zombie?"""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def stopped(pid: int) -> bool:
    """Has SIGSTOP taken hold of it?"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    except (FileNotFoundError, ProcessLookupError):
        return False


def found(program: str, below: Path) -> list[int]:
    """Living processes of that program whose command line speaks of a place below that folder."""
    pids = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if Path(words[0]).name == program and _speaks_of(words, below) and alive(int(entry.name)):
                pids.append(int(entry.name))
    return sorted(pids)


def _speaks_of(words: list[str], below: Path) -> bool:
    return any(
        str(below) == word.partition("=")[2] or f"{below}/" in word or word == str(below) for word in words
    )


def send(pid: int, number: signal.Signals) -> bool:
    """False: there was nobody left to signal."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
