"""What a command needs whoever asks for it to have.

It is looked at twice: at the door of the replica that is asked, for which ``api.door.access`` has the table of all
requests; and by the leader, on the state that the command is to be carried out on. Only the second look is certain: the
replica that was asked may not have heard yet that a token was revoked.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tocsin.errors import Forbidden, Unauthenticated
from tocsin.model.command import (
    Backfill,
    CancelLaunch,
    Command,
    ConfirmClock,
    CreateToken,
    DeleteSchedule,
    LaunchNow,
    MakeCheckpoint,
    NoteTokenUse,
    OpenSession,
    PutSchedule,
    PutSchedules,
    RepairDue,
    ResolveLaunch,
    RevokeToken,
    SwitchSchedule,
)
from tocsin.model.ids import parse_launch_name
from tocsin.model.target import TargetSpec, kind_of
from tocsin.model.token import ADMIN, EXEC, OPERATE, READ, WRITE, Caller, Token, is_current


class _Written(msgspec.Struct, frozen=True):
    """The part of a stored schedule that a right depends on."""

    target: TargetSpec


_decode = msgspec.msgpack.Decoder(_Written).decode

NEEDS: dict[type[Command], str] = {
    PutSchedule: WRITE,
    PutSchedules: WRITE,
    DeleteSchedule: WRITE,
    SwitchSchedule: OPERATE,
    LaunchNow: OPERATE,
    CancelLaunch: OPERATE,
    ResolveLaunch: OPERATE,
    Backfill: OPERATE,
    CreateToken: ADMIN,
    OpenSession: READ,
    RevokeToken: ADMIN,
    NoteTokenUse: READ,
    MakeCheckpoint: ADMIN,
    ConfirmClock: ADMIN,
    RepairDue: OPERATE,
}


def caller_of(token: Token) -> Caller:
    """Whoever comes with it."""
    return Caller(
        token.name,
        frozenset(token.scopes),
        token.prefixes,
        token.id,
        token.expires_ms,
        token.targets,
        token.opened_by or token.id,
    )


def check_right(command: Command, token: Token | None, now_ms: int) -> None:
    """Raise if the token that the command came with, as it is kept now, does not give the right to it."""
    if token is None or not is_current(token, now_ms):
        raise Unauthenticated("the token was revoked or has expired meanwhile")
    caller = caller_of(token)
    require(caller, NEEDS[type(command)])
    if isinstance(command, OpenSession) and command.session.token != token.id:
        raise Forbidden("a session can be opened only by the token that it is for")
    for schedule in _schedules_of(command):
        require_reach(caller, schedule)
    if not caller.writes_all:
        for spec in _targets_of(command):
            require_target(caller, spec)


def require(caller: Caller, scope: str) -> None:
    if not caller.may(scope):
        raise Forbidden(
            f"the token {caller.name!r} has not the scope {scope!r}",
            hint=f"it has {', '.join(sorted(caller.scopes))}; an admin can make another one",
        )


def require_reach(caller: Caller, id: str) -> None:
    if not caller.reaches(id):
        raise Forbidden(
            f"{id[:100]!r} is outside of what the token {caller.name!r} reaches",
            hint=f"it reaches {', '.join(caller.prefixes)}",
        )


def require_target(caller: Caller, spec: TargetSpec) -> None:
    """May they write a schedule that goes there?"""
    if caller.may_write(spec):
        return
    kind = kind_of(spec)
    if kind == EXEC and not caller.may(EXEC):
        require(caller, EXEC)
    raise Forbidden(
        f"the token {caller.name!r} may not write such a target of the kind {kind!r}",
        hint=f"it may write {', '.join(caller.targets)}",
    )


def _targets_of(command: Command) -> Iterator[TargetSpec]:
    """Where the schedules go that it writes."""
    match command:
        case PutSchedule():
            yield command.schedule.target
        case PutSchedules():
            for spec in command.new.specs:
                yield _decode(spec).target


def _schedules_of(command: Command) -> list[str]:
    """The schedules that it is about."""
    match command:
        case PutSchedule():
            return [command.schedule.id]
        case PutSchedules():
            return command.new.ids
        case RepairDue():
            return command.ids
        case CancelLaunch() | ResolveLaunch():
            return [parse_launch_name(command.name).schedule]
        case DeleteSchedule() | SwitchSchedule() | LaunchNow() | Backfill():
            return [command.id]
        case (
            CreateToken() | OpenSession() | RevokeToken() | NoteTokenUse() | MakeCheckpoint() | ConfirmClock()
        ):
            return []
