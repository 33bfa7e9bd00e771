"""The clock was wrong, and is right again."""

from __future__ import annotations

import sqlite3

from tocsin.model import change as c
from tocsin.state import queries
from tocsin.state.apply.context import Context
from tocsin.state.apply.epochs import (
    LONG_MS,
    UNPROVEN_AT_MOST_MS,
    leapt,
    loss_is_ahead,
    lost_ahead,
    proven_again_ms,
    went_back,
)
from tocsin.state.apply.office import BRIEF_MS, is_doubtful, is_unproven, was_absent
from tocsin.state.store import CLOCKS_APART_MS

BACK_MS = 10_000
"""A clock that goes back by less than this is no news: replicas differ by as much."""
FORWARD_MS = 60_000
NEVER_S = 1 << 60


def clock_set(context: Context, change: c.ClockSet) -> None:
    """From now on this is the time. What lies behind it in the record has not happened yet: nobody was absent then, and
    next instants may have been computed from there."""
    db, meta, entry = context
    before_ms = max(meta.time_ms, entry.time_ms)
    meta.time_ms = change.now_ms
    what = "clock confirmed" if change.is_confirmed else "clock put back"
    context.record(what, "the clock", change.actor, note=change.note)
    if change.now_ms > before_ms + FORWARD_MS and before_ms:
        leapt(context, before_ms, change.now_ms)
        is_held = before_ms < meta.proven_again_ms
        since_ms = min(meta.proven_upto_s * 1000, before_ms) if is_held else before_ms
        is_unproven(meta, since_ms, change.now_ms + UNPROVEN_AT_MOST_MS)
    absent_since_ms = before_ms if change.absent_since_ms is None else change.absent_since_ms
    if meta.undecided_since_ms:
        absent_since_ms = min(absent_since_ms, meta.undecided_since_ms)
    if before_ms and change.now_ms > max(before_ms, absent_since_ms + BRIEF_MS):
        # In this very entry: whoever leads next must not take for late what was missed.
        was_absent(context, since_ms=absent_since_ms, until_ms=change.now_ms, is_step=True)
    if change.now_ms >= before_ms - BACK_MS:
        return
    is_held = before_ms < meta.proven_again_ms
    meta.proven_upto_s, meta.proven_again_ms = NEVER_S, 0
    lost_ahead(context, change.now_ms)
    loss_is_ahead(meta, change.now_ms)
    left_ms = went_back(context, before_ms, change.now_ms)
    if is_held and left_ms > LONG_MS:
        since_ms = change.now_ms - left_ms
        is_unproven(meta, since_ms, proven_again_ms(since_ms, change.now_ms))
    _bring_back(db, before_ms, change.now_ms)
    meta.ahead_until_ms = max(meta.ahead_until_ms, before_ms)
    meta.is_due_ahead = 1
    meta.present_since_ms = min(meta.present_since_ms, change.now_ms)
    meta.absent_since_ms = min(meta.absent_since_ms, change.now_ms)
    meta.undecided_since_ms = min(meta.undecided_since_ms, change.now_ms)
    # The record may end a little ahead of this time, see ``_end_of_loss_ms``.
    is_doubtful(meta, min(meta.doubtful_until_ms, change.now_ms + LONG_MS + CLOCKS_APART_MS))
    (since_ms,) = db.execute(
        "SELECT min(since_ms) FROM absence WHERE until_ms > ?", (change.now_ms,)
    ).fetchone()
    db.execute("DELETE FROM absence WHERE until_ms > ?", (change.now_ms,))
    if since_ms is not None and since_ms < change.now_ms:
        db.execute("INSERT OR REPLACE INTO absence VALUES (?, ?)", (since_ms, change.now_ms))


def clock_doubted(context: Context, change: c.ClockDoubted) -> None:
    """Until somebody decides again, who says so by ``Returned`` or ``TookOffice``."""
    context.meta.undecided_since_ms = context.meta.undecided_since_ms or change.since_ms


def _bring_back(db: sqlite3.Connection, before_ms: int, now_ms: int) -> None:
    """What waits until a moment of the time that is not believed any more waits as long from now on."""
    for column in ("retry_at_ms", "held_ms"):
        db.execute(
            f"UPDATE launch SET {column} = max(:now, {column} - :back) WHERE {column} > :now",
            {"now": now_ms, "back": before_ms - now_ms},
        )


def due_repaired(context: Context, change: c.DueRepaired) -> int:
    """Returns how many. A schedule that was changed since is left alone: its next instant is a new one."""
    repaired = 0
    texts = change.texts or [None] * len(change.sids)
    columns = zip(change.sids, change.versions, change.instants_s, change.delays_ms, texts, strict=True)
    for sid, version, instant_s, delay_ms, text in columns:
        if _repair(context, sid, version, instant_s, delay_ms, change.actor):
            repaired += 1
            if text is not None:
                context.db.execute("UPDATE schedule SET resolved = ? WHERE sid = ?", (text, sid))
    if change.is_last and not _is_any_bound(context):
        context.meta.is_due_ahead = 0
    return repaired


def _is_any_bound(context: Context) -> bool:
    """Were launches ahead of now deleted, of a schedule or of an id that is gone? Then it, or every ``@at``, waits
    until none of them can be meant."""
    if context.meta.unrecorded_upto_s > context.entry.time_ms // 1000:
        return True
    found = context.db.execute(
        "SELECT 1 FROM forgotten f JOIN schedule s ON s.sid = f.sid WHERE s.enabled AND NOT f.epoch AND f.upto_s > ?",
        (context.entry.time_ms // 1000,),
    )
    return found.fetchone() is not None


def _repair(context: Context, sid: int, version: int, instant_s: int, delay_ms: int, actor: str) -> bool:
    db = context.db
    found = db.execute(
        "SELECT id FROM schedule WHERE sid = ? AND version = ? AND enabled", (sid, version)
    ).fetchone()
    if found is None or queries.taken_of(db, [sid], [instant_s]):
        return False
    former = db.execute("DELETE FROM due WHERE sid = ? RETURNING instant_s", (sid,)).fetchone()
    db.execute("INSERT INTO due VALUES (?, ?, ?)", (instant_s * 1000 + delay_ms, sid, instant_s))
    unmiss(context, sid, instant_s)
    note = f"from {'none' if former is None else former[0]} to {instant_s}"
    context.record("due repaired", found[0], actor, version=version, note=note)
    return True


def unmiss(context: Context, sid: int, from_s: int) -> None:
    """What is due from this instant on was not missed, whatever was recorded under a clock that was ahead."""
    context.db.execute("DELETE FROM missed WHERE sid = ? AND from_s >= ?", (sid, from_s))
    context.db.execute("UPDATE missed SET before_s = ?2 WHERE sid = ?1 AND before_s > ?2", (sid, from_s))
