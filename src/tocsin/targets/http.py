"""HTTP calls. The one question that matters here: may the request have gone out?

Until a connection is there (no address, refused, TLS failed, time ran out) nothing was sent: ``not_started``.
From then on every error is ``unknown``. aiohttp is kept from deciding otherwise: it follows no redirect, and
its own second try of GET, PUT and DELETE after a lost connection is stopped by ``Passage``. That also looks at the
clock right before the first byte leaves: a call whose authority has ended by then is ``not_started``, connected or not.

A connection is used again only where a lost request does no harm, that is when the receiver deduplicates: a
server that closes an idle connection just as a request goes out would otherwise turn a healthy call into
doubt.

Where calls may go is decided by ``fence``, on the address: a host that is one in itself is judged before anything
else, and what a name server says passes ``FencedResolver`` before a socket is opened. A connection is kept under
the host that was judged when it was made.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import ClassVar
from urllib.parse import quote

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver

from tocsin.clock import Clock, SystemClock
from tocsin.cron import parse_duration
from tocsin.model.hosts import hosts_of
from tocsin.model.references import with_values
from tocsin.model.target import HTTP_TIMEOUT_S_MAX, TargetSpec
from tocsin.model.target import HttpTarget as HttpSpec
from tocsin.targets.contract import TOO_LATE, Order, Outcome, Output, Verdict
from tocsin.targets.fence import Denied, Fence
from tocsin.targets.message import body_of, headers_of
from tocsin.targets.passage import Passage, guarded_session
from tocsin.targets.resolver import FencedResolver
from tocsin.targets.secret_reader import SecretReader
from tocsin.targets.secrets import SecretMissingError, SecretRules, Secrets

_EXCERPT_BYTES_MAX = 4096
_EXCERPT_CHARS_MAX = 300
_EXCERPT_S = 1.0
_NOT_SHOWN = "the answer is not shown, because the call carried a secret"
"""A receiver may repeat what it was sent, cut short or in a form that nobody thinks of."""
_LATE_S = 1.0
"""A time-out that fires so much too late tells that the process stood still: an answer may have come, and be unread."""
_READ_S = 1.0
"""How long the answer may then take to be read."""
_ROUND_S = 0.05
"""How long a time-out waits in any case: the loop runs a timer before it reads what has just arrived."""
_TRY_LATER = (408, 425, 429)
_NOT_THE_RECEIVER = (502, 504)
"""A gateway speaks for a receiver that it lost or gave up on: whether that one acted cannot be known."""


class HttpTarget:
    """Calls an address."""

    kind: ClassVar[str] = "http"
    looks_up: ClassVar[bool] = False

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        connections_max: int = 256,
        fence: Fence | None = None,
        secrets: SecretRules | None = None,
        resolver: AbstractResolver | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._fence = fence or Fence()
        self._secrets = SecretReader(secrets or SecretRules())
        self._own_resolver = resolver
        self._resolver: FencedResolver | None = None
        self._connections_max = connections_max
        self._fresh: aiohttp.ClientSession | None = None
        self._kept: aiohttp.ClientSession | None = None
        self._pending: dict[tuple[str, int], _Call] = {}

    def idempotent(self, spec: TargetSpec) -> bool:
        return isinstance(spec, HttpSpec) and spec.idempotent

    async def start(self, last_entry_ms: int = 0) -> None:
        resolver = self._resolver = FencedResolver(self._fence, self._own_resolver)
        limit = self._connections_max
        # The resolver remembers, and the fence judges what it remembers each time: the connectors need not.
        self._fresh = guarded_session(
            aiohttp.TCPConnector(limit=limit, resolver=resolver, use_dns_cache=False, force_close=True)
        )
        self._kept = guarded_session(
            aiohttp.TCPConnector(limit=limit, resolver=resolver, use_dns_cache=False)
        )

    async def stop(self) -> None:
        for session in (self._fresh, self._kept):
            if session is not None:
                await session.close()
        if self._resolver is not None:
            await self._resolver.close()

    async def launch(self, order: Order) -> Outcome:
        spec = order.target
        assert isinstance(spec, HttpSpec)
        session = self._kept if spec.idempotent else self._fresh
        assert session is not None, "start() comes first"
        try:
            for host in hosts_of(spec):
                self._fence.check_host(host)
        except Denied as denied:
            return Outcome(Verdict.NOT_STARTED, str(denied), permanent=True, ended_ms=self._clock.wall_ms())
        call = _Call(session, spec, order, self._clock, self._secrets)
        key = (order.name, order.attempt)
        self._pending[key] = call
        try:
            return await call.make()
        finally:
            if self._pending.get(key) is call:
                del self._pending[key]

    async def watch(self, order: Order) -> Outcome:
        return Outcome(Verdict.UNKNOWN, "an HTTP call has no end to wait for: the answer was the outcome")

    async def lookup(self, order: Order) -> Outcome | None:
        return Outcome(Verdict.UNKNOWN, "an HTTP call leaves nothing that could be looked up")

    async def cancel(self, order: Order) -> None:
        call = self._pending.get((order.name, order.attempt))
        if call is not None:
            call.cancel()

    def revoke_unsent(self) -> None:
        for call in list(self._pending.values()):
            call.revoke_unsent()

    def in_office(self, term: int, until_s: float) -> None:
        for call in self._pending.values():
            call.in_office(term, until_s)

    async def output(self, name: str, attempt: int) -> Output | None:
        return None

    async def prune(self, older_than_s: float) -> int:
        return 0


class _Call:
    """One request, from its headers to its outcome."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        spec: HttpSpec,
        order: Order,
        clock: Clock,
        reader: SecretReader,
    ) -> None:
        self._reader = reader
        self._secrets = Secrets()
        self._has_secrets = False
        self._status: int | None = None
        """Of the answer, as soon as it is there."""
        self._session = session
        self._spec = spec
        self._order = order
        self._clock = clock
        self._body = body_of(spec, order)
        has_body = self._body is not None
        self._passage = Passage(order.until_s, order.deadline_s, clock, has_body=has_body)
        self._task: asyncio.Task[Outcome] | None = None
        self._cancelled = False
        self._revoked = False

    async def make(self) -> Outcome:
        self._task = asyncio.create_task(self._make())
        try:
            outcome = await self._task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            is_cancelled = self._cancelled and not (current is not None and current.cancelling())
            is_let_go = self._revoked or not is_cancelled
            is_sent = self._passage.connected
            if is_let_go and is_sent:
                raise
            if is_let_go:  # whoever is in office later makes the call
                outcome = TOO_LATE
            else:
                how = "in flight; the receiver may have acted" if is_sent else "before anything was sent"
                outcome = Outcome(Verdict.CANCELLED, f"cancelled {how}", is_uncalled=not is_sent)
        return msgspec.structs.replace(
            outcome, ended_ms=self._clock.wall_ms(), called_ms=self._passage.called_ms
        )

    def revoke_unsent(self) -> None:
        if self._task is not None and not self._passage.connected:
            self._revoked = True
            self._task.cancel()

    def in_office(self, term: int, until_s: float) -> None:
        if self._order.term == term:
            self._passage.renew(until_s)

    def cancel(self) -> None:
        self._cancelled = True
        if self._task is not None:
            self._task.cancel()

    async def _make(self) -> Outcome:
        timeout_s = _timeout_s(self._spec, self._order)
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        limit = asyncio.timeout(None)
        timer = loop.call_at(began_s + timeout_s, self._time_out, limit, began_s + timeout_s)
        try:
            async with limit, self._passage.within_authority():
                return await self._send(await self._read_secrets())
        except Denied as denied:
            return Outcome(Verdict.NOT_STARTED, str(denied), permanent=True)
        except SecretMissingError as missing:
            return Outcome(Verdict.NOT_STARTED, str(missing), permanent=missing.permanent)
        except TimeoutError:
            late = "no connection" if self._has_secrets else "its secrets were not read"
            return self._interrupted(
                _silence(timeout_s, loop.time() - began_s), f"{late} within {timeout_s:g}s"
            )
        except (aiohttp.ClientError, OSError) as error:
            why = _why(error)
            return self._interrupted(f"no answer: {why}", why)
        except ValueError:  # what aiohttp makes of an address or a header it cannot send
            return self._interrupted(
                "no answer: the request cannot be made", "the request cannot be made", permanent=True
            )
        finally:
            timer.cancel()

    def _time_out(self, limit: asyncio.Timeout, due_s: float) -> None:
        """End the call, unless the process stood still until now: then a request that went out may have an answer that
        nobody has read."""
        now_s = asyncio.get_running_loop().time()
        is_unread = now_s - due_s > _LATE_S and self._passage.called_ms is not None
        limit.reschedule(now_s + (_READ_S if is_unread else _ROUND_S))

    async def _read_secrets(self) -> Secrets:
        self._secrets = await self._reader.read(self._spec)
        self._has_secrets = True
        return self._secrets

    async def _send(self, secrets: Secrets) -> Outcome:
        spec, values = self._spec, secrets.values
        given = {name: with_values(text, values.__getitem__) for name, text in spec.headers.items()}
        now_s = self._clock.wall_ms() // 1000
        request = self._session.request(
            spec.method,
            with_values(spec.url, lambda reference: quote(values[reference], safe="")),
            headers=headers_of(given, spec, self._order, self._body, secrets.keys, now_s),
            data=self._body,
            allow_redirects=False,
            trace_request_ctx=self._passage,
        )
        async with request as response:
            self._status = response.status
            return _judge(spec, response.status, await _excerpt(response, secrets))

    def _interrupted(self, after: str, before: str, *, permanent: bool = False) -> Outcome:
        if self._status is not None:  # it has answered: only the rest of its answer did not come
            return _judge(self._spec, self._status, "")
        if self._passage.too_late:
            return TOO_LATE
        if self._passage.connected:
            return Outcome(Verdict.UNKNOWN, after)
        return Outcome(Verdict.NOT_STARTED, before, permanent=permanent)


def _timeout_s(spec: HttpSpec, order: Order) -> float:
    own_s = float(min(parse_duration(spec.timeout, field="target.timeout"), HTTP_TIMEOUT_S_MAX))
    return own_s if order.timeout_s is None else min(own_s, order.timeout_s)


def _silence(timeout_s: float, waited_s: float) -> str:
    if waited_s - timeout_s <= _LATE_S:
        return f"no answer within {timeout_s:g}s"
    return (
        f"no answer within {waited_s:.0f}s (the process stood still, or was busy, when the time-out of {timeout_s:g}s "
        "was over)"
    )


def _judge(spec: HttpSpec, status: int, excerpt: str) -> Outcome:
    if any(code in (str(status), f"{status // 100}xx") for code in spec.success):
        return Outcome(Verdict.SUCCEEDED, exit_code=status)
    # The body of an answer that is no error is not shown: a strange ``success`` would make any address readable.
    reason = f"HTTP {status}: {excerpt}" if excerpt and status >= 400 else f"HTTP {status}"
    if status in _NOT_THE_RECEIVER:
        return Outcome(Verdict.UNKNOWN, f"{reason} (a gateway answered; the receiver may have acted)", status)
    permanent = status < 500 and status not in _TRY_LATER
    return Outcome(Verdict.FAILED, reason, exit_code=status, permanent=permanent)


async def _excerpt(response: aiohttp.ClientResponse, secrets: Secrets) -> str:
    """The beginning of the answer, if it comes soon. The status is known: this cannot change the outcome."""
    data = bytearray()
    with suppress(aiohttp.ClientError, TimeoutError, OSError):
        async with asyncio.timeout(_EXCERPT_S):
            while len(data) < _EXCERPT_BYTES_MAX and not response.content.at_eof():
                data += await response.content.read(_EXCERPT_BYTES_MAX - len(data))
    if response.headers.get("Content-Encoding"):
        return ""
    if secrets.are_sent:
        return _NOT_SHOWN
    words = data.decode(errors="replace").split()
    return "".join(c for c in " ".join(words) if c.isprintable())[:_EXCERPT_CHARS_MAX]


def _why(error: Exception) -> str:
    """In words, and without the address: its query may hold a token."""
    if isinstance(error, aiohttp.InvalidURL):
        return "the address cannot be used"
    if isinstance(
        error, aiohttp.ClientResponseError
    ):  # its text holds the address, and bytes of whoever answered
        return "what came back is not HTTP"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"no address for {error.host}"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"the certificate of {error.host} is not trusted: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot connect to {error.host}:{error.port}: {error.os_error.strerror or error.os_error}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the connection was closed"
    # No other text of an error: it may hold what was sent, or what came back.
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
