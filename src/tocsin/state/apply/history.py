"""What is too old or too much is forgotten, on every replica at the same entry."""

from __future__ import annotations

from tocsin.model import change as c
from tocsin.model.launch import CLOSED_FROM
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
    db.executemany("DELETE FROM attempt WHERE lid = ?", lids)
    db.executemany(f"DELETE FROM launch WHERE lid = ? AND state >= {CLOSED_FROM}", lids)
    db.execute(
        "DELETE FROM missed WHERE (sid, from_s) IN "
        "(SELECT sid, from_s FROM missed WHERE at_ms < ? ORDER BY at_ms, sid, from_s LIMIT ?)",
        (change.before_ms, ROWS_AT_ONCE),
    )
    db.execute("DELETE FROM absence WHERE until_ms < ?", (change.before_ms,))
    db.execute(
        "DELETE FROM record WHERE rid IN (SELECT rid FROM record WHERE at_ms < ? OR rid < ? ORDER BY rid LIMIT ?)",
        (change.before_ms, context.meta.next_rid - RECORDS_KEPT, ROWS_AT_ONCE),
    )
    db.execute(
        "DELETE FROM revision WHERE (sid, version) IN (SELECT sid, version FROM revision "
        f"WHERE until_ms < ? AND {REVISION_MAY_GO} ORDER BY until_ms, sid, version LIMIT ?)",
        (change.before_ms, ROWS_AT_ONCE),
    )
