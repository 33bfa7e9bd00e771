"""Entries that an operator wants skipped, because no replica can apply them.

``tocsin journal skip`` leaves the number in the data directory. The next start looks up the entry's id and stores both
beside the journal, where every replica reads them before it applies anything. That an entry was skipped is a part of
the state, so snapshots carry it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import structlog

from tocsin.errors import Diverged, InvalidInput
from tocsin.journal.contract import Journal
from tocsin.model.entry import Position
from tocsin.state.store import Store

log = structlog.get_logger()


async def load(journal: Journal, request: Path, store: Store) -> dict[int, bytes]:
    """All entries to be skipped, the requested one among them."""
    text = await asyncio.to_thread(_read, request)
    if text is not None:
        await _carry_out(journal, request, text)
    skips = await journal.skips()
    known = dict(store.db.execute("SELECT seq, id FROM skipped").fetchall())
    for seq, id in skips.items():
        if seq <= store.meta.seq and known.get(seq) != id:
            raise Diverged(
                f"entry {seq} is to be skipped, and this replica has applied it",
                hint=f"move {store.path.name}* away: at the next start the state is built anew without that entry",
            )
    return skips


def _read(request: Path) -> str | None:
    return request.read_text(errors="replace").strip() if request.exists() else None


async def _carry_out(journal: Journal, request: Path, text: str) -> None:
    record = await journal.get(int(text)) if text.isdecimal() else None
    if record is None:
        raise InvalidInput(
            "the journal holds no such entry",
            field="entry to be skipped",
            value=text,
            hint=f"remove {request}, or name another one with 'tocsin journal skip'",
        )
    await journal.skip(Position(record.seq, record.id))
    log.warning("journal entry will be skipped", seq=record.seq, entry=record.id.hex())
    await asyncio.to_thread(request.unlink)
