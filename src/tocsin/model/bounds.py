"""Integers that can be kept. The journal takes greater ones than the state does: such an entry could not be applied by
anybody, and would be there for ever. So they are refused before there is an entry."""

from __future__ import annotations

from tocsin.errors import InvalidInput
from tocsin.model.command import (
    Backfill,
    Command,
    ConfirmClock,
    CreateToken,
    NoteTokenUse,
    OpenSession,
    PutSchedule,
    PutSchedules,
)

INTEGER_MAX = 2**63 - 1
MOMENT_S_MAX = 253_402_300_799
"""The last second of the year 9999: later ones cannot be shown."""


def check_bounds(command: Command) -> None:
    """Raise if an integer in it cannot be kept, whoever sent it."""
    for field in ("expect", "restored"):
        _within(field, getattr(command, field, None), INTEGER_MAX)
    match command:
        case PutSchedule():
            if command.schedule.retry is not None:
                command.schedule.retry.check()
        case PutSchedules():
            if not command.new.is_whole():
                raise InvalidInput("the columns do not fit together", field="new", value="(not shown)")
            moments = [instant_s for instant_s in command.new.first_instants_s if instant_s is not None]
            for moment_s in (min(moments, default=0), max(moments, default=0)):
                _within("first_instants_s", moment_s, MOMENT_S_MAX)
            delays_ms = command.new.first_delays_ms
            for delay_ms in (min(delays_ms, default=0), max(delays_ms, default=0)):
                _within("first_delays_ms", delay_ms, MOMENT_S_MAX)
        case Backfill():
            _within("from", command.from_s, MOMENT_S_MAX)
            _within("until", command.until_s, MOMENT_S_MAX)
            _within("recorded_since", command.recorded_since_s, MOMENT_S_MAX, -MOMENT_S_MAX)
        case ConfirmClock():
            _within("now", command.now_ms, MOMENT_S_MAX * 1000)
        case CreateToken():
            _within("expires", command.token.expires_ms, MOMENT_S_MAX * 1000)
        case OpenSession():
            _within("expires", command.session.expires_ms, MOMENT_S_MAX * 1000)
        case NoteTokenUse():
            for used_ms in command.used_ms.values():
                _within("used", used_ms, MOMENT_S_MAX * 1000)


def _within(field: str, value: int | None, most: int, least: int = 0) -> None:
    if value is not None and not least <= value <= most:
        raise InvalidInput(f"{value} cannot be kept", field=field, value=value, allowed=f"{least} to {most}")
