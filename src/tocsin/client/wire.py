"""Requests go out, answers come back."""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Mapping
from typing import NamedTuple
from urllib.parse import urlencode

import aiohttp
import msgspec
from yarl import URL

from tocsin.client import again
from tocsin.client.again import Lost, NotReached, Tries
from tocsin.client.reach import cut_off, nobody, unanswered, unreached
from tocsin.client.trust import distrust
from tocsin.errors import InvalidInput, NoLeader, TocsinError
from tocsin.model.answer import Problem
from tocsin.model.problem import error_of

DEFAULT_URL = "http://127.0.0.1:8400"
TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 5.0
HASTY_S = 5.0
"""How long an answer may take while there are other replicas that could give it."""
SILENCE_MAX_S = 45.0
"""A stream says something every 15 seconds; one that is silent for so long has been cut."""


class Answer(NamedTuple):
    """What came back, and it was not an error."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def addresses(given: str | Iterable[str] | None) -> list[str]:
    """The addresses to try: as given, else of ``TOCSIN_URL``, else the default."""
    if given is None:
        given = os.environ.get("TOCSIN_URL") or DEFAULT_URL
    parts = given.split(",") if isinstance(given, str) else given
    found = [part.strip().rstrip("/") for part in parts if part.strip()]
    for url in found:
        if not _is_address(url):
            raise InvalidInput(
                f"{url[:100]!r} is not an address",
                field="url",
                value=url,
                allowed="http://HOST:PORT, several with ,",
            )
    return found or [DEFAULT_URL]


class Wire:
    """A session with a service that has one or more addresses. It stays with the one that answered last."""

    def __init__(
        self, urls: list[str], timeout_s: float, *, token: str = "", tls: ssl.SSLContext | bool = True
    ) -> None:
        self._urls = urls
        self._at = 0
        self._timeout_s = timeout_s
        self._headers = {"Authorization": f"Bearer {token}"} if token else {"Tocsin-Actor": _user()}
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        self._session = aiohttp.ClientSession(
            headers=self._headers,
            connector=aiohttp.TCPConnector(ssl=self._tls),
        )
        # By itself it repeats what was cut off, a deletion too: what is repeated is decided here.
        self._session._retry_connection = False

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Iterable[tuple[str, str]] = (),
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool | None = None,
    ) -> Answer:
        """Ask one address after the other until there is an answer. Raises what the service refuses with.

        ``repeatable``: it does no harm to carry it out twice, although its method does not say so. See ``again``.
        """
        query = urlencode(list(params))
        sent = {**({"content-type": "application/json"} if body is not None else {}), **(headers or {})}
        is_harmless = again.may_repeat(method, sent) if repeatable is None else repeatable
        tries = Tries(self._urls, method, may_repeat=is_harmless)
        while True:
            at = self._at
            url = self._urls[at]
            whole = URL(url + path + (f"?{query}" if query else ""), encoded=True)
            try:
                return await self._ask(url, method, whole, body, sent, tries.is_hasty)
            except TocsinError as wrong:
                await tries.failed(wrong)
            self._turn(at)

    async def _ask(
        self,
        url: str,
        method: str,
        whole: URL,
        body: bytes | None,
        headers: Mapping[str, str],
        is_hasty: bool,
    ) -> Answer:
        session = self._opened()
        total_s = min(HASTY_S, self._timeout_s) if is_hasty else self._timeout_s
        connect_s = CONNECT_TIMEOUT_S if len(self._urls) == 1 else HASTY_S / 2
        timeout = aiohttp.ClientTimeout(total=total_s, connect=min(connect_s, 0.8 * total_s))
        try:
            async with session.request(
                method, whole, data=body, headers=headers, timeout=timeout, allow_redirects=False
            ) as response:
                content = await response.read()
        except aiohttp.ClientConnectorCertificateError as wrong:
            raise distrust(url, wrong.certificate_error) from None
        except aiohttp.ClientConnectorError as wrong:
            raise NotReached(unreached(wrong.os_error)) from None
        except aiohttp.ConnectionTimeoutError:
            raise NotReached("it took too long") from None
        except (aiohttp.ClientError, TimeoutError) as wrong:
            found = unanswered(url, method, wrong)
            lost = Lost(found.message, hint=found.hint)
            lost.was_cut = not isinstance(wrong, TimeoutError)
            raise lost from None
        if response.status >= 300:
            raise _refusal(response.status, content)
        return Answer(response.status, response.headers, content)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise TocsinError("the client is not open", hint="use it as `async with Client() as client:`")
        return self._session

    def _turn(self, failed: int) -> None:
        """To the next address: who did not answer now will be asked again only after all others. Of several questions
        that fail there at once only the first turns: the others would turn back."""
        if self._at == failed:
            self._at = (failed + 1) % len(self._urls)

    async def stream(
        self,
        path: str,
        *,
        method: str = "GET",
        params: Iterable[tuple[str, str]] = (),
        body: bytes | AsyncIterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """What comes, as it comes, of the first address that can be reached. It may take for ever.

        When it is cut off, whoever asks again asks another address.
        """
        session = self._opened()
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=SILENCE_MAX_S)
        query = urlencode(list(params))
        unreachable = ""
        refusal: TocsinError | None = None
        for _ in self._urls:
            at = self._at
            url = self._urls[at]
            whole = URL(url + path + (f"?{query}" if query else ""), encoded=True)
            try:
                async with session.request(
                    method, whole, data=body, headers=headers, timeout=timeout, allow_redirects=False
                ) as response:
                    if response.status >= 300:
                        refused = _refusal(response.status, await response.read())
                        refused.retryable = refused.retryable or response.status in (502, 503, 504)
                        raise refused
                    async for chunk in response.content.iter_any():
                        yield chunk
                    return
            except aiohttp.ClientConnectorCertificateError as wrong:
                raise distrust(url, wrong.certificate_error) from None
            except aiohttp.ClientConnectorError as wrong:
                unreachable = unreached(wrong.os_error)
                self._turn(at)
            except (aiohttp.ClientError, TimeoutError) as wrong:
                self._turn(at)
                raise cut_off(url, wrong) from None
            except TocsinError as wrong:
                if not wrong.retryable or not (method == "GET" or isinstance(wrong, NoLeader)):
                    raise
                self._turn(at)
                if isinstance(body, AsyncIterable):
                    raise  # a part of it may be gone
                refusal = wrong
        raise refusal or nobody(self._urls, unreachable)


def _user() -> str:
    """Where no token says who one is, one can only say so oneself."""
    name = os.environ.get("USER") or os.environ.get("LOGNAME") or ""
    return name if name.isascii() and name.isprintable() else ""


def _refusal(status: int, content: bytes) -> TocsinError:
    try:
        return error_of(msgspec.json.decode(content, type=Problem))
    except msgspec.MsgspecError:
        return TocsinError(f"the answer was HTTP status {status}", hint="is this the address of Tocsin?")


def _is_address(url: str) -> bool:
    try:
        parts = URL(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.host) and not parts.query_string
