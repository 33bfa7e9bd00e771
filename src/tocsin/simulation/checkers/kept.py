"""Retention deletes only what is too much: closed launches, of which their schedule has as many newer ones as are kept
of each.

Other checkers read what was deleted as if it were still recorded: none of their promises ends with the record.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tocsin.simulation.checkers.contract import Checker, Finding
from tocsin.simulation.checkers.reading import OPEN, record
from tocsin.simulation.history import History, LaunchRow


def check(history: History) -> Iterator[Finding]:
    final = record(history)
    if final is None or history.lost:  # how many there had been may be recorded no more
        return
    by_schedule: defaultdict[str, list[LaunchRow]] = defaultdict(list)
    for row in final.launches:
        by_schedule[row.schedule].append(row)
    deleted = set(final.deleted)
    for rows in by_schedule.values():
        rows.sort(key=lambda row: (row.instant_s, row.is_manual), reverse=True)
        for place, row in enumerate(rows):
            if row.name not in deleted:
                continue
            when = float(row.ended_ms or row.planned_ms)
            if row.state in OPEN:
                yield Finding(when, f"{row.name} was deleted while it was {row.state}", row.name)
            elif place < history.kept_each:
                text = f"{row.name} was deleted with {place} newer ones; {history.kept_each} are kept"
                yield Finding(when, text, row.name)


CHECKER = Checker("kept", "Retention deletes only what is closed and too much", check)
