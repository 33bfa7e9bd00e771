"""The servers of an etcd cluster: which of them to ask, and the connections to them.

The first one given that works is asked. One that failed is left alone until it answers again and knows a leader, which
is looked at in the background: nobody waits for it. When all have failed, the one that answered last is the first to
be asked.
"""

from __future__ import annotations

import asyncio
import math
import re
import ssl
import time
from collections.abc import Sequence
from typing import NamedTuple

from tocsin.errors import ClusterError, JournalUnavailable
from tocsin.journal.etcd import messages
from tocsin.journal.etcd.channel import Channel
from tocsin.journal.etcd.failures import Lost, NotSent, Said

CONNECT_S = 0.7
_LOOK_AGAIN_S = 0.3
_STATUS = "/etcdserverpb.Maintenance/Status"


class Endpoint(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Endpoints:
    """One connection to each server, made when it is needed."""

    def __init__(self, given: Sequence[Endpoint], tls: ssl.SSLContext | None) -> None:
        if tls is not None:
            tls.set_alpn_protocols(["h2"])
        self.given = tuple(given)
        self.tls = tls
        self._channels: dict[Endpoint, Channel] = {}
        self._locks = {endpoint: asyncio.Lock() for endpoint in given}
        self._failed: set[Endpoint] = set()
        self._answered_at: dict[Endpoint, float] = {}
        self._looking: asyncio.Task[None] | None = None

    def in_order(self) -> list[Endpoint]:
        """Those that work come first."""
        return sorted(self.given, key=self._rank)

    def answered(self, endpoint: Endpoint) -> None:
        self._answered_at[endpoint] = time.monotonic()

    async def channel(self, endpoint: Endpoint) -> Channel:
        """Raises NotSent, or ClusterError when the server is of a version that must not be used."""
        lock = self._locks.setdefault(endpoint, asyncio.Lock())
        async with lock:
            channel = self._channels.get(endpoint)
            if channel is None or not channel.is_open:
                channel = self._channels[endpoint] = await self._connected(endpoint)
            return channel

    async def failed(self, endpoint: Endpoint, why: str) -> None:
        """Ask others first, and make whoever still waits for this one look elsewhere."""
        if len(self.given) > 1:
            self._failed.add(endpoint)
            if self._looking is None or self._looking.done():
                self._looking = asyncio.create_task(self._look_again())
        if (channel := self._channels.pop(endpoint, None)) is not None:
            await channel.close(why)

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()

    async def _connected(self, endpoint: Endpoint) -> Channel:
        """Only a server that answers counts: a stopped process still accepts connections."""
        channel = await Channel.connect(endpoint.host, endpoint.port, self.tls, CONNECT_S)
        try:
            refuse_unfit(messages.status(await channel.call(_STATUS, b"", CONNECT_S)).version, endpoint)
        except Said:
            return channel  # it may keep its status from us; it answers all the same
        except Lost as wrong:
            await channel.close()
            raise NotSent(wrong.message) from wrong
        except (NotSent, ClusterError):
            await channel.close()
            raise
        except ValueError as wrong:
            await channel.close()
            raise NotSent(f"{endpoint} does not answer like etcd: {wrong}") from wrong
        self.answered(endpoint)
        return channel

    def _rank(self, endpoint: Endpoint) -> float:
        return -self._answered_at.get(endpoint, 0.0) if endpoint in self._failed else -math.inf

    async def _look_again(self) -> None:
        while self._failed:
            await asyncio.sleep(_LOOK_AGAIN_S)
            await asyncio.gather(*(self._look_at(endpoint) for endpoint in tuple(self._failed)))

    async def _look_at(self, endpoint: Endpoint) -> None:
        try:
            channel = await self.channel(endpoint)
            status = messages.status(await channel.call(_STATUS, b"", CONNECT_S))
        except Said:
            self._failed.discard(endpoint)
            return
        except (JournalUnavailable, ClusterError, ValueError):
            if (broken := self._channels.pop(endpoint, None)) is not None:
                await broken.close()
            return
        self.answered(endpoint)
        if status.leader != 0 and not status.is_learner:
            self._failed.discard(endpoint)


def refuse_unfit(version: str, endpoint: Endpoint) -> None:
    """Before 3.4 the protocol differs; 3.5.0 to 3.5.2 can lose what they acknowledged."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    if found is None:
        return
    number = tuple(int(part) for part in found.groups())
    if number < (3, 4, 0):
        raise ClusterError(
            f"etcd {version} at {endpoint} is too old", hint="use etcd 3.4 or newer, but not 3.5.0 to 3.5.2"
        )
    if (3, 5, 0) <= number <= (3, 5, 2):
        raise ClusterError(
            f"etcd {version} at {endpoint} is not used: 3.5.0 to 3.5.2 can corrupt their data when they are killed",
            hint="use 3.5.3 or newer, or 3.4",
        )
