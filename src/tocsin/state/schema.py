"""What may stand in a state file beside rows. A file that came from elsewhere is data, and must not act: a trigger or a
view that somebody planted there would, with the rights of whoever uses the file."""

from __future__ import annotations

import re
import sqlite3
from functools import cache

from tocsin.errors import StateDamaged
from tocsin.state.tables import SCHEMA_VERSION, TABLES

_Thing = tuple[str, str, str, str | None]
_STATISTICS = ("sqlite_stat1", "sqlite_stat4")
"""What ``ANALYZE`` leaves there, should somebody have run it by hand. It does nothing."""
_NOISE = re.compile(r"(?:--[^\n]*|[ \t\n\r\f])+")
"""Comments and blanks, as SQLite understands them."""


def distrust(db: sqlite3.Connection) -> None:
    """On every connection: nothing in the schema may call what has effects."""
    db.execute("PRAGMA trusted_schema = OFF")


def check(db: sqlite3.Connection, name: object) -> None:
    """Raises unless it holds exactly our tables and indexes, down to their last default and constraint."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version != SCHEMA_VERSION:
        raise StateDamaged(f"the state file {name} has format {version}, this version reads {SCHEMA_VERSION}")
    found, expected = _things(db), _expected()
    if found != expected:
        others = sorted({f"{kind} {thing}" for kind, thing, _, _ in found ^ expected})
        told = "".join(c if c.isprintable() else "?" for c in ", ".join(others[:3])[:200])
        raise StateDamaged(
            f"the state file {name} was not made by this program: {told} is not as it should be"
        )


@cache
def _expected() -> frozenset[_Thing]:
    db = sqlite3.connect(":memory:")
    try:
        db.executescript(TABLES)
        return _things(db)
    finally:
        db.close()


def _things(db: sqlite3.Connection) -> frozenset[_Thing]:
    rows = db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
    return frozenset(
        (kind, name, of, _NOISE.sub(" ", sql) if isinstance(sql, str) else sql)
        for kind, name, of, sql in rows
        if not (kind == "table" and name in _STATISTICS)
    )
