"""What is too old or too much is forgotten, on every replica at the same entry."""

from __future__ import annotations

from tocsin.model import change as c
from tocsin.model.launch import CLOSED_FROM
from tocsin.state.apply.context import Context


def forgotten(context: Context, change: c.HistoryForgotten) -> None:
    """Closed launches by number; revisions, absences and stretches of missed occurrences by age.

    A revision stays as long as a launch refers to it, and the newest of a deleted id stays until its launches
    are gone: the id's number, and with it the names of its launches, must not be given out anew.
    """
    db = context.db
    lids = [(lid,) for lid in change.lids]
    db.executemany("DELETE FROM attempt WHERE lid = ?", lids)
    db.executemany(f"DELETE FROM launch WHERE lid = ? AND state >= {CLOSED_FROM}", lids)
    db.execute("DELETE FROM missed WHERE at_ms < ?", (change.before_ms,))
    db.execute("DELETE FROM absence WHERE until_ms < ?", (change.before_ms,))
    db.execute(
        "DELETE FROM revision WHERE until_ms < ? "
        "AND NOT EXISTS (SELECT 1 FROM launch WHERE launch.sid = revision.sid)",
        (change.before_ms,),
    )
