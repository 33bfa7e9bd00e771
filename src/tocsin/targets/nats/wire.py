"""One connection to a NATS server, from its greeting to its end.

It is never mended. When it ends, whatever was not answered stays unanswered, and nothing that was meant for it goes out
over the next one. What waits in this process to be taken by the network is no more than one portion, and goes with it.
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from tocsin.targets.nats.words import printable, said_in, why_of

NOBODY_LISTENS = 503
REFUSED = -1
"""The status of what the server itself did not let pass."""
READ_BYTES = 256 * 1024
_ANSWER_BYTES_MAX = 8 * 1024 * 1024
_NOT_PERMITTED = re.compile(r'Permissions Violation for Publish to "(.*)"')


class Answers:
    """Room for the answers to some messages, by their place."""

    def __init__(self, subjects: Sequence[str]) -> None:
        self.subjects = subjects
        self.found: list[tuple[int, bytes] | None] = [None] * len(subjects)
        """Status (0: none) and content."""
        self.first = 0
        """The token of the message at place 0."""
        self.left = 0
        """Sent and not answered."""
        self.settled = asyncio.Event()
        """Nothing is left, or nothing more can come."""

    def put(self, place: int, status: int, content: bytes) -> None:
        self.found[place] = (status, content)
        self.left -= 1
        if not self.left:
            self.settled.set()


class Connection:
    """Connected, until ``ended`` is set."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, max_payload: int, inbox: str
    ) -> None:
        self.max_payload = max_payload
        self.inbox = inbox.encode()
        self.ended = asyncio.Event()
        self.why = "the connection was closed"
        self.turn = asyncio.Lock()
        """Whoever writes holds it until the network has taken what he wrote."""
        self.awaits_pong = False
        self._reader, self._writer = reader, writer
        # Whoever waits for room waits until nothing is left here.
        writer.transport.set_write_buffer_limits(high=0)
        self._next_token = 0
        self._pending: dict[int, Answers] = {}
        self._refused: Counter[str] = Counter()
        self._has_new_refusals = False
        self._has_lost_count = False
        """Somebody gave up waiting, so that a refusal may be that of his message."""
        self._counts_anew = False
        """From the next PONG on, which comes after the refusals of all that was sent before its PING."""

    @property
    def is_open(self) -> bool:
        return not self.ended.is_set()

    def reserve(self, answers: Answers) -> None:
        """Tokens for all of its places."""
        answers.first = self._next_token
        self._next_token += len(answers.subjects)

    def write(self, frames: Sequence[bytes], answers: Answers, places: Sequence[int]) -> None:
        """Send them now; the reply subject of each is ``inbox`` and its token."""
        first = answers.first
        self._pending.update((first + place, answers) for place in places)
        answers.left += len(places)
        answers.settled.clear()
        self._writer.write(b"".join(frames))

    async def taken(self, within_s: float) -> bool:
        """Wait until the network has taken all that was written. If it does not, the connection ends here, and what it
        holds of it goes with it. False: it has ended."""
        with suppress(OSError):  # which a time-out is too
            async with asyncio.timeout(within_s):
                await self._writer.drain()
                return self.is_open
        self.end("the server takes nothing more")
        return False

    def give_up(self, answers: Answers) -> None:
        """Nobody waits for them any more."""
        if answers.left:
            self._has_lost_count, self._counts_anew = True, False
            for token in range(answers.first, answers.first + len(answers.subjects)):
                self._pending.pop(token, None)

    async def ask(self, subject: str, body: bytes, within_s: float) -> tuple[int, bytes] | None:
        """One request, for what is not an event. None: no answer."""
        answers = Answers([subject])
        self.reserve(answers)
        frame = b"PUB %b %b%d %d\r\n%b\r\n" % (subject.encode(), self.inbox, answers.first, len(body), body)
        self.write([frame], answers, [0])
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await answers.settled.wait()
        finally:
            self.give_up(answers)
        return answers.found[0]

    def ping(self) -> None:
        self.awaits_pong = True
        self._counts_anew = self._has_lost_count
        self._writer.write(b"PING\r\n")

    async def read(self) -> None:
        """Take answers until the connection ends. Never raises for what can go wrong with it."""
        rest = b""
        why = "the server closed the connection"
        try:
            while self.is_open and (data := await self._reader.read(READ_BYTES)):
                rest = self._parse(rest + data)
                if self._has_new_refusals:
                    self._settle_refusals()
        except OSError as wrong:
            why = why_of(wrong)
        except ValueError:
            why = "the server does not speak as NATS does"
        finally:
            self.end(why)

    def end(self, why: str = "the connection was closed") -> None:
        """At once, and without what has not left this machine yet."""
        if not self.is_open:
            return
        self.why = why
        self.ended.set()
        if (own := self._writer.get_extra_info("socket")) is not None:
            with suppress(OSError):
                own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()
        for answers in set(self._pending.values()):
            answers.settled.set()
        self._pending.clear()

    def _parse(self, data: bytes) -> bytes:
        """Returns what is not whole yet. Raises ValueError if it makes no sense."""
        at = 0
        while (end := data.find(b"\r\n", at)) >= 0:
            line = data[at:end]
            if line.startswith((b"MSG ", b"HMSG ")):
                words = line.split(b" ")
                start, size = end + 2, int(words[-1])
                if not 0 <= size <= _ANSWER_BYTES_MAX:
                    raise ValueError
                if len(data) < start + size + 2:
                    break
                self._message(words, data[start : start + size])
                at = start + size + 2
            else:
                self._control(line)
                at = end + 2
        rest = data[at:]
        if len(rest) > _ANSWER_BYTES_MAX + READ_BYTES:
            raise ValueError
        return rest

    def _message(self, words: list[bytes], content: bytes) -> None:
        status = 0
        if words[0] == b"HMSG":
            size = int(words[-2])
            first_line = content[:size].partition(b"\r\n")[0].split(b" ")
            status = int(first_line[1]) if len(first_line) > 1 else 0
            content = content[size:]
        token = int(words[1][len(self.inbox) :])
        answers = self._pending.pop(token, None)
        if answers is not None:
            answers.put(token - answers.first, status, content)

    def _control(self, line: bytes) -> None:
        if line == b"PING":
            self._writer.write(b"PONG\r\n")
        elif line == b"PONG":
            self.awaits_pong = False
            if self._counts_anew:
                self._has_lost_count = self._counts_anew = False
                self._refused.clear()
        elif line.startswith(b"-ERR"):
            said = said_in(line)
            if found := _NOT_PERMITTED.fullmatch(said):
                if not self._has_lost_count:
                    self._refused[found[1]] += 1
                    self._has_new_refusals = True
            else:
                self.end(f"the server refuses: {said}")

    def _settle_refusals(self) -> None:
        """The server names the subject and not the message. When as many were refused as are not answered, it is
        certain that it is these; until then one of them may yet be acknowledged."""
        self._has_new_refusals = False
        unanswered: dict[str, list[int]] = {}
        for token, answers in self._pending.items():
            subject = printable(answers.subjects[token - answers.first])
            if subject in self._refused:
                unanswered.setdefault(subject, []).append(token)
        for subject, tokens in unanswered.items():
            if len(tokens) == self._refused[subject]:
                del self._refused[subject]
                for token in tokens:
                    answers = self._pending.pop(token)
                    answers.put(token - answers.first, REFUSED, b"")
