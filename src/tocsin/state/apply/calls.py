"""When launches were called, which may be long after the entry of their start: a slot was awaited, a leader was killed.

``started_ms`` stays what it is, the time of the entry. ``called_ms`` is the time of the first call, as its target told
it, from which lateness is counted; ``attempt_ms`` that of the present attempt's call or, until that is told, of the
entry that began it once more.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import repeat

from tocsin.model.launch import CLOSED_FROM, LaunchKind, LaunchState
from tocsin.state import minutes
from tocsin.state.apply.context import HERD, Context, numbers

_OPEN = f"state < {CLOSED_FROM}"
_COUNTED = f"kind = {LaunchKind.SCHEDULED:d} AND asked_ms IS NULL AND (attempt_ms IS NULL OR attempt_ms > started_ms)"
"""Its lateness is in the histogram of a minute: to wait in line is not to be late."""
_START = (
    "started_ms, coalesce(planned_ms, instant_s * 1000), "
    "coalesce(called_ms, CASE WHEN doubt IS NULL THEN attempt_ms END, started_ms)"
)


def note(
    context: Context, lids: Sequence[int], attempts: Sequence[int], called_ms: Sequence[int | None] | None
) -> None:
    """Before anything else becomes of these attempts."""
    if called_ms is None:
        return
    rows = [
        (lid, n, at_ms) for lid, n, at_ms in zip(lids, attempts, called_ms, strict=True) if at_ms is not None
    ]
    if len(rows) < HERD * len(set(called_ms)):
        _note(context, rows, _OPEN)
        return
    together: dict[tuple[int, int], list[int]] = {}
    for lid, attempt, at_ms in rows:
        together.setdefault((attempt, at_ms), []).append(lid)
    for (attempt, at_ms), some in together.items():
        _note_herd(context, some, attempt, at_ms)


def note_doubted(context: Context, lid: int, attempt: int, called_ms: int | None) -> None:
    """The same of an attempt that is in doubt, before that ends."""
    if called_ms is not None:
        _note(context, [(lid, attempt, called_ms)], f"state = {LaunchState.IN_DOUBT:d}")


def _note(context: Context, rows: Sequence[tuple[int, int, int]], which: str) -> None:
    _recount(context, [(lid, called) for lid, attempt, called in rows if attempt == 1], which)
    context.db.executemany(
        "UPDATE launch SET called_ms = CASE WHEN ?2 = 1 THEN ?3 ELSE called_ms END, attempt_ms = ?3, told_ms = ?3 "
        f"WHERE lid = ?1 AND attempt = ?2 AND {which}",
        rows,
    )


def _note_herd(context: Context, lids: Sequence[int], attempt: int, called_ms: int) -> None:
    if attempt == 1:
        rows = context.db.execute(
            f"SELECT {_START}, count(*) FROM launch WHERE lid IN (SELECT value FROM json_each(?)) AND attempt = 1 "
            f"AND {_OPEN} AND {_COUNTED} GROUP BY 1, 2, 3",
            (numbers(lids),),
        ).fetchall()
        minutes.recount_starts(context.db, [(*start, called_ms, number) for *start, number in rows])
    context.db.execute(
        f"UPDATE launch SET attempt_ms = ?1, told_ms = ?1{', called_ms = ?1' if attempt == 1 else ''} "
        f"WHERE lid IN (SELECT value FROM json_each(?2)) AND attempt = ?3 AND {_OPEN}",
        (called_ms, numbers(lids), attempt),
    )


def start_again(
    context: Context, lids: Sequence[int], attempts: Sequence[int], doubtful: Sequence[bool] | None
) -> None:
    """First attempts that begin once more, because they were never called: their start is now. Where nobody knows, it
    is the former one until a call is told."""
    now_ms = context.entry.time_ms
    rows = zip(lids, attempts, doubtful or repeat(False), strict=False)
    firsts = [lid for lid, attempt, is_doubtful in rows if attempt == 1 and not is_doubtful]
    if not firsts:
        return
    _recount(context, [(lid, now_ms) for lid in firsts])
    context.db.execute(
        f"UPDATE launch SET called_ms = NULL WHERE lid IN (SELECT value FROM json_each(?)) AND {_OPEN}",
        (numbers(firsts),),
    )


def was_none(context: Context, lids: Sequence[int], attempts: Sequence[int]) -> None:
    """These were started and are skipped before any call: they are not counted as starts any more."""
    rows = context.db.execute(
        f"SELECT {_START}, 1, {_COUNTED} FROM json_each(?) j CROSS JOIN launch l ON l.lid = j.value ->> 0 "
        f"AND l.attempt = j.value ->> 1 WHERE {_OPEN} AND started_ms IS NOT NULL",
        (json.dumps([pair for pair in zip(lids, attempts, strict=True) if pair[1]]),),
    ).fetchall()
    minutes.uncount_starts(context.db, rows)


def were_none(context: Context, which: str, values: dict[str, int]) -> None:
    """Those of these open launches that were started, and whose only attempt was withdrawn before the call, are to end
    without another one: they are not counted as starts any more."""
    ended = f"attempt = 0 AND started_ms IS NOT NULL AND {_OPEN} AND {which}"
    rows = context.db.execute(f"SELECT {_START}, 1, {_COUNTED} FROM launch WHERE {ended}", values).fetchall()
    minutes.uncount_starts(context.db, rows)


def _recount(context: Context, calls: Sequence[tuple[int, int]], which: str = _OPEN) -> None:
    if not calls:
        return
    rows = context.db.execute(
        f"SELECT {_START}, j.value ->> 1, 1 FROM json_each(?) j CROSS JOIN launch l ON l.lid = j.value ->> 0 "
        f"WHERE attempt <= 1 AND {which} AND started_ms IS NOT NULL AND {_COUNTED}",
        (json.dumps(calls),),
    ).fetchall()
    minutes.recount_starts(context.db, rows)
