"""When a leader's authority ends, nothing more may reach a target: each one asks here right before it acts.

Imports nothing, because the small helper that starts commands asks too.
"""

from __future__ import annotations

AUTHORITY_ENDED = "authority ended before the call"
"""The reason of what is ``not_started`` because it came too late."""


def has_ended(until_s: float | None, now_s: float) -> bool:
    """Both on ``CLOCK_BOOTTIME``, which counts on while a process is paused or the machine asleep."""
    return until_s is not None and now_s >= until_s
