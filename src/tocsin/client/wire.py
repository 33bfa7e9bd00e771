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

from tocsin.client.reach import cut_off, nobody, unanswered, unreached
from tocsin.client.trust import distrust
from tocsin.errors import InvalidInput, TocsinError
from tocsin.model.answer import Problem
from tocsin.model.problem import error_of

DEFAULT_URL = "http://127.0.0.1:8400"
TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 5.0
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
    """A session with a service that has one or more addresses."""

    def __init__(
        self, urls: list[str], timeout_s: float, *, token: str = "", tls: ssl.SSLContext | bool = True
    ) -> None:
        self._urls = urls
        self._headers = {"Authorization": f"Bearer {token}"} if token else {"Tocsin-Actor": _user()}
        self._tls = tls
        self._timeout = aiohttp.ClientTimeout(total=timeout_s, connect=CONNECT_TIMEOUT_S)
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        self._session = aiohttp.ClientSession(
            timeout=self._timeout,
            headers=self._headers,
            connector=aiohttp.TCPConnector(ssl=self._tls),
        )

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
    ) -> Answer:
        """Ask the first address that can be reached. Raises what the service refuses with.

        Only an address that nothing was sent to is passed over for the next one: a request that may have
        arrived is never repeated, because not every request may be carried out twice.
        """
        query = urlencode(list(params))
        unreachable = ""
        sent = {**({"content-type": "application/json"} if body is not None else {}), **(headers or {})}
        for url in self._urls:
            whole = URL(url + path + (f"?{query}" if query else ""), encoded=True)
            try:
                return await self._ask(method, whole, body, sent)
            except aiohttp.ClientConnectorCertificateError as wrong:
                raise distrust(url, wrong.certificate_error) from None
            except aiohttp.ClientConnectorError as wrong:
                unreachable = unreached(wrong.os_error)
            except (aiohttp.ClientError, TimeoutError) as wrong:
                raise unanswered(url, method, wrong) from None
        raise nobody(self._urls, unreachable)

    async def _ask(self, method: str, url: URL, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        if self._session is None:
            raise TocsinError("the client is not open", hint="use it as `async with Client() as client:`")
        async with self._session.request(
            method, url, data=body, headers=headers, allow_redirects=False
        ) as response:
            content = await response.read()
            if response.status >= 300:
                raise _refusal(response.status, content)
            return Answer(response.status, response.headers, content)

    async def stream(
        self,
        path: str,
        *,
        method: str = "GET",
        params: Iterable[tuple[str, str]] = (),
        body: bytes | AsyncIterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """What comes, as it comes, of the first address that can be reached. It may take for ever."""
        if self._session is None:
            raise TocsinError("the client is not open", hint="use it as `async with Client() as client:`")
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=SILENCE_MAX_S)
        query = urlencode(list(params))
        unreachable = ""
        for url in self._urls:
            whole = URL(url + path + (f"?{query}" if query else ""), encoded=True)
            try:
                async with self._session.request(
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
            except (aiohttp.ClientError, TimeoutError) as wrong:
                raise cut_off(url, wrong) from None
        raise nobody(self._urls, unreachable)


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
