"""The fields of a schedule, one a line: ``target.url``, ``target.env.PATH``, ``retry.limit``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tocsin.cli.printing import encoded

if TYPE_CHECKING:
    from tocsin.model.schedule import Schedule

_OF_THE_SERVICE = ("next", "created_at", "updated_at", "note", "resolved", "version", "warnings")
_WHOLE = ("payload",)
"""What belongs to the user in every part stays in one piece."""


def fields_of(schedule: Schedule) -> dict[str, str]:
    """What was written, as far as it is not left at its default of nothing."""
    import msgspec

    return dict(_flat("", msgspec.to_builtins(schedule)))


def _flat(above: str, fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in fields.items():
        name = f"{above}{key}"
        if value in (None, "", {}) or name in _OF_THE_SERVICE:
            if name in _WHOLE and value is not None:
                yield name, encoded(value)
        elif isinstance(value, dict) and name not in _WHOLE:
            yield from _flat(f"{name}.", value)
        else:
            yield name, value if isinstance(value, str) and name not in _WHOLE else encoded(value)
