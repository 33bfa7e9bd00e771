"""Whether somebody leads who says so."""

from __future__ import annotations

import asyncio

from tocsin.errors import Refused, TocsinError
from tocsin.journal import codec
from tocsin.journal.contract import Journal

ASKED_S = 0.5
"""So long the journal is asked: whoever waits for the answer does not wait much longer."""


async def check_term(journal: Journal, known: int, term: int) -> None:
    """Raise if the journal knows nothing of that term, and ``known`` is an earlier one.

    Whoever leads wrote that down before it asked anybody. Where the journal cannot be asked they are believed: who
    cannot read it cannot write it either, and leads no more; and to answer a new leader late is worse.
    """
    if term <= known:
        return
    try:
        async with asyncio.timeout(ASKED_S):
            last = await journal.get((await journal.bounds()).last)
    except (TocsinError, TimeoutError):
        return
    if last is not None and codec.decode(last.raw, last.seq).term < term:
        raise Refused(f"nobody leads in term {term}: the last entry is of an earlier one")
