"""Tokens, as they are kept and as they are shown."""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime

from tocsin.model.token import Token, TokenView


def held(db: sqlite3.Connection) -> dict[str, Token]:
    """All of them, by id."""
    rows = db.execute("SELECT id, name, hash, scopes, prefixes, expires_ms FROM token")
    return {
        id: Token(id, name, hash, tuple(scopes.split(",")), tuple(json.loads(prefixes)), expires_ms)
        for id, name, hash, scopes, prefixes, expires_ms in rows
    }


def shown(db: sqlite3.Connection) -> list[TokenView]:
    """All of them, in the order of their names, without anything secret."""
    rows = db.execute(
        "SELECT id, name, scopes, prefixes, created_ms, created_by, expires_ms, used_ms FROM token ORDER BY name"
    )
    return [
        TokenView(
            id=id,
            name=name,
            scopes=scopes.split(","),
            prefixes=json.loads(prefixes),
            created_at=_moment(created_ms),
            created_by=created_by,
            expires_at=None if expires_ms is None else _moment(expires_ms),
            last_used_at=None if used_ms is None else _moment(used_ms),
        )
        for id, name, scopes, prefixes, created_ms, created_by, expires_ms, used_ms in rows
    ]


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
