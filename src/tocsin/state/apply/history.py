"""What is too old or too much is deleted, on every replica at the same entry. The leader names the rows and how far it
has looked; here they are counted and deleted."""

from __future__ import annotations

import json

from tocsin.model import change as c
from tocsin.model.launch import LaunchKind
from tocsin.state.apply.context import Context, numbers
from tocsin.state.apply.epochs import proven_s
from tocsin.state.retention import MAY_GO, RECORDS_KEPT, REVISION_MAY_GO

ROWS_AT_ONCE = 500
_THESE = "lid IN (SELECT value FROM json_each(?))"
_EXTEND = (
    "ON CONFLICT (sid, epoch) DO UPDATE "
    "SET from_s = min(from_s, excluded.from_s), upto_s = max(upto_s, excluded.upto_s)"
)
_ADD = "ON CONFLICT (sid, version) DO UPDATE SET launches = launches + excluded.launches"


def forgotten(context: Context, change: c.HistoryForgotten) -> None:
    """Launches are counted first: of a launch that is deleted, it is known whether it was counted."""
    if change.counted_lid:
        _count(context, change.counted_lid)
    if change.lids:
        _delete_launches(context, change.lids)
    _delete_records(context, change.before_ms)
    if change.revision_sids:
        _delete_revisions(context, change)
    if change.kept_each:
        context.meta.kept_each = change.kept_each


def version_changed(context: Context, lid: int, former: int, present: int) -> None:
    """A launch goes on under another version of its schedule."""
    if lid > context.meta.counted_lid or former == present:
        return
    db = context.db
    db.execute(
        f"INSERT INTO kept SELECT sid, ?, 1 FROM launch WHERE lid = ? {_ADD}",
        (present, lid),
    )
    db.execute(
        f"INSERT INTO kept SELECT sid, ?, -1 FROM launch WHERE lid = ? {_ADD}",
        (former, lid),
    )
    db.execute(
        "DELETE FROM kept WHERE launches <= 0 AND sid = (SELECT sid FROM launch WHERE lid = ?)", (lid,)
    )


def _count(context: Context, upto_lid: int) -> None:
    db, meta, _ = context
    these = (meta.counted_lid, upto_lid)
    (count,) = db.execute("SELECT count(*) FROM launch WHERE lid > ? AND lid <= ?", these).fetchone()
    db.execute(
        "INSERT INTO kept SELECT sid, version, count(*) FROM launch WHERE lid > ? AND lid <= ? "
        f"GROUP BY sid, version {_ADD}",
        these,
    )
    meta.launches_kept += count
    meta.counted_lid = max(meta.counted_lid, upto_lid)


def _delete_launches(context: Context, lids: list[int]) -> None:
    """Without a record nobody can tell whether an occurrence was launched or skipped: up to the newest that is deleted,
    each of them may have been, and none is decided again."""
    db, meta, entry = context
    may_go = db.execute(
        f"SELECT lid FROM json_each(?2) j CROSS JOIN launch ON lid = j.value WHERE {MAY_GO}",
        (entry.time_ms, numbers(lids)),
    ).fetchall()
    these = numbers([lid for (lid,) in may_go])
    _remember(context, these)
    db.execute(
        f"INSERT INTO kept SELECT sid, version, -count(*) FROM launch WHERE {_THESE} AND lid <= ? "
        f"GROUP BY sid, version {_ADD}",
        (these, meta.counted_lid),
    )
    db.execute(
        "DELETE FROM kept WHERE launches <= 0 AND sid IN "
        "(SELECT l.sid FROM json_each(?) j CROSS JOIN launch l ON l.lid = j.value)",
        (these,),
    )
    db.execute("DELETE FROM attempt WHERE lid IN (SELECT value FROM json_each(?))", (these,))
    db.execute(f"DELETE FROM launch WHERE {_THESE}", (these,))
    meta.launches_kept -= sum(lid <= meta.counted_lid for (lid,) in may_go)


def _remember(context: Context, these: str) -> None:
    """From which instant to which launches are deleted now, in each epoch. Should the clock have been ahead, their
    schedule goes on where nothing was launched."""
    db, _, entry = context
    asked = {"proven_s": proven_s(context, entry.time_ms), "these": these}
    scheduled = (
        f"FROM launch WHERE lid IN (SELECT value FROM json_each(:these)) AND kind = {LaunchKind.SCHEDULED:d}"
    )
    made_in = "coalesce((SELECT max(epoch) FROM epoch WHERE first_lid <= lid), 0)"
    db.execute(
        f"INSERT INTO forgotten SELECT sid, {made_in} AS made_in, min(instant_s), max(instant_s) {scheduled} "
        f"GROUP BY sid, made_in {_EXTEND}",
        asked,
    )
    # A stretch before all leaps that may be wrong is no different from what was deleted earlier.
    proven = f"FROM forgotten WHERE epoch > 0 AND upto_s <= :proven_s AND sid IN (SELECT sid {scheduled})"
    db.execute(
        f"INSERT INTO forgotten SELECT sid, 0, min(from_s), max(upto_s) {proven} GROUP BY sid {_EXTEND}",
        asked,
    )
    db.execute(f"DELETE {proven}", asked)


def _delete_records(context: Context, before_ms: int) -> None:
    """The oldest portion of each. Records are in the order of time."""
    db = context.db
    db.execute(
        "DELETE FROM missed WHERE (sid, from_s) IN "
        "(SELECT sid, from_s FROM missed WHERE at_ms < ? ORDER BY at_ms, sid, from_s LIMIT ?)",
        (before_ms, ROWS_AT_ONCE),
    )
    db.execute(
        "DELETE FROM absence WHERE until_ms IN "
        "(SELECT until_ms FROM absence WHERE until_ms < ? ORDER BY until_ms LIMIT ?)",
        (before_ms, ROWS_AT_ONCE),
    )
    db.execute(
        "DELETE FROM record WHERE rid IN (SELECT rid FROM (SELECT rid, at_ms FROM record ORDER BY rid LIMIT ?) "
        "WHERE at_ms < ? OR rid < ?)",
        (ROWS_AT_ONCE, before_ms, context.meta.next_rid - RECORDS_KEPT),
    )


def _delete_revisions(context: Context, change: c.HistoryForgotten) -> None:
    """Those that nothing refers to. When the last of a deleted id is gone, only the age of all that is kept tells which
    of its occurrences may have been launched."""
    db, meta, _ = context
    asked = {"counted_lid": meta.counted_lid, "before_ms": change.before_ms}
    gone: set[int] = set()
    for sid, version in zip(change.revision_sids, change.revision_versions, strict=True):
        touched = db.execute(
            f"DELETE FROM revision WHERE sid = :sid AND version = :version AND {REVISION_MAY_GO}",
            {**asked, "sid": sid, "version": version},
        ).rowcount
        if touched:
            gone.add(sid)
    marks = db.execute(
        "DELETE FROM forgotten WHERE NOT EXISTS (SELECT 1 FROM schedule s WHERE s.sid = forgotten.sid) "
        "AND NOT EXISTS (SELECT 1 FROM revision r WHERE r.sid = forgotten.sid) AND sid IN "
        "(SELECT value FROM json_each(?)) RETURNING upto_s",
        (json.dumps(sorted(gone)),),
    ).fetchall()
    meta.unrecorded_upto_s = max([meta.unrecorded_upto_s, *(upto_s for (upto_s,) in marks)])
