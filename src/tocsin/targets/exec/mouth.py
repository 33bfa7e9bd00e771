"""How a keeper speaks to Tocsin: without ever waiting for it."""

from __future__ import annotations

import json
import select
import socket

TYPE_CHECKING = False  # why: importing typing would make every keeper bigger
if TYPE_CHECKING:
    from typing import Any

_LAST_WORDS_MS = 5000


class Mouth:
    """Messages about one attempt. The record on disk says the same: one may be lost, none may delay."""

    def __init__(self, channel: socket.socket, key: str) -> None:
        self._channel = channel
        self._key = key
        self._unsaid: list[bytes] = []

    @property
    def has_more(self) -> bool:
        return bool(self._unsaid)

    def say(self, message: dict[str, Any]) -> None:
        self._unsaid.append(json.dumps({"key": self._key, **message}).encode())
        self.retry()

    def retry(self) -> None:
        """Say what can be said now."""
        while self._unsaid:
            try:
                self._channel.send(self._unsaid[0], socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return
            except OSError:  # Tocsin is gone; whoever comes after it reads the record
                self._unsaid.clear()
                return
            del self._unsaid[0]

    def finish(self) -> None:
        """The last words: wait a little for a Tocsin that is busy."""
        if not self._unsaid:
            return
        poll = select.poll()
        poll.register(self._channel, select.POLLOUT)
        poll.poll(_LAST_WORDS_MS)
        self.retry()
