"""Tokens come, are used, and go. The secret itself never gets here."""

from __future__ import annotations

import msgspec

from tocsin.errors import AlreadyExists, NotFound
from tocsin.model import change as c
from tocsin.state.apply.context import Context


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


def revoked(context: Context, change: c.TokenRevoked) -> object:
    db, meta, _ = context
    # An id counts for more than a name: a token may be named as another one's id.
    found = (
        db.execute("DELETE FROM token WHERE id = ? RETURNING name", (change.id,)).fetchone()
        or db.execute("DELETE FROM token WHERE name = ? RETURNING name", (change.id,)).fetchone()
    )
    if found is None:
        return NotFound(f"there is no token {change.id!r}", hint="'tocsin token list' shows all")
    context.record("token revoked", found[0], change.actor)
    meta.tokens_seq = meta.seq + 1
    return found[0]


def used(context: Context, change: c.TokensUsed) -> None:
    context.db.executemany(
        "UPDATE token SET used_ms = ? WHERE id = ?", zip(change.used_ms, change.ids, strict=True)
    )
