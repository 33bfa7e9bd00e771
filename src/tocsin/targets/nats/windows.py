"""For how long streams remember message ids: within that time a repeat is dropped, later it is a second event."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeVar

import msgspec

from tocsin.clock import Clock
from tocsin.targets.nats.wire import Connection

_T = TypeVar("_T")

ASK_AGAIN_S = 60.0
"""It is the stream's owner who sets it, and he may change it."""
ASKED_AT_ONCE = 8
ANSWER_S = 1.0
STREAMS_MAX = 10_000


class _Names(msgspec.Struct, frozen=True):
    streams: list[str] | None = None


class _Config(msgspec.Struct, frozen=True):
    subjects: list[str] | None = None
    duplicate_window: int = 0
    """In nanoseconds."""


class _Info(msgspec.Struct, frozen=True):
    config: _Config | None = None


class _Stream(msgspec.Struct, frozen=True):
    takes: re.Pattern[str]
    window_s: float
    asked_s: float


class Windows:
    """What is known of the streams. A stream that cannot be asked is one that remembers nothing."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._streams: dict[str, _Stream] = {}
        self._silent_until_s = 0.0
        """It did not answer, or may not be asked: it is not bothered with every batch."""

    def window_s(self, subject: str) -> float:
        stream = self._stream_of(subject)
        return 0.0 if stream is None else stream.window_s

    async def learn(self, connection: Connection, subjects: Iterable[str], most: int = ASKED_AT_ONCE) -> None:
        """Ask for the streams of subjects whose stream is not known, or was asked for long ago. Takes a moment at most,
        whatever happens."""
        now_s = self._clock.elapsed_s()
        if now_s < self._silent_until_s:
            return
        asked = 0
        for subject in subjects:
            stream = self._stream_of(subject)
            if stream is not None and now_s - stream.asked_s < ASK_AGAIN_S:
                continue
            if asked == most or not await self._ask(connection, subject, now_s):
                return
            asked += 1

    async def _ask(self, connection: Connection, subject: str, now_s: float) -> bool:
        """False: there is no answer to be had."""
        body = msgspec.json.encode({"subject": subject})
        names = await self._request(connection, "NAMES", body, _Names)
        if names is None:
            if connection.is_open:
                self._silent_until_s = now_s + ASK_AGAIN_S
            return False
        for name in names.streams or ():
            if re.fullmatch(r"[^\s.*>/\\]+", name) is None:
                continue
            info = await self._request(connection, f"INFO.{name}", b"", _Info)
            self._streams.pop(name, None)
            if info is not None and info.config is not None:
                self._keep(name, info.config, now_s)
        return True

    def _keep(self, name: str, config: _Config, now_s: float) -> None:
        if len(self._streams) >= STREAMS_MAX:
            self._streams.clear()
        takes = "|".join(_as_regex(pattern) for pattern in config.subjects or (name,))
        self._streams[name] = _Stream(re.compile(takes), max(0, config.duplicate_window) / 1e9, now_s)

    async def _request(self, connection: Connection, what: str, body: bytes, kind: type[_T]) -> _T | None:
        answer = await connection.ask(f"$JS.API.STREAM.{what}", body, ANSWER_S)
        if answer is None or answer[0]:
            return None
        try:
            return msgspec.json.decode(answer[1], type=kind)
        except msgspec.DecodeError:
            return None

    def _stream_of(self, subject: str) -> _Stream | None:
        for stream in self._streams.values():
            if stream.takes.fullmatch(subject):
                return stream
        return None


def _as_regex(pattern: str) -> str:
    words = {"*": r"[^.]+", ">": r".+"}
    return r"\.".join(words.get(word) or re.escape(word) for word in pattern.split("."))
