"""The few launches that somebody should look at: what went wrong last, and what has been open for longest.

It is asked every two seconds by every page that is open, so each looks at a few rows, however many there are.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from tocsin.model.launch import CLOSED_FROM, LaunchState, LaunchView
from tocsin.model.token import reaches
from tocsin.state.views import launch_by_number

_LOOKED_AT = 500
_ID = "coalesce(s.id, (SELECT r.id FROM revision r WHERE r.sid = l.sid LIMIT 1), '?')"


class Trouble(NamedTuple):
    """The newest launch of a schedule that went wrong, and how many more of that schedule did."""

    launch: LaunchView
    others: int


def newest_trouble(
    db: sqlite3.Connection, state: str, since_ms: int, within: Sequence[str], limit: int
) -> list[Trouble]:
    """``failed`` or ``in_doubt``, schedule by schedule, those first whose launches ended last. Only the newest few
    hundred of both kinds are looked at."""
    rows = db.execute(
        f"SELECT l.lid, l.state, {_ID} FROM launch l INDEXED BY launch_trouble "
        "LEFT JOIN schedule s ON s.sid = l.sid WHERE l.state IN (11, 14) AND l.ended_ms >= ? "
        f"ORDER BY l.ended_ms DESC LIMIT {_LOOKED_AT}",
        (since_ms,),
    )
    wanted, newest = LaunchState[state.upper()], dict[str, int]()
    others: Counter[str] = Counter()
    for lid, is_state, id in rows:
        if is_state == wanted and reaches(within, id):
            others[id] += id in newest
            newest.setdefault(id, lid)
    return [Trouble(launch_by_number(db, lid), others[id]) for id, lid in islice(newest.items(), limit)]


def oldest_open(db: sqlite3.Connection, within: Sequence[str], limit: int) -> list[LaunchView]:
    """Those that began first."""
    rows = db.execute(
        f"SELECT l.lid, {_ID} FROM launch l INDEXED BY launch_open LEFT JOIN schedule s ON s.sid = l.sid "
        f"WHERE l.state < {CLOSED_FROM} ORDER BY l.lid LIMIT {_LOOKED_AT if within else limit}"
    )
    reached = (lid for lid, id in rows if reaches(within, id))
    return [launch_by_number(db, lid) for lid in islice(reached, limit)]
