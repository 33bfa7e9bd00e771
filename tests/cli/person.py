"""A person at a terminal: sees what is printed, colours and all, and answers when asked."""

from __future__ import annotations

import os
import pty
import subprocess

from tests.cli.conftest import TOCSIN, environment


def at_a_terminal(
    url: str, *words: str, answer: str = "", asks: bytes = b"[y/N]: ", columns: int = 100
) -> tuple[int, str]:
    """The exit status of a command, and all that was shown. ``answer`` is typed when it asks, yes or no if nothing
    else is said."""
    ours, theirs = pty.openpty()
    running = subprocess.Popen(
        [*TOCSIN, *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**environment(url), "TERM": "xterm", "COLUMNS": str(columns)},
    )
    os.close(theirs)
    shown = b""
    while part := _read(ours):
        shown += part
        if answer and shown.endswith(asks):
            os.write(ours, f"{answer}\n".encode())
            answer = ""
    os.close(ours)
    return running.wait(30), shown.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""  # how Linux says that nobody writes to the terminal any more
