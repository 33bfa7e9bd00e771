"""Many schedules in, many schedules out, many at once."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Mapping
from typing import Literal

import msgspec

from tocsin.client.asking import Asking, decoded
from tocsin.errors import Unreachable
from tocsin.model.lines import MEDIA_TYPE, BulkLine, ImportLine, Progress, Summary
from tocsin.model.request import BulkRequest
from tocsin.model.schedule import Schedule


class Transfers(Asking):
    """The part of the client that deals with many schedules."""

    async def export(
        self, *, prefix: str = "", labels: Mapping[str, str] | None = None, enabled: bool | None = None
    ) -> AsyncIterator[Schedule]:
        """All schedules as they were written, in the order of their ids."""
        params = [("label", f"{key}={value}") for key, value in (labels or {}).items()]
        if prefix:
            params.append(("prefix", prefix))
        if enabled is not None:
            params.append(("enabled", str(enabled).lower()))
        async for line in _lines(self._wire.stream("/v1/export", params=params)):
            yield decoded(line, Schedule)

    async def import_lines(
        self,
        lines: AsyncIterable[bytes],
        *,
        mode: Literal["create", "put"] = "create",
        check: bool = False,
        past: Literal["skip", "launch"] = "skip",
    ) -> AsyncIterator[ImportLine | Progress | Summary]:
        """Send schedules, a line of JSON each; get what is refused, how far it is, and at last a ``Summary``.

        ``past``: a moment (``@at``) that has passed is taken for launched elsewhere, unless it is to be launched.
        """
        params = [("mode", mode), ("check", str(check).lower()), ("past", past)]
        sent = _Sent(lines)
        answer = self._wire.stream(
            "/v1/import", method="POST", params=params, body=sent, headers={"content-type": MEDIA_TYPE}
        )
        try:
            async for line in _summed_up(answer):
                yield _import_line(line)
        except Unreachable:
            if sent.wrong is not None:
                raise sent.wrong from None
            raise

    async def bulk(self, wish: BulkRequest) -> AsyncIterator[BulkLine | Summary]:
        """The same done to many schedules; a line each, and at last a ``Summary``."""
        answer = self._wire.stream(
            "/v1/bulk",
            method="POST",
            body=msgspec.json.encode(wish),
            headers={"content-type": "application/json"},
        )
        async for line in _summed_up(answer):
            yield decoded(line, Summary) if _has(line, "done") else decoded(line, BulkLine)


class _Sent:
    """Lines on their way. When they cannot be read the connection breaks, and this knows why."""

    def __init__(self, lines: AsyncIterable[bytes]) -> None:
        self._lines = lines
        self.wrong: Exception | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for part in self._lines:
                yield part
        except Exception as wrong:
            self.wrong = wrong
            raise


async def _summed_up(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The lines of an answer that ends with a summary; without it, it was cut off."""
    last = b""
    async for line in _lines(chunks):
        last = line
        yield line
    if b'"done"' not in last:
        raise Unreachable(
            "the answer was cut off", hint="a part of it was carried out; the same can be asked again"
        )


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = b""
    async for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line:
                yield line
    if rest:
        yield rest


def _import_line(line: bytes) -> ImportLine | Progress | Summary:
    if _has(line, "done"):
        return decoded(line, Summary)
    return decoded(line, Progress) if _has(line, "progress") else decoded(line, ImportLine)


def _has(line: bytes, field: str) -> bool:
    """Lines of one answer are told apart by a field that only one kind has."""
    return field in decoded(line, dict[str, msgspec.Raw])
