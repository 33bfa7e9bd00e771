"""The API and the replica in one event loop, from start to clean end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import gc
import resource
import signal
import socket
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple

import structlog
from litestar.types import ASGIApp
from uvicorn.config import Config
from uvicorn.server import Server

from tocsin.api.app import Console, build_app
from tocsin.api.around import Around
from tocsin.api.door.access import ensure_admin
from tocsin.api.door.lobby import Lobby, Patience
from tocsin.api.door.protocol import PatientProtocol
from tocsin.api.door.proxies import TrustedProxies
from tocsin.api.door.tls import Certificate, certificate
from tocsin.api.door.tls_listener import TlsListener
from tocsin.api.resources.streams import STREAM_PATHS, Streams
from tocsin.config import Settings
from tocsin.errors import InvalidInput, NoLeader, TocsinError, Uncertain
from tocsin.replica.replica import Replica

log = structlog.get_logger()

GRACE_S = 5
"""How long requests that are under way may take when the service stops."""
STREAMS_END_S = 0.3
"""How long readers of streams may take to hear that it is over. Nobody waits for the ones that do not read."""
YOUNG_OBJECTS = 10_000
"""After so many new ones memory is swept. By itself Python does so with every second request, a tenth of its time."""


class _Server(Server):
    """uvicorn, but the signals, the protocol and TLS are ours.

    Signals: the replica leaves office after the last request and before the process ends.
    """

    def __init__(self, config: Config, lobby: Lobby, shown: Certificate | None) -> None:
        super().__init__(config)
        self._lobby = lobby
        self._certificate = shown
        self._ending = asyncio.Event()

    def end(self) -> None:
        self.should_exit = True
        self._ending.set()

    async def main_loop(self) -> None:
        """uvicorn looks ten times a second whether it is to end and what the date is. Here whoever ends it says so, and
        the protocol makes the header with the date when it is needed."""
        await self._ending.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn does it for sockets that are there, with an end to every client's time to shake hands."""
        await self.lifespan.startup()
        protocol = functools.partial(
            PatientProtocol, self.config, self.server_state, self.lifespan.state, lobby=self._lobby
        )
        self.servers = []
        for each in sockets or ():
            if self._certificate is None:
                server: Any = await asyncio.get_running_loop().create_server(
                    protocol, sock=each, backlog=self.config.backlog
                )
            else:
                server = TlsListener(each, protocol, self._certificate, self._lobby, self.config.backlog)
            self.servers.append(server)
        self.started = True

    def give_up_streams(self) -> None:
        """What is left of the streams: their readers do not read, so they cannot even be told that it is over."""
        for each in list(self.server_state.connections):
            if isinstance(each, PatientProtocol) and each.cycle is not None:
                is_open = not each.cycle.response_complete
                if is_open and each.cycle.scope["path"] in STREAM_PATHS:
                    each.give_up()


async def run(
    replica: Replica,
    settings: Settings,
    on_ready: Callable[[str], Awaitable[None]],
    patience: Patience | None = None,
    around: Around | None = None,
    console: Console | None = None,
) -> int:
    """Serve until a signal comes or the replica fails. Returns the exit status of the process.

    ``on_ready`` is given the address, once requests are answered. ``around`` are the other replicas, ``console`` the
    pages that are served beside the API.
    """
    shown = certificate(settings)
    listener = bind(settings)
    stop = _on_signals()
    with contextlib.closing(listener):
        if not await _started(replica, settings, stop):
            return 0
        try:
            if settings.needs_tokens() and not await _has_admin(replica, settings, stop):
                return 0
            descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            lobby = Lobby(
                (patience or Patience()).within(descriptors), TrustedProxies(settings.proxy_networks())
            )
            door = _Door(listener, shown, lobby)
            streams = Streams(replica)
            # It takes a third of a second, in which the leader loop has its turns.
            app = await asyncio.to_thread(build_app, replica, settings, streams, around, console)
            return await _serve(replica, app, streams, door, stop, on_ready)
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
        await asyncio.gather(starting, return_exceptions=True)
        log.info("stopped before it was ready")
        return False
    starting.result()
    return True


async def _has_admin(replica: Replica, settings: Settings, stop: asyncio.Event) -> bool:
    """True when somebody can get in. In a cluster it may take until one of the replicas leads."""
    while not stop.is_set():
        try:
            await ensure_admin(replica, settings.admin_file())
            return True
        except (NoLeader, Uncertain) as wrong:
            log.warning("waits with the first token", reason=str(wrong))
        await replica.clock.wait(stop, 1.0)
    return False


async def _start(replica: Replica, settings: Settings) -> None:
    try:
        await replica.start()
    except (OSError, sqlite3.Error) as wrong:
        raise InvalidInput(
            f"cannot work in {settings.data.absolute()}: {getattr(wrong, 'strerror', None) or wrong}",
            field="data",
            value=str(settings.data),
            allowed="a directory on a local disk that this user may write to",
        ) from wrong


def bind(settings: Settings) -> socket.socket:
    """The address comes first: a replica should not take office to find out that nobody can reach it. Until it listens
    callers are refused, and can turn to another replica."""
    host, port = settings.address()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as wrong:
        listener.close()
        is_taken = wrong.errno == errno.EADDRINUSE
        raise InvalidInput(
            f"cannot listen on {settings.listen}: {(wrong.strerror or str(wrong)).lower()}",
            field="listen",
            value=settings.listen,
            allowed="a free HOST:PORT of this machine",
            hint="is another Tocsin running there? choose another with --listen 127.0.0.1:PORT"
            if is_taken
            else "127.0.0.1 is this machine alone, 0.0.0.0 all of its addresses",
        ) from None
    return listener


async def _serve(
    replica: Replica,
    app: ASGIApp,
    streams: Streams,
    door: _Door,
    stop: asyncio.Event,
    on_ready: Callable[[str], Awaitable[None]],
) -> int:
    server = make_server(app, door.lobby, door.shown)
    gc.set_threshold(YOUNG_OBJECTS)
    gc.freeze()  # what lives as long as the process need not be looked through whenever somebody sends a long list
    serving = asyncio.create_task(server.serve(sockets=[door.listener]), name="api")
    stopping = asyncio.create_task(stop.wait(), name="signal")
    failing = asyncio.create_task(replica.failed(), name="failure")
    greeting = asyncio.create_task(_greet(on_ready, door.url()), name="greeting")
    watching = asyncio.create_task(door.keep_fresh(), name="certificate")
    try:
        await asyncio.wait([serving, stopping, failing], return_when=asyncio.FIRST_COMPLETED)
    finally:
        server.end()
        await streams.end(STREAMS_END_S)
        server.give_up_streams()
        greeting.cancel()
        watching.cancel()
        await asyncio.gather(serving, greeting, watching, return_exceptions=True)
        stopping.cancel()
    wrong = failing.result() if failing.done() else _failure(serving)
    if wrong is not None:
        # What Tocsin itself raises says all there is to say; for anything else it takes the trace.
        trace = None if isinstance(wrong, TocsinError) else wrong
        log.error("the service ends", reason=str(wrong), exc_info=trace)
        return 1
    failing.cancel()
    log.info("stopping")
    return 0


def _failure(task: asyncio.Task[None]) -> BaseException | None:
    return None if task.cancelled() else task.exception()


async def _greet(on_ready: Callable[[str], Awaitable[None]], url: str) -> None:
    """What goes wrong with a greeting is told, and is no reason to stop serving."""
    try:
        await on_ready(url)
    except TocsinError as wrong:
        log.error("ready, but not everything was done", reason=str(wrong))


class _Door(NamedTuple):
    """Where and how callers are received."""

    listener: socket.socket
    shown: Certificate | None
    lobby: Lobby

    def url(self) -> str:
        return url_of(self.listener, tls=self.shown is not None)

    async def keep_fresh(self) -> None:
        if self.shown is not None:
            await self.shown.keep_fresh()


def url_of(listener: socket.socket, *, tls: bool = False) -> str:
    host, port = listener.getsockname()[:2]
    scheme = "https" if tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def make_server(app: Any, lobby: Lobby, shown: Certificate | None = None) -> _Server:
    """A server for any ASGI application, as ours is served."""
    patience = lobby.patience
    config = Config(
        app,
        http="h11",  # the strict parser: two Host headers or an odd method never get past it
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,  # whoever says to speak for others is not believed: not even from this machine
        timeout_graceful_shutdown=GRACE_S,
        timeout_keep_alive=patience.keep_alive_s,
        h11_max_incomplete_event_size=patience.head_bytes_max,
        ws="none",
    )
    return _Server(config, lobby, shown)


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
