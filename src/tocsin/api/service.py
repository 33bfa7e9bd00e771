"""What the handlers are given, and what they share."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import msgspec
from litestar.di import NamedDependency

from tocsin.api.around import Around
from tocsin.api.door.access import Doorkeeper
from tocsin.api.door.read_log import ReadLog
from tocsin.api.door.sessions import length_of
from tocsin.api.forecasting import Forecaster
from tocsin.api.herds import Herds
from tocsin.api.importing.reader import ReaderPool
from tocsin.api.warnings import Warned, about_credential, literal_credential
from tocsin.config import Settings
from tocsin.cron import format_duration, parse_duration
from tocsin.errors import InvalidInput, NoLeader
from tocsin.model.command import Command, NoteTokenUse, PutSchedule
from tocsin.model.rights import require_reach, require_target
from tocsin.model.schedule import Schedule
from tocsin.model.token import Caller
from tocsin.replica.replica import Replica
from tocsin.state.apply.schedules import Put
from tocsin.targets.permissions import permissions_of

MOMENT_ALLOWED = "2026-01-31T09:00:00Z or unix seconds"
_UNIX_MAX = 253_402_300_799  # the last second of 9999
BEHIND_MS_MAX = 15_000
"""A follower is ready as long as it is no further behind: clocks may differ a little too."""


class Service:
    """One node, as the API sees it."""

    def __init__(self, replica: Replica, settings: Settings, around: Around | None = None) -> None:
        self.replica = replica
        self.around = around or Around()
        self.read_log = ReadLog(replica.clock)
        self.doorkeeper = Doorkeeper(
            replica, tokens_needed=settings.needs_tokens(), session_s=length_of(settings.session_length)
        )
        self.permissions = permissions_of(settings)
        self.readers = ReaderPool()
        self.forecaster = Forecaster(replica)
        self.herds = Herds(replica, settings.herd_limit, settings.herd_action)
        self.data = settings.data.absolute()
        self.started_ms = replica.clock.wall_ms()
        self.started_s = replica.clock.elapsed_s()
        self.history_age_ms = parse_duration(settings.history_age, field="history_age") * 1000
        self.snapshot_interval_s = parse_duration(settings.snapshot_interval, field="snapshot_interval")

    def now_ms(self) -> int:
        return self.replica.clock.wall_ms()

    async def propose(self, caller: Caller, command: Command) -> Any:
        """Have a command carried out in the name of whoever asks, and may still do so: as far as it is known here, and
        then as the leader knows it."""
        await self.doorkeeper.check_still_valid(caller)
        self.check_is_told(caller)
        if isinstance(command, PutSchedule):
            self.check(caller, command.schedule)  # an import has looked at each of its lines
        signed = msgspec.structs.replace(command, actor=caller.name, bearer=caller.token)
        change = await self.herds.before(signed)
        try:
            result = await self.replica.propose(signed)
        except BaseException:
            self.herds.undo(change)
            raise
        result = self.herds.after(change, result)
        header = literal_credential(command.schedule.target) if isinstance(command, PutSchedule) else ""
        if header and isinstance(result, Put) and result.act != "unchanged":
            result = Warned.of(result, [about_credential(header)])
        return result

    async def confirm(self, caller: Caller) -> None:
        """For what is done without a command: have the leader look whether their token still holds."""
        if caller.token:
            await self.propose(caller, NoteTokenUse({caller.token: self.now_ms()}))

    def check_is_told(self, caller: Caller) -> None:
        """Raise where nobody has told this replica for long which tokens still hold."""
        if not caller.token or self.replica.is_leader:
            return
        behind_ms = self.now_ms() - self.replica.told_ms
        if behind_ms > BEHIND_MS_MAX:
            raise NoLeader(
                f"this replica is {format_duration(behind_ms // 1000)} behind: whether the token still holds cannot be "
                "known here, and nothing was done",
                hint="ask another replica, or try again in a moment",
            )

    def check(self, caller: Caller, schedule: Schedule) -> None:
        """Raise if this schedule is not theirs to write, or asks for what nobody may do here."""
        require_reach(caller, schedule.id)
        require_target(caller, schedule.target)
        self.permissions.check(schedule)


Given = NamedDependency[Service]
"""How a handler asks for the service."""


def moment_of(text: str, field: str) -> datetime:
    """RFC 3339 with an offset, or unix seconds."""
    try:
        if re.fullmatch(r"-?[0-9]{1,15}", text):
            return datetime.fromtimestamp(int(text), UTC)
        # A "+" in a query is a blank by the rules of forms; an offset cannot hold a blank, so it was meant.
        moment = datetime.fromisoformat(re.sub(r" (?=[0-9]{2}:?[0-9]{2}$)", "+", text))
        if moment.tzinfo is None:
            raise ValueError("it has no offset")
        return moment.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        raise InvalidInput(
            f"{text[:60]!r} is not a moment with its offset", field=field, value=text, allowed=MOMENT_ALLOWED
        ) from None


def seconds_of(moment: datetime) -> int:
    """Unix seconds within what schedules can have."""
    return max(0, min(_UNIX_MAX, int(moment.timestamp())))
