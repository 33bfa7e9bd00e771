"""Whether a new journal may go on from a backup by itself. If the cluster that wrote it goes on elsewhere, everything
would be launched twice."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

Objection = Callable[[Sequence[str]], Awaitable[str]]
"""Given the replicas of the cluster that wrote the backup, each as ``NAME=HOST:PORT``: what speaks against it, in
words; empty: nothing."""


async def nobody_was_asked(members: Sequence[str]) -> str:
    """Where replicas share a journal that none of them runs, the others may be at another one."""
    return (
        f"{', '.join(members) or 'the cluster that wrote it'} may go on with another --journal than this one"
    )
