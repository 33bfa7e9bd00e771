"""Callers' commands on their way into an entry. Whoever asked gets an answer, whatever happens."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import msgspec

from tocsin.errors import NoLeader, TocsinError, Uncertain
from tocsin.model.bounds import check_bounds
from tocsin.model.change import Change
from tocsin.model.command import Backfill, Command, PutSchedules
from tocsin.model.rights import check_right
from tocsin.replica.many import Many, prepare_many
from tocsin.replica.prepare import prepare
from tocsin.state import tokens

PATIENCE_S = 15.0
"""So long a caller waits for what is not confirmed: a full disk, a journal that does not answer."""
COMMANDS_AT_ONCE = 2_000
COMMAND_BYTES_AT_ONCE = 512 * 1024
_encode = msgspec.msgpack.Encoder().encode
BACKFILL_BYTES = COMMAND_BYTES_AT_ONCE // 4


class Wish(NamedTuple):
    """A command, and where its answer goes."""

    command: Command
    answer: asyncio.Future[Any]
    size: int


class Wishes:
    """The queue. ``wake`` tells the leader that there is something in it."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._end: TocsinError = NoLeader("this replica does not lead", hint="try again in a moment")
        self._waiting: list[Wish] = []
        self._unanswered: dict[asyncio.Future[Any], None] = {}
        self._closed = False

    def __bool__(self) -> bool:
        return bool(self._waiting)

    async def make(self, command: Command) -> Any:
        """Returns when the command is durable and applied; raises if it was refused, or if that takes too long."""
        if self._closed:
            raise self._end
        answer = asyncio.get_running_loop().create_future()
        self._unanswered[answer] = None
        answer.add_done_callback(lambda done: self._unanswered.pop(done, None))
        wish = Wish(command, answer, _weight(command))
        self._waiting.append(wish)
        self._wake()
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await answer
        except TimeoutError:
            return self._give_up(wish)

    def _give_up(self, wish: Wish) -> NoReturn:
        """Who waited long enough is told what is known."""
        if wish in self._waiting:
            self._waiting.remove(wish)
            raise NoLeader("nothing can be written down at this moment", hint="try again in a moment")
        raise Uncertain(
            "it could not be confirmed in time: it may still be carried out", hint="look before you try again"
        )

    def take(self, most: int = COMMANDS_AT_ONCE, *, with_many: bool = True) -> list[Wish]:
        """As many as fit into one entry, in the order they came. A second one about the same has to wait: it is to be
        prepared on the state that the first leaves behind. Others need not wait with it. ``with_many``: also one that
        is about many schedules."""
        size = 0
        named: set[str] = set()
        taken: list[Wish] = []
        left: list[Wish] = []
        for place, wish in enumerate(self._waiting):
            size += wish.size
            is_full = len(taken) == most or (taken and size > COMMAND_BYTES_AT_ONCE)
            is_many = isinstance(wish.command, PutSchedules)  # it may be about any: it goes alone
            if is_full or (is_many and (named or not with_many)):
                left += self._waiting[place:]
                break
            if wish.command.about in named:
                left.append(wish)
                size -= wish.size
                continue
            named.add(wish.command.about)
            taken.append(wish)
            if is_many:
                left += self._waiting[place + 1 :]
                break
        self._waiting = left
        return taken

    def give_back(self, wishes: Sequence[Wish]) -> None:
        """They did not fit into the entry: they come first in the next one."""
        self._waiting[:0] = wishes

    def close(self, end: TocsinError) -> None:
        """No more wishes, and an answer for each that is left: nobody waits for ever."""
        self._closed, self._end = True, end
        for answer in list(self._unanswered):
            settle(answer, end)


class Prepared(NamedTuple):
    """Changes, and whose they are."""

    changes: list[Change]
    wishes: list[Wish]
    many: Many | None
    """How the results of all these changes are the answer to one wish; None: each wish has one."""
    answered: list[tuple[Wish, object]]
    """Wishes that need no change, and refusals. They too are told only when it is certain that this replica leads."""

    def __bool__(self) -> bool:
        return bool(self.wishes or self.answered)

    def within(self, bytes_max: int) -> tuple[Prepared, list[Wish]]:
        """As many of these, in their order, as take no more bytes of an entry; and the wishes that are left."""
        if size_of(self.changes) <= bytes_max:
            return self, []
        if self.many is not None:
            return self._replace(changes=[], wishes=[], many=None), self.wishes
        count, size = 0, 0
        for change in self.changes:
            size += size_of([change])
            if size > bytes_max:
                break
            count += 1
        return self._replace(changes=self.changes[:count], wishes=self.wishes[:count]), self.wishes[count:]

    def settle(self, results: Sequence[Any]) -> None:
        """The changes have been applied: tell whoever asked."""
        if self.many is not None:
            results = [self.many.result(results)]
        for wish, result in zip(self.wishes, results, strict=True):
            settle(wish.answer, result)
        for wish, result in self.answered:
            settle(wish.answer, result)

    def fail(self, written: TocsinError, unwritten: TocsinError) -> None:
        """The entry was not acknowledged: ``written`` to those whose changes were in it, ``unwritten`` to the others,
        whose answers come from a state that may be an old one."""
        for wish in self.wishes:
            settle(wish.answer, written)
        for wish, _ in self.answered:
            settle(wish.answer, unwritten)


def prepared(db: sqlite3.Connection, wishes: Sequence[Wish], now_ms: int) -> Prepared:
    """Commands become changes. One that cannot be carried out, or that its caller has no right to any more, has its
    answer already. Runs on the state's thread."""
    changes: list[Change] = []
    kept: list[Wish] = []
    answered: list[tuple[Wish, object]] = []
    many: Many | None = None
    found = {id: tokens.find(db, id) for id in {wish.command.bearer for wish in wishes} if id}
    for wish in wishes:
        try:
            check_bounds(wish.command)
            if wish.command.bearer:
                check_right(wish.command, found[wish.command.bearer], now_ms)
            if isinstance(wish.command, PutSchedules):
                listed = prepare_many(db, wish.command, now_ms)
                if not listed.changes:
                    answered.append((wish, listed.result([])))
                    continue
                many = listed
                changes += listed.changes
            else:
                changes.append(prepare(db, wish.command, now_ms))
            kept.append(wish)
        except TocsinError as wrong:
            answered.append((wish, wrong))
    return Prepared(changes, kept, many, answered)


def size_of(changes: Sequence[Change]) -> int:
    """Bytes of these in an entry, before it is compressed."""
    return len(_encode(changes)) if changes else 0


def settle(answer: asyncio.Future[Any], result: object) -> None:
    """An error of ours is raised to whoever asked."""
    if answer.done():
        return
    if isinstance(result, TocsinError):
        answer.set_exception(result)
    else:
        answer.set_result(result)


def _weight(command: Command) -> int:
    """How much of an entry it takes: few words of a caller may become a thousand rows."""
    return BACKFILL_BYTES if isinstance(command, Backfill) else len(msgspec.msgpack.encode(command))
