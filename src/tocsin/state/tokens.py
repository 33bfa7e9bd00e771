"""Tokens and the sessions of the console, as they are kept and as they are shown."""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime

from tocsin.model.token import SessionView, Token, TokenView

_COLUMNS = "id, name, hash, scopes, prefixes, expires_ms, targets"
_SESSIONS = (
    "SELECT session.id, name, session.hash, scopes, prefixes, "
    "min(session.expires_ms, coalesce(token.expires_ms, session.expires_ms)), targets, token.id "
    "FROM session JOIN token ON token.id = session.token"
)
"""A session is a token for a while: it may do what the token may, and has an id and a secret of its own."""


def held(db: sqlite3.Connection) -> dict[str, Token]:
    """All tokens, by id."""
    return {row[0]: _token(*row) for row in db.execute(f"SELECT {_COLUMNS} FROM token")}


def sessions(db: sqlite3.Connection) -> dict[str, Token]:
    """All sessions, by id."""
    return {row[0]: _token(*row) for row in db.execute(_SESSIONS)}


def find(db: sqlite3.Connection, id: str) -> Token | None:
    """The token, or the session, with this id."""
    row = (
        db.execute(f"SELECT {_COLUMNS} FROM token WHERE id = ?", (id,)).fetchone()
        or db.execute(f"{_SESSIONS} WHERE session.id = ?", (id,)).fetchone()
    )
    return None if row is None else _token(*row)


def _token(
    id: str,
    name: str,
    hash: bytes,
    scopes: str,
    prefixes: str,
    expires_ms: int | None,
    targets: str,
    opened_by: str = "",
) -> Token:
    return Token(
        id,
        name,
        hash,
        tuple(scopes.split(",")),
        tuple(json.loads(prefixes)),
        expires_ms,
        tuple(json.loads(targets)),
        opened_by,
    )


def shown(db: sqlite3.Connection, now_ms: int) -> list[TokenView]:
    """All of them, in the order of their names, without anything secret."""
    opened = _sessions_shown(db, now_ms)
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
            sessions=opened.get(id, []),
        )
        for id, name, scopes, prefixes, targets, created_ms, created_by, expires_ms, used_ms in rows
    ]


def _sessions_shown(db: sqlite3.Connection, now_ms: int) -> dict[str, list[SessionView]]:
    """By the token that opened them."""
    rows = db.execute(
        "SELECT token, id, opened_ms, expires_ms, used_ms, address FROM session WHERE expires_ms > ? "
        "ORDER BY opened_ms, id",
        (now_ms,),
    )
    found: dict[str, list[SessionView]] = {}
    for token, id, opened_ms, expires_ms, used_ms, address in rows:
        view = SessionView(
            id=id,
            opened_at=_moment(opened_ms),
            expires_at=_moment(expires_ms),
            last_used_at=None if used_ms is None else _moment(used_ms),
            address=address,
        )
        found.setdefault(token, []).append(view)
    return found


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
