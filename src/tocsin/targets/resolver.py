"""Names become addresses, and only permitted ones: whoever asks never gets to see the others.

This is what makes a name that points to a forbidden address, or points there only at the second look (DNS
rebinding), harmless: the addresses that were judged are the ones that are connected to.

A look-up cannot be broken off, and a name server that does not answer holds it for half a minute. So each has a
thread of its own, out of a limited number that the domains share fairly: names that nobody answers for cost their
own callers their time, and no one else's.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
from collections.abc import Callable

from aiohttp.abc import AbstractResolver, ResolveResult

from tocsin.clock import Clock, SystemClock
from tocsin.targets.fence import Fence
from tocsin.targets.slots import Slots

LOOKUPS_AT_ONCE = 64
LOOKUP_S_MAX = 10.0
REMEMBERED_S = 5.0
REMEMBERED_MAX = 1_000

Lookup = Callable[[str, int, socket.AddressFamily], list[ResolveResult]]


class FencedResolver(AbstractResolver):
    """A name server's answer, less what may not be called. Raises Denied if nothing is left of it."""

    def __init__(self, fence: Fence, inner: AbstractResolver | None = None) -> None:
        self._fence = fence
        self._inner = inner or SystemResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._inner.resolve(host, port, family)
        permitted = self._fence.permitted(host, [each["host"] for each in found])
        return [each for each in found if each["host"] in permitted]

    async def close(self) -> None:
        await self._inner.close()


def ask_system(host: str, port: int, family: socket.AddressFamily) -> list[ResolveResult]:
    """What the machine's own resolver says. Waits."""
    answers = socket.getaddrinfo(
        host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
    )
    flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    return [
        ResolveResult(hostname=host, host=str(where[0]), port=port, family=kind, proto=proto, flags=flags)
        for kind, _, proto, _, where in answers
        if kind in (socket.AF_INET, socket.AF_INET6)
    ]


class SystemResolver(AbstractResolver):
    """Look-ups on threads of our own. Who asks for a name that is being looked up shares the answer."""

    def __init__(self, lookup: Lookup = ask_system, clock: Clock | None = None) -> None:
        self._lookup = lookup
        self._clock = clock or SystemClock()
        self._slots = Slots(LOOKUPS_AT_ONCE)
        self._asked: dict[tuple[str, int, int], asyncio.Task[list[ResolveResult]]] = {}
        self._known: dict[tuple[str, int, int], tuple[float, list[ResolveResult]]] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        key = (host.lower(), port, int(family))
        until_s, answers = self._known.get(key, (0.0, []))
        if self._clock.elapsed_s() < until_s:
            return answers
        task = self._asked.get(key)
        if task is None:
            task = self._asked[key] = asyncio.create_task(self._ask(host, port, family))
            task.add_done_callback(lambda done: self._learn(key, done))
        # Whoever gives up does so for himself: others may wait for the same answer.
        return await asyncio.shield(task)

    async def close(self) -> None:
        for task in list(self._asked.values()):
            task.cancel()

    async def _ask(self, host: str, port: int, family: socket.AddressFamily) -> list[ResolveResult]:
        try:
            async with asyncio.timeout(LOOKUP_S_MAX):
                domain = ".".join(host.lower().rstrip(".").split(".")[-2:])
                await self._slots.take(domain)
                return await self._on_thread(domain, host, port, family)
        except TimeoutError:
            raise OSError(None, f"no address was found within {LOOKUP_S_MAX:g}s") from None

    def _on_thread(
        self, domain: str, host: str, port: int, family: socket.AddressFamily
    ) -> asyncio.Future[list[ResolveResult]]:
        """The slot is held until the thread has really ended, whoever still waits for it."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[ResolveResult]] = loop.create_future()

        def tell(found: list[ResolveResult] | OSError) -> None:
            self._slots.give_back(domain)
            if answer.done():
                return
            if isinstance(found, OSError):
                answer.set_exception(found)
            else:
                answer.set_result(found)

        def work() -> None:
            found: list[ResolveResult] | OSError
            try:
                found = self._lookup(host, port, family)
            except OSError as error:
                found = error
            except ValueError as error:  # a name that cannot be encoded
                found = OSError(None, str(error))
            try:
                loop.call_soon_threadsafe(tell, found)
            except RuntimeError:
                """The loop is closed: nobody wants to know any more."""

        # A daemon: a look-up that hangs must not keep the process from ending.
        try:
            threading.Thread(target=work, name="lookup", daemon=True).start()
        except RuntimeError as error:  # the system has no thread to give
            self._slots.give_back(domain)
            raise OSError(errno.EAGAIN, f"the name cannot be looked up: {error}") from error
        return answer

    def _learn(self, key: tuple[str, int, int], done: asyncio.Task[list[ResolveResult]]) -> None:
        self._asked.pop(key, None)
        if done.cancelled() or done.exception() is not None:
            return
        if len(self._known) >= REMEMBERED_MAX:
            self._known.clear()
        self._known[key] = (self._clock.elapsed_s() + REMEMBERED_S, done.result())
