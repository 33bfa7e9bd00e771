"""The state's file, its seal, snapshots and their manifests, damaged: named and passed over, or the same content."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fuzz.mutation import SEED, corpus, fuzz, outcome
from tests.fuzz.paging import damaged
from tests.golden.folder import HERE, Golden

from tocsin.errors import SnapshotDamaged, StateDamaged
from tocsin.state import seal, snapshot
from tocsin.state.digest import full_digest
from tocsin.state.snapshot import Manifest
from tocsin.state.store import Store, is_damage

FIRST = Golden(HERE / "v1" / "first")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory that was left cleanly."""
    folder = FIRST.unpack(tmp_path / "data")
    assert seal.close(Store(folder / "state.db"))
    return folder


def _put(path: Path, raw: bytes) -> None:
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    path.write_bytes(raw)


def _note(number: int) -> str:
    return f"TOCSIN_FUZZ_SEED={SEED} TOCSIN_FUZZ_FROM={number}"


# The state's file


def a_state_file_that_has_changed_since_it_was_closed_is_named(data: Path) -> None:
    state, seal_file = data / "state.db", seal.seal_of(data / "state.db")
    whole, sealed = state.read_bytes(), seal_file.read_bytes()
    for number, raw in damaged("state", whole, 300):
        _put(state, raw)
        seal_file.write_bytes(sealed)
        checked, refused = outcome(lambda: seal.check(state), StateDamaged)
        assert not seal_file.exists(), "the seal is broken by whoever looks at it"
        if raw == whole:
            assert checked, _note(number)
        else:
            assert str(state) in str(refused), _note(number)
            assert "it was closed with" in str(refused), _note(number)


def both_checksums_are_told(data: Path) -> None:
    state = data / "state.db"
    raw = bytearray(state.read_bytes())
    wanted = seal.seal_of(state).read_text().split()[1]
    raw[5_000] ^= 1
    _put(state, bytes(raw))
    found = f"{seal._sum(state)[0]:08x}"
    with pytest.raises(StateDamaged, match=f"closed with the checksum {wanted} and has {found}"):
        seal.check(state)


def a_damaged_seal_damages_nothing(data: Path) -> None:
    """It is as if there were none, or it does not fit: then the state is built anew, from whole things."""
    state, seal_file = data / "state.db", seal.seal_of(data / "state.db")
    sealed = seal_file.read_bytes()

    def check(raw: bytes) -> None:
        seal_file.write_bytes(raw)
        found, _ = outcome(lambda: seal.check(state), StateDamaged)
        assert found is (raw == sealed)
        assert not seal_file.exists()

    for position in range(len(sealed)):
        for bit in range(8):
            raw = bytearray(sealed)
            raw[position] ^= 1 << bit
            check(bytes(raw))
        check(sealed[:position])
    check(sealed)


def without_a_seal_a_file_of_the_wrong_shape_is_named(data: Path) -> None:
    """Where that is not seen, all rows are there; a text in them that is none is known for damage when it is met."""
    state = data / "state.db"
    whole = state.read_bytes()
    for number, raw in damaged("unsealed", whole, 300):
        _put(state, raw)
        store, refused = outcome(lambda: _looked_over(state), StateDamaged)
        if store is None:
            assert str(state) in str(refused), _note(number)
        else:
            _, unreadable = outcome(lambda store=store: full_digest(store.db), sqlite3.OperationalError)
            assert unreadable is None or is_damage(unreadable), _note(number)
            store.close()


def _looked_over(state: Path) -> Store:
    store = Store(state)
    try:
        assert seal.look_over(store)
    except BaseException:
        store.close()
        raise
    return store


def what_is_not_yet_in_the_file_breaks_the_seal(data: Path) -> None:
    """Somebody has worked on it, and not left it cleanly."""
    state = data / "state.db"
    db = sqlite3.connect(state)
    db.execute("UPDATE schedule SET note = 'by hand'")
    db.commit()
    kept = state.with_name("state.db-wal").read_bytes()
    assert kept
    assert not seal.check(state)
    db.close()


def a_file_that_somebody_still_uses_is_not_sealed(tmp_path: Path) -> None:
    store = Store(tmp_path / "state.db")
    store.transact(lambda db: db.execute("INSERT INTO absence VALUES (1, 2)"))
    reader = store.reader()
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM meta").fetchall()
    store.transact(lambda db: db.execute("INSERT INTO absence VALUES (3, 4)"))
    assert not seal.close(store)
    assert not seal.seal_of(store.path).exists()
    reader.close()


def a_state_whose_tables_have_names_that_are_no_text_is_named(data: Path) -> None:
    state = data / "state.db"
    whole = state.read_bytes()
    assert (whole.count(b"tabletoken"), whole.count(b"CREATE TABLE token")) == (1, 1)
    spoilt = whole.replace(b"tabletoken", b"table\xf2\xe4\xffen")
    _put(state, spoilt.replace(b"CREATE TABLE token", b"CREATE TABLX token"))
    with pytest.raises(StateDamaged, match="cannot be read"):
        Store(state)


# Snapshots


@contextlib.contextmanager
def _restored(folder: Path, manifest: Manifest, into: Path) -> Iterator[Store]:
    snapshot.restore(folder, manifest, into)
    store = Store(into)
    try:
        yield store
    finally:
        store.close()


def a_damaged_snapshot_is_never_restored(data: Path, tmp_path: Path) -> None:
    folder = data / "snapshots"
    (manifest,) = snapshot.manifests(folder)
    file, there = snapshot.data_of(folder, manifest.seq), tmp_path / "there.db"
    whole = file.read_bytes()
    for number, raw in damaged("snapshot", whole, 200):
        file.write_bytes(raw)
        there.unlink(missing_ok=True)
        done, refused = outcome(lambda: snapshot.restore(folder, manifest, there) or True, SnapshotDamaged)
        assert bool(done) == (raw == whole), _note(number)
        assert done or (str(file) in str(refused) and not there.exists()), _note(number)
        assert outcome(lambda: snapshot.verify(folder, manifest), SnapshotDamaged)[0] is None or raw == whole
        assert snapshot.is_whole(file, manifest) == (raw == whole)


def a_snapshot_whose_damage_has_the_right_checksum_is_no_way_in(data: Path, tmp_path: Path) -> None:
    """It was damaged before it was made: what then becomes the state can be read, or is refused."""
    folder = data / "snapshots"
    (manifest,) = snapshot.manifests(folder)
    file = snapshot.data_of(folder, manifest.seq)
    store = Store(tmp_path / "in-use.db")
    for number, raw in damaged("snapshot-made-so", file.read_bytes(), 150):
        file.write_bytes(raw)
        made = Manifest(manifest.seq, manifest.incarnation, 0, len(raw), snapshot._checksum(file))
        outcome(lambda made=made: _restore_and_open(folder, made, tmp_path), SnapshotDamaged, StateDamaged)
        _, refused = outcome(lambda: store.become(file), StateDamaged, sqlite3.DatabaseError)
        assert refused is not None or store.meta.incarnation, _note(number)
    store.close()


def _restore_and_open(folder: Path, made: Manifest, tmp_path: Path) -> None:
    with _restored(folder, made, tmp_path / "there.db") as store:
        if outcome(lambda: seal.look_over(store), StateDamaged)[0]:
            _, unreadable = outcome(lambda: full_digest(store.db), sqlite3.OperationalError)
            assert unreadable is None or is_damage(unreadable)


def a_damaged_manifest_is_no_snapshot(data: Path) -> None:
    folder = data / "snapshots"
    (manifest,) = snapshot.manifests(folder)
    path = snapshot.data_of(folder, manifest.seq).with_suffix(".json")
    whole, earlier = path.read_bytes(), dict(corpus("manifest"))["golden"]

    def check(raw: bytes) -> None:
        path.write_bytes(raw)
        is_whole = raw == whole
        if raw == earlier:
            return  # whole by itself
        assert snapshot.manifests(folder) == ([manifest] if is_whole else [])
        assert snapshot.unreadable(folder) == ([] if is_whole else [path])

    for position in range(len(whole)):
        raw = bytearray(whole)
        raw[position] ^= 1 << position % 8
        check(bytes(raw))
    fuzz("manifest", check, 1_000)


def a_manifest_under_another_name_is_no_snapshot(data: Path) -> None:
    """Whoever trusts in a snapshot of a later entry trims the journal behind it."""
    folder = data / "snapshots"
    (manifest,) = snapshot.manifests(folder)
    path = snapshot.data_of(folder, manifest.seq).with_suffix(".json")
    shutil.move(path, snapshot.data_of(folder, 99).with_suffix(".json"))
    assert snapshot.manifests(folder) == []


def nobody_becomes_a_state_whose_facts_cannot_be_read(data: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "in-use.db")
    before = store.meta
    for script in (
        "UPDATE meta SET value = 'x' WHERE key = 'seq'",
        "UPDATE meta SET value = x'ff' WHERE key = 'leader'",
    ):
        db = sqlite3.connect(data / "state.db")
        db.executescript(script)
        db.close()
        with pytest.raises(StateDamaged, match="cannot be read"):
            store.become(data / "state.db")
        assert store.meta == before
        assert store.db.execute("SELECT count(*) FROM schedule").fetchone() == (0,)
    (tmp_path / "text").write_bytes(b"this is no database" * 1_000)
    with pytest.raises(StateDamaged, match="cannot be read"):
        store.become(tmp_path / "text")
    store.close()
