"""Who leads, and when nobody did."""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from tocsin.model import change as c
from tocsin.model.event import MARK_CHARACTERS
from tocsin.model.launch import CLOSED_FROM, RESOLVED, LaunchState
from tocsin.state import minutes
from tocsin.state.apply.context import Context
from tocsin.state.apply.epochs import LONG_MS, lost_ahead, proven_again_ms
from tocsin.state.apply.launches import held_for_ms
from tocsin.state.store import CLOCKS_APART_MS, DOUBT_OPEN_MS, Meta

BRIEF_MS = 6_000
"""A change of leaders that takes no longer than this is no absence."""
_QUEUED = f"state = {LaunchState.QUEUED:d}"
_MAY_HAVE_STARTED = "the record of this time was lost: it may have had its turn"


class _Receiver(msgspec.Struct, frozen=True):
    idempotent: bool = False


class _Repeated(msgspec.Struct, frozen=True):
    """The part of a schedule that says whether its launches may be called again."""

    target: _Receiver
    on_doubt: str = "skip"

    @property
    def may_repeat(self) -> bool:
        return self.on_doubt == "relaunch" or self.target.idempotent


_decode = msgspec.msgpack.Decoder(_Repeated).decode


def took_office(context: Context, change: c.TookOffice) -> None:
    """A new term. What fell due before this moment and was not started has been missed, unless the office was empty so
    briefly that it is only late."""
    db, meta, entry = context
    if change.term <= meta.term:
        return
    db.execute(
        "INSERT INTO office VALUES (?, ?, ?, ?, ?, ?)",
        (change.term, change.replica, entry.time_ms, meta.seq + 1, entry.id, entry.prev),
    )
    is_first, meta.term = meta.term == 0, change.term
    meta.leader = change.replica
    heard_ms = max(meta.time_ms, change.heard_ms)
    if meta.undecided_since_ms:
        heard_ms = min(heard_ms, meta.undecided_since_ms)
    if not change.is_timed and not is_first:
        meta.undecided_since_ms = heard_ms
        return
    meta.undecided_since_ms = 0
    if is_first or abs(entry.time_ms - heard_ms) > BRIEF_MS:
        since_ms = heard_ms or entry.time_ms
        was_absent(
            context,
            since_ms=since_ms,
            until_ms=entry.time_ms,
            is_counted=change.is_counted,
            is_step=not change.is_counted,
        )


def resigned(context: Context, change: c.Resigned) -> None:
    context.meta.leader = ""


def returned(context: Context, change: c.Returned) -> None:
    is_lost = context.meta.doubtful_until_ms == DOUBT_OPEN_MS
    if is_lost:
        is_doubtful(context.meta, _end_of_loss_ms(context))
        lost_ahead(context, context.entry.time_ms)
    is_brief = 0 <= context.entry.time_ms - change.absent_since_ms <= BRIEF_MS
    if context.meta.undecided_since_ms and is_brief and not is_lost:
        context.meta.undecided_since_ms = 0
        return
    was_absent(
        context,
        since_ms=change.absent_since_ms,
        until_ms=context.entry.time_ms,
        is_counted=change.is_counted,
        is_step=not change.is_counted,
    )


def restored(context: Context, change: c.Restored) -> None:
    """What waited for another attempt, or for its turn, may have had it. The former is concluded like what was handed
    over. The latter goes on waiting where once more is harmless: all at once would be against its owner's will."""
    context.meta.lost_since_ms = context.meta.lost_from_ms = change.since_ms
    (first_s,) = context.db.execute("SELECT min(instant_s) FROM due").fetchone()
    context.meta.lost_due_ms = change.since_ms if first_s is None else min(change.since_ms, first_s * 1000)
    context.meta.former_mark, context.meta.common_seq = context.meta.mark, context.meta.seq
    context.meta.mark = blake2b(context.entry.id, digest_size=MARK_CHARACTERS // 2).hexdigest()
    is_doubtful(context.meta, _end_of_loss_ms(context) if change.is_timed else DOUBT_OPEN_MS)
    if change.is_timed:
        lost_ahead(context, context.entry.time_ms)
    _doubt_what_waits(context)
    touched = context.db.execute(
        f"UPDATE launch SET state = {LaunchState.STARTED:d}, attempt = attempt + 1, retry_at_ms = NULL, "
        "started_ms = coalesce(started_ms, instant_s * 1000), attempt_ms = ?, told_ms = NULL, accepted_ms = NULL "
        f"WHERE state < {CLOSED_FROM} AND state = {LaunchState.RETRYING:d}",
        (context.entry.time_ms,),
    ).rowcount
    minutes.count(context.db, context.entry.time_ms, retries=touched)
    was_absent(context, since_ms=change.since_ms, until_ms=context.entry.time_ms)


def _end_of_loss_ms(context: Context) -> int:
    """Whoever launched in the lost time went by another clock, which may have been ahead of ours. If the record ends a
    little ahead of our time, it was."""
    now_ms, since_ms = context.entry.time_ms, context.meta.lost_since_ms
    reached_ms = since_ms if now_ms < since_ms <= now_ms + LONG_MS else now_ms
    return reached_ms + CLOCKS_APART_MS


def _doubt_what_waits(context: Context) -> None:
    """The attempt that each queued launch may have had is counted, so that a further call has a number of its own. The
    version that a launch has decides whether it may be called again."""
    db, now_ms = context.db, context.entry.time_ms
    rows = db.execute(
        "SELECT q.lid, coalesce(s.spec, r.spec) FROM launch q INDEXED BY launch_queued "
        "LEFT JOIN schedule s ON s.sid = q.sid AND s.version = q.version "
        f"LEFT JOIN revision r ON r.sid = q.sid AND r.version = q.version WHERE q.state = {LaunchState.QUEUED:d}"
    )
    final = [(now_ms + held_for_ms(spec), lid) for lid, spec in rows if not _decode(spec).may_repeat]
    further = db.execute(
        f"UPDATE launch SET attempt = attempt + 1, relaunched = NULL, doubt = coalesce(doubt, attempt + 1) "
        f"WHERE {_QUEUED}"
    ).rowcount
    (firsts,) = db.execute(f"SELECT count(*) FROM launch WHERE {_QUEUED} AND attempt = 1").fetchone()
    db.executemany(
        f"UPDATE launch SET state = {LaunchState.IN_DOUBT:d}, ended_ms = {now_ms}, held_ms = ?, "
        f"reason = '{_MAY_HAVE_STARTED}' WHERE lid = ?",
        final,
    )
    db.execute(
        "INSERT OR REPLACE INTO attempt (lid, attempt, ended_ms, reason, doubtful) "
        f"SELECT lid, attempt, {now_ms}, '{RESOLVED}{_MAY_HAVE_STARTED}', 1 FROM launch WHERE {_QUEUED}"
    )
    minutes.count(db, now_ms, in_doubt=len(final), retries=further - firsts)


def checkpoint(context: Context, change: c.Checkpoint) -> int:
    """The state stays as it is: whoever applies the entry looks at it. Returns which one it is."""
    return context.meta.seq + 1


def entry_skipped(context: Context, change: c.EntrySkipped) -> None:
    context.db.execute("INSERT INTO skipped VALUES (?, ?)", (context.meta.seq + 1, change.id))


def was_absent(
    context: Context, *, since_ms: int, until_ms: int, is_counted: bool = True, is_step: bool = False
) -> None:
    """``is_step``: the time may not have passed, because the clock was slow before and was put right."""
    meta = context.meta
    if is_step and since_ms <= meta.doubtful_until_ms < DOUBT_OPEN_MS:
        # Nothing was launched since the record was lost, and its end was told by the slow clock.
        is_doubtful(meta, max(meta.doubtful_until_ms, until_ms + CLOCKS_APART_MS))
    meta.present_since_ms = until_ms
    meta.undecided_since_ms = 0
    meta.absent_since_ms = min(since_ms, until_ms)
    context.db.execute("INSERT OR REPLACE INTO absence VALUES (?, ?)", (meta.absent_since_ms, until_ms))
    again_ms = proven_again_ms(since_ms, until_ms)
    # Of several absences the last counts: otherwise a machine that is off every night would keep everything.
    is_long = since_ms > 0 and until_ms - since_ms > LONG_MS
    if is_long and not is_counted and again_ms > meta.proven_again_ms:
        is_unproven(meta, since_ms, again_ms)


def is_unproven(meta: Meta, since_ms: int, again_ms: int) -> None:
    """Time went on from there, and nobody counted by how much: until that moment nothing is deleted to make room for
    what is launched now."""
    meta.proven_upto_s = since_ms // 1000
    meta.proven_again_ms = again_ms
    meta.kept_each = 0


def is_doubtful(meta: Meta, until_ms: int) -> None:
    """The record of a time that ends then was lost."""
    meta.doubtful_until_ms = until_ms
    if until_ms != DOUBT_OPEN_MS:
        meta.lost_until_ms = max(meta.lost_until_ms, until_ms)
