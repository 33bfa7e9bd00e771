"""Checksums by which replicas compare themselves.

The running digest covers the entries applied, in order, and what applying them returned. The full digest covers every
row of every table, so it also shows a difference in how the entries were applied.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence

import msgspec

_ORDERED = {
    "skipped": "seq",
    "office": "term",
    "absence": "until_ms",
    "schedule": "sid",
    "due": "at_ms, sid",
    "revision": "sid, version",
    "launch": "lid",
    "attempt": "lid, attempt",
    "missed": "sid, from_s",
    "kept": "sid, version",
    "forgotten": "sid, epoch",
    "epoch": "epoch",
    "record": "rid",
    "minute": "at_min",
    "token": "id",
    "session": "id",
}


def running_digest(before: bytes, raw: bytes, results: Sequence[object]) -> bytes:
    """The digest after one more entry."""
    digest = hashlib.blake2b(before, digest_size=16)
    digest.update(raw)
    digest.update(repr(results).encode(errors="surrogatepass"))
    return digest.digest()


def full_digest(db: sqlite3.Connection) -> str:
    """The digest of all tables."""
    total = hashlib.blake2b(digest_size=16)
    encode = msgspec.msgpack.Encoder().encode
    for table, order in _ORDERED.items():
        total.update(table.encode())
        for row in db.execute(f"SELECT * FROM {table} ORDER BY {order}"):
            total.update(encode(row))
    return total.hexdigest()
