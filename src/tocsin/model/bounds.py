"""Integers that can be kept. The journal takes greater ones than the state does: such an entry could never be applied, by
nobody, and would be there for ever. So they are refused before there is an entry."""

from __future__ import annotations

from tocsin.errors import InvalidInput
from tocsin.model.command import Backfill, Command, CreateToken, NoteTokenUse, PutSchedule
from tocsin.model.schedule import RETRY_LIMIT_MAX

INTEGER_MAX = 2**63 - 1
MOMENT_S_MAX = 253_402_300_799
"""The last second of the year 9999: later ones cannot be shown."""


def check_bounds(command: Command) -> None:
    """Raise if an integer in it cannot be kept, whoever sent it."""
    for field in ("expect", "restored"):
        _within(field, getattr(command, field, None), INTEGER_MAX)
    match command:
        case PutSchedule():
            _within("retry.limit", command.schedule.retry.limit, RETRY_LIMIT_MAX)
        case Backfill():
            _within("from", command.from_s, MOMENT_S_MAX)
            _within("until", command.until_s, MOMENT_S_MAX)
            _within("recorded_since", command.recorded_since_s, MOMENT_S_MAX)
        case CreateToken():
            _within("expires", command.token.expires_ms, MOMENT_S_MAX * 1000)
        case NoteTokenUse():
            for used_ms in command.used_ms.values():
                _within("used", used_ms, MOMENT_S_MAX * 1000)


def _within(field: str, value: int | None, most: int) -> None:
    if value is not None and not 0 <= value <= most:
        raise InvalidInput(f"{value} cannot be kept", field=field, value=value, allowed=f"0 to {most}")
