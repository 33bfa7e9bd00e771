"""Replicas that begin with nothing may go on from a backup by themselves if nobody else does.

All that ``--cluster`` names have said that they remember nothing, or there would be no founding. So it is enough that
the cluster which wrote the backup consisted of these. One that is not among them may be running, with all that is in
the backup; and so may one that was at another address then, which is asked there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tocsin.errors import TocsinError
from tocsin.member.founding import Greeter
from tocsin.model.cluster import Member

_ASK_S = 3.0


class Heirs:
    """The founders of a cluster. ``spelt``: how they name each other."""

    def __init__(self, founders: Sequence[Member], spelt: str, greeter: Greeter) -> None:
        self._founders = {member.name: member.peer for member in founders}
        self._spelt = spelt
        self._greeter = greeter

    async def objection(self, members: Sequence[str]) -> str:
        """Why they may not, if the cluster consisted of these; empty: they may."""
        if not members:
            return "it does not say of which replicas its cluster consisted"
        before = [Member(name, peer) for name, _, peer in (each.partition("=") for each in members)]
        missing = [f"{each.name}={each.peer}" for each in before if each.name not in self._founders]
        if missing:
            of = "is" if len(missing) == 1 else "are"
            return f"{', '.join(missing)} of that cluster {of} not in --cluster, and may be running"
        moved = [each for each in before if each.peer and each.peer not in self._founders.values()]
        told = await asyncio.gather(*(self._goes_on(each) for each in moved))
        running = [
            f"{each.name}={each.peer}" for each, is_running in zip(moved, told, strict=True) if is_running
        ]
        return f"its cluster goes on: {', '.join(running)} answers" if running else ""

    async def _goes_on(self, member: Member) -> bool:
        """One of ours that is known by another address as well is no stranger."""
        try:
            hello = await asyncio.wait_for(self._greeter.hello(member), _ASK_S)
        except (TocsinError, TimeoutError):
            return False
        return (
            hello is not None
            and hello.condition in ("founded", "recovering")
            and hello.cluster != self._spelt
        )
