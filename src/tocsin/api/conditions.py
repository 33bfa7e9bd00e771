"""``If-Match`` and ``If-None-Match`` (RFC 9110): only if the schedule is what the caller takes it for.

A schedule's ETag is its version in quotes. A condition is looked at before the write, and the write demands the
version that was looked at, so nobody can come in between.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from tocsin.api.answers import Answer, schedule_answer, tag_of
from tocsin.api.service import Service
from tocsin.api.warnings import with_warnings
from tocsin.errors import AlreadyExists, InvalidInput, NotFound, Refused, VersionConflict
from tocsin.model.command import Command
from tocsin.model.schedule import ScheduleView
from tocsin.model.token import Caller
from tocsin.state import views
from tocsin.state.apply.schedules import Put

TRIES_MAX = 100
"""How often others may be faster before a write gives up. Each time one of them got through."""

_TAG = r'(?:W/)?"[!#-~\x80-\xff]*"'
_TAGS = re.compile(rf"{_TAG}(?:[ \t]*,[ \t]*{_TAG})*")
_ANY = "*"


class Conditions(NamedTuple):
    """The tags of each header as they were given; None: there is no such header."""

    match: tuple[str, ...] | None = None
    none_match: tuple[str, ...] | None = None

    @classmethod
    def of(cls, if_match: str | None = None, if_none_match: str | None = None) -> Conditions:
        return cls(_tags(if_match, "If-Match"), _tags(if_none_match, "If-None-Match"))

    def is_unchanged(self, version: int) -> bool:
        """Does a reader who has these know this version already? Weak tags will do for that."""
        known = self.none_match or ()
        return _ANY in known or tag_of(version) in {tag.removeprefix("W/") for tag in known}

    def check(self, id: str, version: int) -> None:
        """Raise if a write must not be made on this version; 0: there is none."""
        if self.match is not None and not version:
            raise VersionConflict(
                f"there is no schedule {id!r}, so it is at no version", hint="leave If-Match out to create it"
            )
        if self.match is not None and not {_ANY, tag_of(version)} & set(self.match):
            raise VersionConflict(
                f"the schedule {id!r} is at version {version}, not {', '.join(self.match)[:60]}",
                hint="read it again and repeat the edit on what it is now",
            )
        if version and self.is_unchanged(version):
            raise VersionConflict(
                f"the schedule {id!r} exists already, at version {version}",
                hint="leave If-None-Match out to replace it",
            )


async def written(service: Service, id: str, version: int, status: int = 200) -> Answer:
    """What a write has made of the schedule, and not what somebody else may have made of it since: whoever takes
    the ETag of this answer for the version that they wrote must be right."""
    if isinstance(version, Put) and version.row is not None:
        view = views.schedule_view(version.row)
    else:
        view = await service.replica.read(views.schedule_at, id, version)
    return schedule_answer(with_warnings(view, version), status)


async def write(
    service: Service,
    caller: Caller,
    id: str,
    conditions: Conditions,
    command: Callable[[ScheduleView | None], Command | Awaitable[Command]],
) -> tuple[int, int]:
    """Carry out the command that is made for the newest version, if that meets the conditions. Where somebody
    else was faster, look again. Returns the version that it was carried out on (0: there was none) and the one
    that it made."""
    is_caught_up = False
    for _ in range(TRIES_MAX):
        present = await service.replica.read(newest, id)
        version = 0 if present is None else present.version
        try:
            conditions.check(id, version)
            made = command(present)
            wish = await made if isinstance(made, Awaitable) else made
        except (NotFound, VersionConflict):
            # By the state as it is here, which may be behind that of the leader.
            if is_caught_up:
                raise
            await service.replica.catch_up()
            is_caught_up = True
            continue
        try:
            return version, await service.propose(caller, wish)
        except (AlreadyExists, VersionConflict):
            await service.replica.catch_up()
        except NotFound:
            if present is None:
                raise
            await service.replica.catch_up()
    raise Refused(
        f"the schedule {id!r} was changed by others {TRIES_MAX} times before this could be written",
        hint="try again in a moment",
    )


def newest(db: sqlite3.Connection, id: str) -> ScheduleView | None:
    """The schedule, or None."""
    try:
        return views.schedule(db, id)
    except NotFound:
        return None


def expected(present: ScheduleView | None) -> int:
    """What a command demands that is made for this version and no other."""
    return 0 if present is None else present.version


def existing(present: ScheduleView | None, id: str) -> ScheduleView:
    if present is None:
        raise NotFound(f"there is no schedule {id!r}", hint="'tocsin list' shows all")
    return present


def _tags(header: str | None, name: str) -> tuple[str, ...] | None:
    if header is None:
        return None
    text = header.strip()
    if text != _ANY and not _TAGS.fullmatch(text):
        raise InvalidInput(
            f"{header[:60]!r} is not a version",
            field=name,
            value=header,
            allowed='the ETag of a read, with its quotes, such as "3"; several with a comma; or *',
        )
    return (_ANY,) if text == _ANY else tuple(re.findall(_TAG, text))
