"""Many new schedules as columns: how they come from an import, through a command and an entry, into the state."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

NewRow = tuple[str, bytes, str, str, bytes | None, bool, int | None, int]
"""One new schedule: what stands in each column."""


class NewSchedules(msgspec.Struct, frozen=True, array_like=True):
    """One line of each list is one schedule."""

    ids: list[str]
    specs: list[bytes]
    """The schedules as they are kept."""
    resolved: list[str]
    zones: list[str]
    rules: list[bytes | None]
    enabled: list[bool]
    first_instants_s: list[int | None]
    first_delays_ms: list[int]

    def __len__(self) -> int:
        return len(self.ids)

    def is_whole(self) -> bool:
        """Are all columns of one length, and the ids unlike each other?"""
        lengths = {len(column) for column in msgspec.structs.astuple(self)}
        return len(lengths) == 1 and len(set(self.ids)) == len(self.ids)

    def without(self, places: Collection[int]) -> NewSchedules:
        """All but those."""
        if not places:
            return self
        kept = [place for place in range(len(self)) if place not in places]
        return NewSchedules(*([column[place] for place in kept] for column in msgspec.structs.astuple(self)))


def columns_of(rows: Sequence[NewRow]) -> NewSchedules:
    if not rows:
        return NewSchedules([], [], [], [], [], [], [], [])
    return NewSchedules(*map(list, zip(*rows, strict=True)))
