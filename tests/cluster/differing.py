"""``python -m tests.cluster.differing serve``: Tocsin on a machine that cannot apply what creates the schedule
``CANNOT_APPLY`` names, as another version or a defect would have it."""

from __future__ import annotations

import os

from tocsin.model import change as c
from tocsin.model.entry import Entry
from tocsin.state.store import Store

VARIABLE = "CANNOT_APPLY"


def _differ(id: str) -> None:
    from tocsin.replica import applying

    original = applying.apply

    def apply(store: Store, seq: int, entry: Entry, raw: bytes) -> list[object]:
        if any(isinstance(change, c.SchedulePut) and change.schedule.id == id for change in entry.changes):
            raise ZeroDivisionError("this machine differs")
        return original(store, seq, entry, raw)

    applying.apply = apply


if __name__ == "__main__":
    from tests.cluster import armed

    _differ(os.environ[VARIABLE])
    armed.run()
