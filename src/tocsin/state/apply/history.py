"""What is too old or too much is forgotten, on every replica at the same entry."""

from __future__ import annotations

import json

from tocsin.model import change as c
from tocsin.model.launch import CLOSED_FROM, LaunchKind
from tocsin.state.apply.context import Context
from tocsin.state.queries import RECORDS_KEPT, REVISION_MAY_GO

ROWS_AT_ONCE = 10_000


def forgotten(context: Context, change: c.HistoryForgotten) -> None:
    """Closed launches by number; revisions, absences and stretches of missed occurrences by age, in portions.

    A revision stays as long as a launch refers to it, and the newest of a deleted id stays until its launches
    are gone: the id's number, and with it the names of its launches, must not be given out anew.
    """
    db = context.db
    lids = [(lid,) for lid in change.lids]
    _mark_forgotten(context, change.lids)
    db.executemany("DELETE FROM attempt WHERE lid = ?", lids)
    db.executemany(f"DELETE FROM launch WHERE lid = ? AND state >= {CLOSED_FROM}", lids)
    db.execute(
        "DELETE FROM missed WHERE (sid, from_s) IN "
        "(SELECT sid, from_s FROM missed WHERE at_ms < ? ORDER BY at_ms, sid, from_s LIMIT ?)",
        (change.before_ms, ROWS_AT_ONCE),
    )
    db.execute("DELETE FROM absence WHERE until_ms < ?", (change.before_ms,))
    # Records are in the order of time: the oldest portion holds all that is to go now.
    db.execute(
        "DELETE FROM record WHERE rid IN (SELECT rid FROM (SELECT rid, at_ms FROM record ORDER BY rid LIMIT ?) "
        "WHERE at_ms < ? OR rid < ?)",
        (ROWS_AT_ONCE, change.before_ms, context.meta.next_rid - RECORDS_KEPT),
    )
    rows = db.execute(
        "DELETE FROM revision WHERE (sid, version) IN (SELECT sid, version FROM revision "
        f"WHERE until_ms < ? AND {REVISION_MAY_GO} ORDER BY until_ms, sid, version LIMIT ?) RETURNING sid",
        (change.before_ms, ROWS_AT_ONCE),
    )
    gone = sorted({sid for (sid,) in rows.fetchall()})
    db.execute(
        "DELETE FROM forgotten WHERE NOT EXISTS (SELECT 1 FROM schedule s WHERE s.sid = forgotten.sid) "
        "AND NOT EXISTS (SELECT 1 FROM revision r WHERE r.sid = forgotten.sid) AND sid IN "
        "(SELECT value FROM json_each(?))",
        (json.dumps(gone),),
    )


def _mark_forgotten(context: Context, lids: list[int]) -> None:
    """Without a record nobody can tell any more whether an occurrence was launched: from now on it may have been."""
    context.db.execute(
        "INSERT INTO forgotten SELECT sid, max(instant_s) FROM launch "
        f"WHERE lid IN (SELECT value FROM json_each(?)) AND kind = {LaunchKind.SCHEDULED:d} "
        f"AND state >= {CLOSED_FROM} AND started_ms IS NOT NULL GROUP BY sid "
        "ON CONFLICT (sid) DO UPDATE SET upto_s = max(upto_s, excluded.upto_s)",
        (json.dumps(lids),),
    )
