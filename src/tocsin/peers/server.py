"""Answers the other replicas. It is there before the replica knows anything: ``hello`` and ``status`` always work."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, Protocol, TypeVar

import structlog
from aiohttp import web

from tocsin.errors import ClusterError, InvalidInput, NoLeader, NotFound, TocsinError, Unreachable
from tocsin.model.cluster import Asked, Hello, PeerStatus
from tocsin.model.command import Command
from tocsin.peers import messages
from tocsin.peers.listener import PeerListener
from tocsin.peers.messages import MEDIA_TYPE
from tocsin.replica.peers import Answered, Fate
from tocsin.state.snapshot import Manifest
from tocsin.targets.contract import Output

log = structlog.get_logger()
_T = TypeVar("_T")

REQUEST_BYTES_MAX = 16 * 1024 * 1024
PIECE = 256 * 1024
"""So much of a snapshot is read and sent at a time: between two of them everything else has its turn."""
FETCHED_AT_ONCE_MAX = 4
_HANDSHAKE_S = 5.0
_KEEP_ALIVE_S = 75.0
"""Longer than the others keep a connection: so it is never closed while a question is on its way."""
_GRACE_S = 1.0
STALLED_S = 15.0
"""Whoever takes no more of a snapshot for so long is not waited for: only so many are lent at a time."""
WRONG = 409
_RANGE = re.compile(r"bytes=([0-9]{1,18})-")


class Served(Protocol):
    """What the replica offers to the others."""

    @property
    def name(self) -> str: ...
    def status(self) -> PeerStatus: ...
    async def carry_out(self, command: Command) -> Answered: ...
    async def fates(self, asked: Sequence[Asked], term: int) -> list[Fate]: ...
    async def cancel_here(self, asked: Asked, reason: str) -> None: ...
    async def output_here(self, kind: str, name: str, attempt: int) -> Output | None: ...
    async def step_down(self) -> None: ...
    def lend(self, seq: int) -> AbstractContextManager[tuple[Manifest, Path]]: ...
    def snapshots(self) -> list[Manifest]: ...


class PeerServer:
    """One listener for the other replicas. Whoever shows no certificate of this cluster gets no further than that."""

    def __init__(
        self, address: str, tls: ssl.SSLContext, replica: Served, hello: Callable[[], Hello]
    ) -> None:
        if tls.verify_mode != ssl.CERT_REQUIRED:
            raise ClusterError("the listener for other replicas must demand their certificates")
        self._host, self._port = _parts(address)
        self._tls = tls
        self._replica = replica
        self._hello = hello
        self._runner: web.AppRunner | None = None
        self._server: PeerListener | None = None
        self._fetched = 0

    @property
    def port(self) -> int:
        """At which it listens, once it does."""
        return self._port

    async def start(self) -> None:
        listener = _bound(self._host, self._port)
        self._port = listener.getsockname()[1]
        runner = web.AppRunner(
            self._app(), access_log=None, keepalive_timeout=_KEEP_ALIVE_S, shutdown_timeout=_GRACE_S
        )
        await runner.setup()
        assert runner.server is not None
        self._runner = runner
        self._server = PeerListener(
            listener, runner.server, self._tls, handshake_s=_HANDSHAKE_S, shutdown_s=_GRACE_S
        )

    async def stop(self) -> None:
        """What is under way may end, shortly."""
        if self._server is not None:
            self._server.close()
        if self._runner is not None:
            await self._runner.cleanup()
        self._server = self._runner = None

    def _app(self) -> web.Application:
        app = web.Application(client_max_size=REQUEST_BYTES_MAX)
        answers: dict[str, Callable[[bytes], Awaitable[object]]] = {
            "hello": self._say_hello,
            "status": self._say_status,
            "propose": self._propose,
            "fates": self._fates,
            "cancel": self._cancel,
            "output": self._output,
            "step-down": self._step_down,
            "snapshots": self._snapshots,
        }
        for name, answer in answers.items():
            app.router.add_post(f"/{name}", _handler(answer))
        app.router.add_get("/snapshots/{seq:[0-9]{1,18}}/{sha256:[0-9a-f]{64}}", self._lend)
        return app

    # One answer a question

    async def _say_hello(self, _: bytes) -> Hello:
        return self._hello()

    async def _say_status(self, _: bytes) -> PeerStatus:
        return self._replica.status()

    async def _propose(self, body: bytes) -> messages.Result:
        self._check_it_can_lead()
        command = messages.command_of(messages.decode(body, messages.Proposal))
        return messages.result_of(await self._replica.carry_out(command))

    async def _fates(self, body: bytes) -> list[Fate]:
        self._check_is_up()
        inquiry = messages.decode(body, messages.Inquiry)
        return await self._replica.fates(inquiry.asked, inquiry.term)

    async def _cancel(self, body: bytes) -> None:
        self._check_is_up()
        wish = messages.decode(body, messages.Cancelling)
        await self._replica.cancel_here(wish.asked, wish.reason)

    async def _output(self, body: bytes) -> Output | None:
        self._check_is_up()
        wanted = messages.decode(body, messages.Printed)
        return await self._replica.output_here(wanted.kind, wanted.name, wanted.attempt)

    async def _step_down(self, _: bytes) -> None:
        self._check_it_can_lead()
        await self._replica.step_down()

    async def _snapshots(self, _: bytes) -> list[Manifest]:
        self._check_is_up()
        return await asyncio.to_thread(self._replica.snapshots)

    async def _lend(self, request: web.Request) -> web.StreamResponse:
        """A snapshot from some byte on. While it is sent it is not pruned."""
        try:
            self._check_is_up()
            if self._fetched >= FETCHED_AT_ONCE_MAX:
                raise Unreachable(f"{self._replica.name} lends {FETCHED_AT_ONCE_MAX} snapshots already")
            self._fetched += 1
            try:
                with self._replica.lend(int(request.match_info["seq"])) as (manifest, path):
                    if manifest.sha256 != request.match_info["sha256"]:
                        raise NotFound(f"{self._replica.name} holds another snapshot of that entry")
                    return await _sent(request, manifest, path)
            finally:
                self._fetched -= 1
        except TocsinError as wrong:
            return _refusal(wrong)

    def _check_it_can_lead(self) -> None:
        if self._replica.status().role == "starting":
            raise NoLeader(f"{self._replica.name} is starting", hint="try again in a moment")

    def _check_is_up(self) -> None:
        if self._replica.status().role == "starting":
            raise Unreachable(f"{self._replica.name} is starting", hint="try again in a moment")


def _handler(
    answer: Callable[[bytes], Awaitable[object]],
) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        try:
            found = await answer(await request.read())
        except TocsinError as wrong:
            return _refusal(wrong)
        except web.HTTPException:
            raise
        except Exception as mistake:  # why: ours; the other side is told that, and the log why
            log.error("a replica's question failed", about=request.path, exc_info=mistake)
            raise web.HTTPInternalServerError from None
        return web.Response(body=messages.encode(found), content_type=MEDIA_TYPE)

    return handle


def _refusal(wrong: TocsinError) -> web.Response:
    return web.Response(status=WRONG, body=messages.encode(messages.wrong_of(wrong)), content_type=MEDIA_TYPE)


async def _sent(request: web.Request, manifest: Manifest, path: Path) -> web.StreamResponse:
    """The file from the byte on that is asked for. Read on a thread, piece by piece."""
    found = _RANGE.fullmatch(request.headers.get("Range", "bytes=0-"))
    first = 0 if found is None else int(found[1])
    if first >= manifest.size:
        raise InvalidInput(
            "it has no such byte", field="Range", value=first, allowed=f"0 to {manifest.size - 1}"
        )
    response = web.StreamResponse(
        status=206, headers={"Content-Range": f"bytes {first}-{manifest.size - 1}/{manifest.size}"}
    )
    response.content_length = manifest.size - first
    response.content_type = "application/octet-stream"
    file = await asyncio.to_thread(_opened, path, first)
    try:
        with contextlib.closing(file):
            await response.prepare(request)
            await _copied(file, response, manifest.size - first)
    except TimeoutError:
        log.info("a snapshot is not taken any further", seq=manifest.seq, peer=request.remote)
        if request.transport is not None:
            request.transport.abort()
    return response


async def _copied(file: BinaryIO, response: web.StreamResponse, left: int) -> None:
    while left:
        piece = await asyncio.to_thread(file.read, min(PIECE, left))
        if not piece:
            raise ConnectionResetError("the snapshot is shorter than its manifest says")
        left -= len(piece)
        async with asyncio.timeout(STALLED_S):
            await response.write(piece)
    async with asyncio.timeout(STALLED_S):
        await response.write_eof()


def _opened(path: Path, first: int) -> BinaryIO:
    file = path.open("rb")
    file.seek(first)
    return file


def _parts(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise InvalidInput(
            f"{address!r} is not an address", field="cluster", value=address, allowed="HOST:PORT"
        )
    return host.strip("[]"), int(port)


def _bound(host: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(128)
        listener.setblocking(False)
    except OSError as wrong:
        listener.close()
        raise ClusterError(
            f"cannot listen on {host}:{port} for the other replicas: {(wrong.strerror or str(wrong)).lower()}",
            hint="the address of this replica in --cluster must be one of this machine, with a free port",
        ) from None
    return listener
