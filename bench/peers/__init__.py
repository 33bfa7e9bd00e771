"""What others do with the same work. Each peer is a program of its own (``python -m bench.peers.apscheduler --help``),
so that its memory and its interpreter lock are its own; it prints one line of JSON.

They are used as their own documentation advises, durable where they offer it, and with whatever favours them: what is
due late is not dropped, tables are analysed after a bulk insert, and jobs do nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from bench.service import ROOT


class Unavailable(Exception):
    """This peer cannot be measured here; the text says what to install."""


def measured(peer: str, *words: object, timeout_s: float = 600) -> dict[str, Any]:
    """What this peer's program found."""
    done = subprocess.run(
        [sys.executable, "-m", f"bench.peers.{peer}", *map(str, words)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=timeout_s,
        check=False,
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise Unavailable(last[0])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
