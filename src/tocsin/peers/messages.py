"""What goes over the wire between replicas, in msgpack.

An error of ours travels by the name of its class with all that it knows, and is raised again as what it was. What
this version does not know of (a newer replica is asked by an older one, or the other way round) is told as the
nearest thing that it does know.
"""

from __future__ import annotations

from typing import Any, TypeVar, get_args

import msgspec

from tocsin import errors
from tocsin.model.bounds import check_bounds
from tocsin.model.cluster import Asked
from tocsin.model.command import Command
from tocsin.model.problem import shown
from tocsin.replica.peers import Answered
from tocsin.state.apply.schedules import Put

_T = TypeVar("_T")
MEDIA_TYPE = "application/msgpack"
_MESSAGE_LENGTH_MAX = 4_000
_COMMANDS: dict[str, type] = {kind.__name__: kind for kind in get_args(Command)}
_ERRORS: dict[str, type[errors.TocsinError]] = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.TocsinError)
}

encode = msgspec.msgpack.Encoder().encode


class Wrong(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error on its way."""

    kind: str
    message: str
    hint: str = ""
    field: str = ""
    value: Any = None
    allowed: str = ""
    wait_s: int = 1


class Proposal(msgspec.Struct, frozen=True):
    """A command for the leader. Its kind stands beside it: commands have no tag, because nobody keeps them."""

    kind: str
    command: msgspec.Raw


class One(msgspec.Struct, frozen=True, array_like=True):
    """One of many: a version and how it came about, or why not."""

    version: int = 0
    act: str = ""
    wrong: Wrong | None = None


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a command brought about: see ``state.apply``."""

    seq: int
    value: int | str | None = None
    act: str | None = None
    """Only a ``Put`` has it."""
    many: dict[int, One] | None = None
    """Of a command about many: what became of those that were not simply created."""


class Inquiry(msgspec.Struct, frozen=True):
    """What became of these? Asked by the leader of that term."""

    asked: list[Asked]
    term: int


class Cancelling(msgspec.Struct, frozen=True):
    asked: Asked
    reason: str


class Printed(msgspec.Struct, frozen=True):
    """Whose output is wanted."""

    kind: str
    name: str
    attempt: int


class Nothing(msgspec.Struct, frozen=True):
    """There is nothing to say."""


def decode(raw: bytes, shape: type[_T]) -> _T:
    """Raises ``Unreachable`` for what is not understood: a replica that speaks otherwise has not answered."""
    try:
        return msgspec.msgpack.decode(raw, type=shape)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as wrong:
        raise errors.Unreachable(
            f"a replica's message is not understood: {wrong}", hint="are all replicas of the same version?"
        ) from None


def proposal_of(command: Command) -> Proposal:
    return Proposal(type(command).__name__, msgspec.Raw(encode(command)))


def command_of(proposal: Proposal) -> Command:
    """Raises ``Refused`` for what this version does not know, and ``InvalidInput`` for what cannot be kept: nothing
    was done."""
    kind = _COMMANDS.get(proposal.kind)
    if kind is None:
        raise _unknown(f"does not know the command {proposal.kind[:60]!r}")
    try:
        found: Command = msgspec.msgpack.decode(proposal.command, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as wrong:
        raise _unknown(f"does not understand the command {proposal.kind!r}: {wrong}") from None
    check_bounds(found)
    return found


def result_of(answered: Answered) -> Result:
    found = answered.result
    if isinstance(found, Put):
        return Result(answered.seq, int(found), found.act)
    if isinstance(found, dict):
        return Result(answered.seq, many={place: _one_of(each) for place, each in found.items()})
    if found is None or type(found) in (int, str):
        return Result(answered.seq, found)
    raise TypeError(f"a command brought about {type(found).__name__}, which cannot be told to others")


def answered_of(result: Result) -> Answered:
    if result.act is not None and isinstance(result.value, int):
        return Answered(result.seq, Put(result.value, result.act))
    if result.many is not None:
        return Answered(result.seq, {place: _found_in(one) for place, one in result.many.items()})
    return Answered(result.seq, result.value)


def _one_of(found: object) -> One:
    if isinstance(found, Put):
        return One(int(found), found.act)
    assert isinstance(found, errors.TocsinError)
    return One(wrong=wrong_of(found))


def _found_in(one: One) -> Put | errors.TocsinError:
    return Put(one.version, one.act) if one.wrong is None else error_of(one.wrong)


def wrong_of(error: errors.TocsinError) -> Wrong:
    """The error, by the nearest of its classes that every replica has."""
    kind = next(each.__name__ for each in type(error).__mro__ if _ERRORS.get(each.__name__) is each)
    invalid = error if isinstance(error, errors.InvalidInput) else None
    return Wrong(
        kind=kind,
        message=error.message[:_MESSAGE_LENGTH_MAX],
        hint=error.hint[:_MESSAGE_LENGTH_MAX],
        field="" if invalid is None else invalid.field,
        value=None if invalid is None else shown(invalid.value),
        allowed="" if invalid is None else invalid.allowed,
        wait_s=error.wait_s if isinstance(error, errors.TooMany) else 1,
    )


def error_of(wrong: Wrong) -> errors.TocsinError:
    kind = _ERRORS.get(wrong.kind, errors.TocsinError)
    if issubclass(kind, errors.InvalidInput):
        return kind(
            wrong.message, field=wrong.field, value=wrong.value, allowed=wrong.allowed, hint=wrong.hint
        )
    if issubclass(kind, errors.TooMany):
        return kind(wrong.message, hint=wrong.hint, wait_s=wrong.wait_s)
    return kind(wrong.message, hint=wrong.hint)


def _unknown(complaint: str) -> errors.Refused:
    return errors.Refused(
        f"the leader {complaint}", hint="all replicas must be of one version before its new features are used"
    )
