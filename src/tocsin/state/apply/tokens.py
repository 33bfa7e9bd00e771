"""Tokens come, are used, and go, and the sessions of the console with them. A secret itself never gets here."""

from __future__ import annotations

import msgspec

from tocsin.errors import AlreadyExists, NotFound
from tocsin.model import change as c
from tocsin.state.apply.context import Context

SESSIONS_MAX = 20
"""So many sessions one token may have open."""


def created(context: Context, change: c.TokenCreated) -> object:
    """Returns the token's id, or why not."""
    db, meta, entry = context
    token = change.token
    if db.execute("SELECT 1 FROM token WHERE name = ? OR id = ?", (token.name, token.id)).fetchone():
        return AlreadyExists(
            f"there is a token {token.name!r} already", hint="revoke it first, or choose another name"
        )
    db.execute(
        "INSERT INTO token VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)",
        (
            token.id,
            token.name,
            token.hash,
            ",".join(token.scopes),
            msgspec.json.encode(token.prefixes).decode(),
            msgspec.json.encode(token.targets).decode(),
            entry.time_ms,
            change.actor,
            token.expires_ms,
        ),
    )
    reach = f" within {', '.join(token.prefixes)}" if token.prefixes else ""
    reach += f" to {', '.join(token.targets)}" if token.targets else ""
    context.record("token created", token.name, change.actor, note=f"{', '.join(token.scopes)}{reach}")
    meta.tokens_seq = meta.seq + 1
    return token.id


def session_opened(context: Context, change: c.SessionOpened) -> object:
    """Returns the session's id, or why not. Whoever logs in again and again closes their oldest sessions by that."""
    db, meta, entry = context
    session = change.session
    found = db.execute("SELECT name FROM token WHERE id = ?", (session.token,)).fetchone()
    if found is None:
        return NotFound("the token was revoked in this very moment", hint="log in with another one")
    if db.execute("SELECT 1 FROM session WHERE id = ?", (session.id,)).fetchone():
        return AlreadyExists("there is such a session already", hint="log in again")
    db.execute("DELETE FROM session WHERE expires_ms <= ?", (entry.time_ms,))
    db.execute(
        "DELETE FROM session WHERE token = ? AND id NOT IN "
        "(SELECT id FROM session WHERE token = ? ORDER BY opened_ms DESC, id LIMIT ?)",
        (session.token, session.token, SESSIONS_MAX - 1),
    )
    db.execute(
        "INSERT INTO session VALUES (?, ?, ?, ?, ?, NULL, ?)",
        (session.id, session.token, session.hash, entry.time_ms, session.expires_ms, session.address),
    )
    context.record("session opened", found[0], found[0], note=f"from {session.address}")
    meta.tokens_seq = meta.seq + 1
    return session.id


def revoked(context: Context, change: c.TokenRevoked) -> object:
    db, meta, _ = context
    session = db.execute("DELETE FROM session WHERE id = ? RETURNING token", (change.id,)).fetchone()
    if session is not None:
        name = db.execute("SELECT name FROM token WHERE id = ?", session).fetchone()
        context.record("session closed", name[0], change.actor)
        meta.tokens_seq = meta.seq + 1
        return name[0]
    # An id counts for more than a name: a token may be named as another one's id.
    found = (
        db.execute("DELETE FROM token WHERE id = ? RETURNING name, id", (change.id,)).fetchone()
        or db.execute("DELETE FROM token WHERE name = ? RETURNING name, id", (change.id,)).fetchone()
    )
    if found is None:
        return NotFound(f"there is no token {change.id!r}", hint="'tocsin token list' shows all")
    db.execute("DELETE FROM session WHERE token = ?", (found[1],))
    context.record("token revoked", found[0], change.actor)
    meta.tokens_seq = meta.seq + 1
    return found[0]


def used(context: Context, change: c.TokensUsed) -> None:
    noted = [(used_ms, id, id) for used_ms, id in zip(change.used_ms, change.ids, strict=True)]
    context.db.executemany(
        "UPDATE token SET used_ms = ? WHERE id = ? OR id = (SELECT token FROM session WHERE id = ?)", noted
    )
    context.db.executemany("UPDATE session SET used_ms = ? WHERE id = ?", [each[:2] for each in noted])
