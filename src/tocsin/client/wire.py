"""Requests go out, answers come back."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from urllib.parse import urlencode

import aiohttp
import msgspec
from yarl import URL

from tocsin.errors import InvalidInput, TocsinError, Unreachable
from tocsin.model.answer import Problem
from tocsin.model.problem import error_of

DEFAULT_URL = "http://127.0.0.1:8400"
TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 5.0


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

    def __init__(self, urls: list[str], timeout_s: float) -> None:
        self._urls = urls
        self._timeout = aiohttp.ClientTimeout(total=timeout_s, connect=CONNECT_TIMEOUT_S)
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        self._session = aiohttp.ClientSession(timeout=self._timeout)

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
        sent = {**(headers or {}), **({"content-type": "application/json"} if body is not None else {})}
        for url in self._urls:
            whole = URL(url + path + (f"?{query}" if query else ""), encoded=True)
            try:
                return await self._ask(method, whole, body, sent)
            except aiohttp.ClientConnectorError as wrong:
                self._unreachable = str(wrong.os_error.strerror or wrong.os_error)
            except (aiohttp.ClientError, TimeoutError) as wrong:
                raise Unreachable(
                    f"{url} did not answer: {wrong or 'it took too long'}",
                    hint="it may have been carried out nevertheless: look before you repeat it",
                ) from None
        raise Unreachable(
            f"nothing answers at {', '.join(self._urls)} ({self._unreachable})",
            hint="is it running? start it with `tocsin serve`",
        )

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
