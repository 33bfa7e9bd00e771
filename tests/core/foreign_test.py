"""A state file that came from elsewhere is data. What somebody planted in it does not come to act."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest
from tests.core.desk import START, Desk

from tocsin.errors import SnapshotDamaged, StateDamaged
from tocsin.state import snapshot
from tocsin.state.snapshot import Manifest
from tocsin.state.store import Store
from tocsin.state.tables import SCHEMA_VERSION

PLANTED = [
    "CREATE TRIGGER meddle AFTER INSERT ON meta BEGIN DELETE FROM schedule; END",
    "CREATE TRIGGER meddle AFTER UPDATE ON due BEGIN DELETE FROM schedule; END",
    "CREATE VIEW more AS SELECT * FROM token",
    "CREATE TABLE more (x)",
    "CREATE INDEX more ON launch (abs(lid))",
    "DROP TABLE token; CREATE VIEW token AS SELECT 1 AS id",
    "DROP TABLE missed; CREATE TABLE missed (sid INTEGER CHECK (abs(sid) > 0))",
    "DROP INDEX due_by_schedule",
    "PRAGMA user_version = 1",
    "PRAGMA user_version = 0",
]


def _changed(path: Path, script: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript(script)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    path = tmp_path / "elsewhere" / "state.db"
    Store(path).close()
    return path


@pytest.mark.parametrize("script", PLANTED)
def it_is_not_opened(state: Path, script: str) -> None:
    Store(state).close()
    _changed(state, script)
    with pytest.raises(StateDamaged):
        Store(state)


@pytest.mark.parametrize("script", PLANTED)
def nobody_becomes_it(state: Path, script: str, tmp_path: Path) -> None:
    store = Store(tmp_path / "state.db")
    before = store.meta
    _changed(state, script)
    with pytest.raises(StateDamaged):
        store.become(state)
    assert store.meta == before
    store.close()
    Store(tmp_path / "state.db").close()


def _snapshot(folder: Path, script: str = "") -> Manifest:
    """One whose checksum is right, whatever was done to it."""
    desk = Desk(START, folder)
    reader = desk.store.reader()
    made = snapshot.write(reader, folder / "snapshots")
    reader.close()
    desk.close()
    path = snapshot.data_of(folder / "snapshots", made.seq)
    _changed(path, script)
    made = Manifest(made.seq, made.incarnation, made.time_ms, path.stat().st_size, snapshot._checksum(path))
    snapshot.write_manifest(folder / "snapshots", made)
    return made


@pytest.mark.parametrize("script", PLANTED)
def it_is_not_restored(tmp_path: Path, script: str) -> None:
    made = _snapshot(tmp_path, script)
    there = tmp_path / "there"
    there.mkdir()
    (there / "state.db").write_text("what was there before")
    with pytest.raises(SnapshotDamaged):
        snapshot.restore(tmp_path / "snapshots", made, there / "state.db")
    assert [path.name for path in there.iterdir()] == ["state.db"]
    assert (there / "state.db").read_text() == "what was there before"


def what_is_no_database_is_not_restored(tmp_path: Path) -> None:
    made = _snapshot(tmp_path)
    path = snapshot.data_of(tmp_path / "snapshots", made.seq)
    path.write_bytes(b"x" * 5_000)
    made = Manifest(made.seq, made.incarnation, made.time_ms, 5_000, snapshot._checksum(path))
    with pytest.raises(SnapshotDamaged):
        snapshot.restore(tmp_path / "snapshots", made, tmp_path / "there.db")


def no_snapshot_is_made_that_could_not_be_restored(tmp_path: Path) -> None:
    desk = Desk(START, tmp_path)
    reader = desk.store.reader()
    desk.store.db.execute("CREATE VIEW more AS SELECT 1")
    with pytest.raises(SnapshotDamaged, match="view more"):
        snapshot.write(reader, tmp_path / "snapshots")
    reader.close()
    desk.close()


def what_analyze_leaves_is_no_harm(tmp_path: Path) -> None:
    made = _snapshot(tmp_path, "ANALYZE")
    snapshot.restore(tmp_path / "snapshots", made, tmp_path / "there.db")
    Store(tmp_path / "there.db").close()


def the_schema_is_trusted_on_no_connection(tmp_path: Path) -> None:
    store = Store(tmp_path / "state.db")
    reader = store.reader()
    for db in (store.db, reader):
        assert db.execute("PRAGMA trusted_schema").fetchone() == (0,)
        assert db.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
    reader.close()
    store.close()
