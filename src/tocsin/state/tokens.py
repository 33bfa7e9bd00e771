"""Tokens, as they are kept and as they are shown."""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime

from tocsin.model.token import Token, TokenView

_COLUMNS = "id, name, hash, scopes, prefixes, expires_ms, targets"


def held(db: sqlite3.Connection) -> dict[str, Token]:
    """All of them, by id."""
    return {row[0]: _token(*row) for row in db.execute(f"SELECT {_COLUMNS} FROM token")}


def find(db: sqlite3.Connection, id: str) -> Token | None:
    row = db.execute(f"SELECT {_COLUMNS} FROM token WHERE id = ?", (id,)).fetchone()
    return None if row is None else _token(*row)


def _token(
    id: str, name: str, hash: bytes, scopes: str, prefixes: str, expires_ms: int | None, targets: str
) -> Token:
    return Token(
        id,
        name,
        hash,
        tuple(scopes.split(",")),
        tuple(json.loads(prefixes)),
        expires_ms,
        tuple(json.loads(targets)),
    )


def shown(db: sqlite3.Connection) -> list[TokenView]:
    """All of them, in the order of their names, without anything secret."""
    rows = db.execute(
        "SELECT id, name, scopes, prefixes, targets, created_ms, created_by, expires_ms, used_ms FROM token "
        "ORDER BY name"
    )
    return [
        TokenView(
            id=id,
            name=name,
            scopes=scopes.split(","),
            prefixes=json.loads(prefixes),
            targets=json.loads(targets),
            created_at=_moment(created_ms),
            created_by=created_by,
            expires_at=None if expires_ms is None else _moment(expires_ms),
            last_used_at=None if used_ms is None else _moment(used_ms),
        )
        for id, name, scopes, prefixes, targets, created_ms, created_by, expires_ms, used_ms in rows
    ]


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
