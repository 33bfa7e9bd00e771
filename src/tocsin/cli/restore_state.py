"""What ``restore`` does with the data directory of a replica that was stopped: a new journal goes on from its state."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from tocsin.cli.backup import empty_data
from tocsin.cli.printing import print_json, say
from tocsin.errors import StateDamaged
from tocsin.replica.office import DataLock
from tocsin.replica.recovery import check_not_diverged
from tocsin.state import schema, seal, snapshot
from tocsin.state.snapshot import Manifest
from tocsin.state.store import UNREADABLE


def is_data_directory(place: str) -> bool:
    return (Path(place) / "state.db").is_file()


def restore_state(source: Path, data: Path, as_json: bool) -> None:
    """Make a snapshot of the state in ``source`` from which a service in ``data`` starts. ``source`` stays as it is."""
    lock = DataLock(source.absolute() / "office.lock")
    lock.take()
    try:
        with empty_data(data) as folder:
            made = _written(source / "state.db", folder)
    finally:
        lock.leave()
    if as_json:
        print_json({"sequence": made.seq, "incarnation": made.incarnation, "data": str(data.absolute())})
        return
    print(f"restored the state of {source} at sequence {made.seq} into {data}")
    say(
        "what was launched behind that entry is not known to it: it may have happened. Where on_doubt is 'skip' it is "
        "not repeated"
    )
    say(f"start from it, with a new journal: tocsin serve --data {data}")


def _written(state: Path, folder: Path) -> Manifest:
    check_not_diverged(state)
    seal.check(state)
    try:
        with closing(
            sqlite3.connect(f"{state.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
        ) as reader:
            schema.distrust(reader)
            schema.check(reader, state)
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM meta").fetchone()
            return snapshot.write(reader, folder)
    except UNREADABLE as wrong:
        raise StateDamaged(f"the state file {state} cannot be read: {wrong}") from wrong
