"""What an earlier version has written, this one reads: the same entries add up to the same state, and it goes on."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.golden import make
from tests.golden.folder import HERE, JOURNALS, Golden, goldens
from tests.golden.history import SCHEDULES

from tocsin.config import Settings
from tocsin.journal import codec
from tocsin.journal.contract import Bounds, Record
from tocsin.journal.sqlite import SqliteJournal
from tocsin.model.change import Change
from tocsin.model.command import LaunchNow
from tocsin.model.entry import Position
from tocsin.node import compose
from tocsin.state import snapshot, views
from tocsin.state.apply import apply
from tocsin.state.digest import full_digest
from tocsin.state.store import Store
from tocsin.state.tables import SCHEMA_VERSION

BYTES_MAX = 200_000

_every_golden = pytest.mark.parametrize("golden", goldens(), ids=str)


def _applied(store: Store, records: list[Record], born_after: int) -> tuple[int, str, str]:
    for record in records:
        if record.seq > store.meta.seq:
            entry = codec.decode(record.raw, record.seq)
            if record.seq in (1, born_after + 1):
                store.adopt("", Position(record.seq - 1, entry.prev))
            assert entry.id == record.id
            apply(store, record.seq, entry, record.raw)
    found = (store.meta.seq, store.meta.digest.hex(), full_digest(store.db))
    store.close()
    return found


def _born_after(golden: Golden) -> int:
    return golden.records[0].seq - 1


def _wanted(golden: Golden) -> tuple[int, str, str]:
    expected = golden.expected
    return expected.seq, expected.running_digest, expected.full_digest


@_every_golden
def the_entries_behind_a_snapshot_lead_to_the_same_state(golden: Golden, tmp_path: Path) -> None:
    data = golden.unpack(tmp_path / "data")
    (manifest,) = snapshot.manifests(data / "snapshots")
    assert manifest.seq == golden.expected.snapshot_seq
    snapshot.restore(data / "snapshots", manifest, tmp_path / "state.db")
    store = Store(tmp_path / "state.db")
    assert full_digest(store.db) == manifest.digest
    assert _applied(store, golden.records, _born_after(golden)) == _wanted(golden)


@_every_golden
def all_entries_from_the_first_on_lead_to_the_same_state(golden: Golden, tmp_path: Path) -> None:
    records = golden.records
    if records[0].seq > 1:  # a restored journal goes on from another one: that is its beginning
        before = Golden(golden.folder.parent / "first").records
        records = [*before[: golden.expected.snapshot_seq], *records]
    assert _applied(Store(tmp_path / "state.db"), records, _born_after(golden)) == _wanted(golden)


@_every_golden
def the_state_file_is_read_as_it_is(golden: Golden, tmp_path: Path) -> None:
    assert golden.expected.schema == SCHEMA_VERSION, "a new schema: what becomes of the files of the old one?"
    store = Store(golden.unpack(tmp_path) / "state.db")
    assert store.meta.incarnation == golden.expected.incarnation
    assert _applied(store, [], 0) == _wanted(golden)


@_every_golden
def the_journal_file_holds_the_same_entries(golden: Golden, tmp_path: Path) -> None:
    async def read() -> tuple[str, Bounds, list[Record | None]]:
        journal = SqliteJournal(golden.unpack(tmp_path) / "journal.db")
        await journal.open()
        bounds = await journal.bounds()
        found = [await journal.get(seq) for seq in range(bounds.first, bounds.last + 1)]
        await journal.close()
        return journal.birth.incarnation, bounds, found

    records = golden.records
    bounds = Bounds(records[0].seq, records[-1].seq, records[-1].id)
    assert asyncio.run(read()) == (golden.expected.incarnation, bounds, records)


@_every_golden
@pytest.mark.parametrize("with_state", [True, False], ids=["with its state", "without a state"])
def a_replica_goes_on_from_there(golden: Golden, with_state: bool, tmp_path: Path) -> None:
    data = golden.unpack(tmp_path / "data", with_state=with_state)
    seen: list[tuple[int, str]] = []

    async def work() -> list[str]:
        replica = compose(Settings(data=data, name="one", clock_gap="20000d")).replica
        await replica.start()
        await replica.propose(LaunchNow("every/hour"))
        seen.append((replica.meta.seq, replica.meta.incarnation))
        page = await replica.read(views.schedules, limit=1000)
        await replica.stop()
        return [view.id for view in page.items if view.id in SCHEDULES]

    assert asyncio.run(work()) == golden.expected.schedules
    assert seen[0][0] > golden.expected.seq
    assert seen[0][1] == golden.expected.incarnation


@_every_golden
def a_service_goes_on_from_snapshot_and_journal(golden: Golden, start: Any, tmp_path: Path) -> None:
    data = golden.unpack(tmp_path / "data", with_state=False)
    service = start(data, "--clock-gap", "20000d")
    items = service.ask("GET", "/v1/schedules?limit=1000").json["items"]
    assert [each["id"] for each in items if each["id"] in SCHEDULES] == golden.expected.schedules
    service.create("after/the-upgrade")
    assert service.ask("GET", "/v1/status").json["sequence"] > golden.expected.seq
    assert service.stop() == 0
    with sqlite3.connect(data / "journal.db") as db:
        kept = db.execute("SELECT seq, id, raw FROM entry WHERE seq <= ?", (golden.expected.seq,)).fetchall()
    db.close()
    assert [Record(*row) for row in kept] == golden.records


def _kinds(found: list[Golden]) -> set[type]:
    return {
        type(change)
        for golden in found
        for record in golden.records
        for change in codec.decode(record.raw, record.seq).changes
    }


def every_kind_of_change_is_in_a_golden_journal() -> None:
    """A new kind of change wants a new golden journal: ``python -m tests.golden.make v<n>``."""
    assert _kinds(goldens()) == set(get_args(Change))


@_every_golden
def a_golden_journal_has_several_terms(golden: Golden) -> None:
    if golden.folder.name == "first":
        entries = [codec.decode(record.raw, record.seq) for record in golden.records]
        assert len({entry.term for entry in entries}) >= 3
        assert {record.raw[0] for record in golden.records} == {1, 2}, "plain and compressed entries"


def every_version_has_both_journals_and_is_small() -> None:
    versions = sorted(path for path in HERE.glob("v*") if path.is_dir())
    assert versions
    for version in versions:
        assert sorted(path.name for path in version.iterdir()) == sorted(JOURNALS)
        assert sum(path.stat().st_size for path in version.rglob("*") if path.is_file()) < BYTES_MAX


def what_is_golden_is_not_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in (HERE / "v1").rglob("*") if path.is_file()}
    assert make.main(["v1"]) == 1
    assert "stays as it is" in capsys.readouterr().out
    assert before == {path: path.read_bytes() for path in (HERE / "v1").rglob("*") if path.is_file()}


def the_next_one_can_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make, "HERE", tmp_path)
    assert make.main(["v2"]) == 0
    made = [Golden(tmp_path / "v2" / name) for name in JOURNALS]
    assert _kinds(made) == set(get_args(Change)), "the history in history.py is to hold every kind of change"
