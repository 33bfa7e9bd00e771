"""Answers that are lines of JSON (NDJSON): one a schedule, and a last one that sums up."""

from __future__ import annotations

import msgspec

from tocsin.model.answer import Problem

MEDIA_TYPE = "application/x-ndjson"


class BulkLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one schedule."""

    id: str
    result: str
    error: Problem | None = None
    was: dict[str, str | None] = {}
    """What its labels were that are changed; null: it had none. Sent back as they are, they undo it."""


class ImportLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line that was refused, and why. Lines that went well are only counted."""

    line: int
    id: str | None = None
    error: Problem


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """So far."""

    progress: int
    """Lines read."""
    counts: dict[str, int]


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The last line. Without it the answer was cut off."""

    done: bool
    counts: dict[str, int]
    warnings: list[str] | msgspec.UnsetType = msgspec.UNSET
    """What is to be said of lines that were written all the same."""
