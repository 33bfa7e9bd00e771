"""Epochs: stretches of the journal in which the time went on evenly.

An epoch ends when more than a minute has passed between two entries (a leap), or when the clock is put back. A leap
mostly means that there was nothing to do, or that the machine was off. But the clock may be ahead, too, and then names
of the future are launched until it is put back. Nobody can tell from here which of the two it is. So it is remembered
for each epoch which launches of it were deleted, from the first instant to the last: when the clock is put back, it is
known where nothing was launched.
"""

from __future__ import annotations

from tocsin.state.apply.context import Context
from tocsin.state.store import CLOCKS_APART_MS, DOUBT_OPEN_MS, Meta

LONG_MS = 60_000
"""A leap is longer than this."""
UNPROVEN_TIMES = 10
"""A leap is wrong for so many times its length, at the most, before somebody notices."""
UNPROVEN_AT_MOST_MS = 7 * 86_400_000
FITTING_TIMES = 4
"""A clock that is ahead is put right, at the latest, when this part of the time by which it was ahead is left."""
PASSED_MIN_MS, PASSED_MAX_MS = 600_000, 3_600_000
"""So much time may have passed between the last entry that was kept and the loss, at the least, and at the most if no
leap fits: backups are made more often."""
_IS_OPEN = "void_upto_s < 0 AND again_ms > :now_ms"
"""Its leap may yet turn out to be wrong."""


def proven_again_ms(since_ms: int, until_ms: int) -> int:
    """By then somebody would have noticed that the time is wrong since this leap."""
    return until_ms + min(UNPROVEN_TIMES * (until_ms - since_ms), UNPROVEN_AT_MOST_MS)


def leapt(context: Context, since_ms: int, until_ms: int) -> None:
    length_ms = until_ms - since_ms
    if not since_ms or length_ms <= LONG_MS:
        return
    _join(context, since_ms)
    # If this leap is wrong, nobody had the time to notice a former one. Small ones after a large one are common.
    context.db.execute(
        "UPDATE epoch SET again_ms = again_ms + ?1 WHERE length_ms < ?1 AND void_upto_s < 0", (length_ms,)
    )
    _begin(context, since_ms, until_ms)


def went_back(context: Context, before_ms: int, now_ms: int) -> int:
    """Returns how much of the leaps is left: a clock may be put right in several steps, and some leaps were none of its
    fault."""
    (together_ms,) = context.db.execute(
        f"SELECT coalesce(sum(length_ms), 0) FROM epoch WHERE {_IS_OPEN}", {"now_ms": before_ms}
    ).fetchone()
    left_ms = max(0, int(together_ms) - (before_ms - now_ms))
    context.db.execute("UPDATE epoch SET void_upto_s = ? WHERE void_upto_s < 0", (before_ms // 1000,))
    _set_apart(context, now_ms)
    _begin(context, now_ms - left_ms, now_ms)
    return left_ms


def _set_apart(context: Context, now_ms: int) -> None:
    """What was deleted without a leap, and lies ahead of now, was launched by a clock that was wrong from the
    beginning, or for longer than it was doubted. Such a stretch is not extended by what is deleted from now on."""
    apart = context.db.execute(
        "UPDATE forgotten SET epoch = ? WHERE epoch = 0 AND from_s > ?",
        (context.meta.epoch + 1, now_ms // 1000),
    ).rowcount
    context.meta.epoch += apart > 0


def lost_ahead(context: Context, now_ms: int) -> None:
    """It is known what time it is after the record was lost. If its last entry lies ahead, the clock was, and so does
    what was launched in the lost time, of whatever schedule: it is in doubt when its time comes.

    By how much the clock was ahead may be told by a leap that fits, and that tells how much time may have passed
    between the last entry and the loss. Of several the longest counts. One that is much longer, such as a night in
    which the machine was off, has nothing to do with it.
    """
    db, meta, _ = context
    since_ms, meta.lost_since_ms = meta.lost_since_ms, 0
    ahead_ms = since_ms - now_ms
    if ahead_ms <= LONG_MS:
        return
    leap = db.execute(
        f"SELECT length_ms FROM epoch WHERE {_IS_OPEN} AND length_ms BETWEEN :ahead_ms AND :most_ms "
        "ORDER BY length_ms DESC",
        {"now_ms": since_ms, "ahead_ms": ahead_ms, "most_ms": FITTING_TIMES * ahead_ms},
    ).fetchone()
    passed_ms = min(ahead_ms, PASSED_MAX_MS) if leap is None else leap[0] - ahead_ms
    _lies_ahead(meta, now_ms, meta.lost_due_ms, since_ms + max(passed_ms, PASSED_MIN_MS) + CLOCKS_APART_MS)


def loss_is_ahead(meta: Meta, now_ms: int) -> None:
    """The clock is put back to before the latest loss, which it had told the end of: all of it lies ahead."""
    if now_ms < meta.lost_from_ms < meta.doubtful_until_ms < DOUBT_OPEN_MS:
        _lies_ahead(meta, now_ms, meta.lost_due_ms, meta.doubtful_until_ms)


def _lies_ahead(meta: Meta, now_ms: int, from_ms: int, until_ms: int) -> None:
    if meta.lost_ahead_until_ms <= now_ms:
        meta.lost_ahead_from_ms, meta.lost_ahead_until_ms = from_ms, until_ms
    meta.lost_ahead_from_ms = min(meta.lost_ahead_from_ms, from_ms)
    meta.lost_ahead_until_ms = max(meta.lost_ahead_until_ms, until_ms)


def proven_s(context: Context, now_ms: int) -> int:
    """Whatever leaps are wrong, this second has passed."""
    (first_s,) = context.db.execute(
        f"SELECT min(from_s) FROM epoch WHERE {_IS_OPEN}", {"now_ms": now_ms}
    ).fetchone()
    return now_ms // 1000 if first_s is None else min(int(first_s), now_ms // 1000)


def _begin(context: Context, since_ms: int, until_ms: int) -> None:
    meta = context.meta
    meta.epoch += 1
    context.db.execute(
        "INSERT INTO epoch VALUES (?, ?, ?, ?, ?, -1)",
        (
            meta.epoch,
            meta.next_lid,
            since_ms // 1000,
            until_ms - since_ms,
            proven_again_ms(since_ms, until_ms),
        ),
    )


def _join(context: Context, now_ms: int) -> None:
    """Epochs that were proven right become one, and those of a wrong time are over when that time has come."""
    db, over_s = context.db, proven_s(context, now_ms)
    db.execute("DELETE FROM epoch WHERE void_upto_s BETWEEN 0 AND ?", (over_s,))
    db.execute(
        "DELETE FROM epoch WHERE void_upto_s < 0 AND again_ms <= ? "
        "AND NOT EXISTS (SELECT 1 FROM epoch void WHERE void.void_upto_s >= 0 AND void.epoch < epoch.epoch)",
        (now_ms,),
    )
