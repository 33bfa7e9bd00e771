"""One journal record: a batch of changes, with term, time and a unique id."""

from __future__ import annotations

import msgspec

from tocsin.model.change import Change


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """``id`` is unique for ever: it tells whether an append whose answer was lost has landed."""

    id: bytes
    term: int
    time_ms: int
    changes: list[Change]
