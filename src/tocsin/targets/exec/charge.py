"""An order on its way to a keeper, or running under one that this process started."""

from __future__ import annotations

import asyncio

from tocsin.targets.contract import Outcome


class Charge:
    """What is known of one hand-over, and who waits for more."""

    __slots__ = ("ended", "handed", "key", "payload", "sends", "text")

    def __init__(self, key: str = "") -> None:
        self.key = key
        """Names this hand-over: an earlier one of the same attempt may still be about, and be refused."""
        loop = asyncio.get_running_loop()
        self.handed: asyncio.Future[Outcome] = loop.create_future()
        """How the hand-over went."""
        self.ended: asyncio.Future[Outcome] = loop.create_future()
        self.text = self.payload = b""
        self.sends = 0
