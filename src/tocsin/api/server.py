"""The API and the replica in one event loop, from start to clean end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sqlite3
from collections.abc import Awaitable, Callable, Iterator

import structlog
import uvicorn

from tocsin.api.app import build_app
from tocsin.config import Settings
from tocsin.errors import InvalidInput, TocsinError
from tocsin.replica.replica import Replica

log = structlog.get_logger()

GRACE_S = 5
"""How long requests that are under way may take when the service stops."""


class _Server(uvicorn.Server):
    """Signals are ours: the replica leaves office after the last request and before the process ends."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def run(replica: Replica, settings: Settings, on_ready: Callable[[str], Awaitable[None]]) -> int:
    """Serve until a signal comes or the replica fails. Returns the exit status of the process.

    ``on_ready`` is given the address, once requests are answered.
    """
    listener = bind(settings)
    stop = _on_signals()
    with contextlib.closing(listener):
        if not await _started(replica, settings, stop):
            return 0
        try:
            return await _serve(replica, settings, listener, stop, on_ready)
        finally:
            await replica.stop()


async def _started(replica: Replica, settings: Settings, stop: asyncio.Event) -> bool:
    """True when it is in office. False: it was told to stop before (a full disk can keep it waiting for long)."""
    starting = asyncio.create_task(_start(replica, settings), name="start")
    stopping = asyncio.create_task(stop.wait(), name="signal")
    await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not starting.done():
        starting.cancel()
        log.info("stopped before it took office")
        return False
    starting.result()
    return True


async def _start(replica: Replica, settings: Settings) -> None:
    try:
        await replica.start()
    except (OSError, sqlite3.Error) as wrong:
        raise InvalidInput(
            f"cannot work in {settings.data.absolute()}: {wrong}",
            field="data",
            value=str(settings.data),
            allowed="a directory on a local disk that this user may write to",
        ) from wrong


def bind(settings: Settings) -> socket.socket:
    """The address comes first: a replica should not take office to find out that nobody can reach it."""
    host, port = settings.address()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(1024)
    except OSError as wrong:
        listener.close()
        raise InvalidInput(
            f"cannot listen on {settings.listen}: {wrong.strerror or wrong}",
            field="listen",
            value=settings.listen,
            allowed="a free HOST:PORT of this machine",
            hint="is another Tocsin running there? choose another with --listen 127.0.0.1:PORT",
        ) from None
    return listener


async def _serve(
    replica: Replica,
    settings: Settings,
    listener: socket.socket,
    stop: asyncio.Event,
    on_ready: Callable[[str], Awaitable[None]],
) -> int:
    server = _Server(_config(replica, settings))
    serving = asyncio.create_task(server.serve(sockets=[listener]), name="api")
    stopping = asyncio.create_task(stop.wait(), name="signal")
    failing = asyncio.create_task(replica.failed(), name="failure")
    greeting = asyncio.create_task(_greet(on_ready, url_of(listener)), name="greeting")
    try:
        await asyncio.wait([serving, stopping, failing], return_when=asyncio.FIRST_COMPLETED)
    finally:
        server.should_exit = True
        greeting.cancel()
        await asyncio.gather(serving, greeting, return_exceptions=True)
        stopping.cancel()
    if failing.done():
        log.error("the scheduling loop has ended", reason=str(failing.result()), exc_info=failing.result())
        return 1
    failing.cancel()
    log.info("stopping")
    return 0


async def _greet(on_ready: Callable[[str], Awaitable[None]], url: str) -> None:
    """What goes wrong with a greeting is told, and is no reason to stop serving."""
    try:
        await on_ready(url)
    except TocsinError as wrong:
        log.error("ready, but not everything was done", reason=str(wrong))


def url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _config(replica: Replica, settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        build_app(replica, settings),
        http="h11",  # the strict parser: two Host headers or an odd method never get past it
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
        timeout_keep_alive=30,
        ws="none",
    )


def _on_signals() -> asyncio.Event:
    """The first signal asks for a clean end; after that signals mean what they always mean."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def noticed() -> None:
        stop.set()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, noticed)
    return stop
