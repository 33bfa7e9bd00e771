"""A backup, as it is shown."""

from __future__ import annotations

from datetime import datetime

import msgspec


class BackupView(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot that was copied to the place of the backups."""

    sequence: int
    """The last journal entry that it holds."""
    at: datetime
    """The time of that entry."""
    incarnation: str
    """The journal that it is of."""
    bytes: int
    stored_bytes: int
    """Compressed."""
    sha256: str
    version: str
    """Of the Tocsin that wrote it."""
