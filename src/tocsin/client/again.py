"""What a client does when it gets no answer, or not the one it wants: ask the next replica, or give up.

===========================  ================================================================================
nobody took the connection   certain that nothing was done: the next address. All of them: given up at once
``NoLeader`` (503)           certain that nothing was done: the next address, again and again for ``PATIENCE_S``
the answer was lost          what may be repeated is asked of the next address; anything else is ``Uncertain``
===========================  ================================================================================

An answer is lost when the connection is cut, when it takes too long, and when the service itself cannot tell
(``Uncertain``, ``Unknown``, ``Stopping``). May be repeated:

- what only asks: GET and HEAD, a preview;
- PUT: the same content twice is the same as once;
- what demands a version (``If-Match``, ``If-None-Match``): it cannot be done twice. When the repetition is refused
  because the version has changed, it is ``Uncertain`` whose change that was;
- the creation of a schedule: exactly the same one is not made twice.

Not so: to run, cancel, pause, resume, resolve, backfill or restore, to delete without a version, and what is done with
tokens. Whoever may have done that looks first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from tocsin.client.reach import nobody
from tocsin.errors import (
    AlreadyExists,
    JournalUnavailable,
    NoLeader,
    NotFound,
    Stopping,
    TocsinError,
    Uncertain,
    Unknown,
    Unreachable,
    VersionConflict,
)

PATIENCE_S = 10.0
PAUSE_S = 0.2
_CONDITIONS = ("if-match", "if-none-match")


class NotReached(Unreachable):
    """Nobody took the connection: certain that nothing was sent."""


class Lost(Unreachable):
    """It was sent, and there is no answer."""

    was_cut = False
    """The connection was closed: perhaps only because nothing had come over it for long."""


def may_repeat(method: str, headers: Mapping[str, str]) -> bool:
    """Does it do no harm to ask for the same twice?"""
    has_condition = any(name.lower() in _CONDITIONS for name in headers)
    return method in ("GET", "HEAD", "PUT") or has_condition


class Tries:
    """One request on its way to an answer."""

    def __init__(self, urls: Sequence[str], method: str, *, may_repeat: bool) -> None:
        self._urls = urls
        self._method = method
        self._may_repeat = may_repeat
        self._number = 0
        self._paused_at = 0
        self._refused = 0
        """How many addresses in a row took no connection."""
        self._lost: TocsinError | None = None
        self._until_s = asyncio.get_running_loop().time() + PATIENCE_S

    @property
    def is_hasty(self) -> bool:
        """Is there somebody else to ask, should this one be silent? Once all were asked there is time."""
        return self._method in ("GET", "HEAD") and self._number < len(self._urls) > 1

    async def failed(self, wrong: TocsinError) -> None:
        """Returns when the next address is to be tried; raises what is to be told otherwise."""
        self._number += 1
        if isinstance(wrong, NotReached):
            self._refused += 1
            if self._refused >= len(self._urls):
                raise self._given_up(nobody(list(self._urls), wrong.message)) from None
            return
        self._refused = 0
        self._judge(wrong)
        if asyncio.get_running_loop().time() >= self._until_s:
            raise self._given_up(wrong) from None
        if self._number - self._paused_at >= len(self._urls):
            self._paused_at = self._number
            await asyncio.sleep(PAUSE_S)

    def _judge(self, wrong: TocsinError) -> None:
        """Raise what cannot be helped."""
        is_one_of_several = len(self._urls) > 1
        if isinstance(wrong, NoLeader) or (isinstance(wrong, JournalUnavailable) and is_one_of_several):
            return
        if isinstance(wrong, (Lost, Uncertain, Unknown, Stopping)):
            was_cut_at_first = isinstance(wrong, Lost) and wrong.was_cut and self._number == 1
            if self._may_repeat and (is_one_of_several or was_cut_at_first):
                self._lost = wrong
                return
            raise self._given_up(wrong) from None
        if isinstance(wrong, (VersionConflict, NotFound, AlreadyExists)):
            raise self._given_up(wrong) from None
        raise wrong

    def _given_up(self, wrong: TocsinError) -> TocsinError:
        """What is told in the end. What only asks has done nothing, whatever became of it; a write whose answer was
        lost may have been carried out, whatever was heard later."""
        if self._method in ("GET", "HEAD"):
            return wrong
        if isinstance(wrong, Lost):
            return Uncertain(wrong.message, hint=wrong.hint)
        if self._lost is None:
            return wrong
        return Uncertain(
            f"an answer was lost ({self._lost.message}), and then: {wrong.message}",
            hint="it may have been carried out: look before you repeat it",
        )
