"""Backups that were damaged where they lie: passed over by name, or what they were."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import msgspec
import pytest
from tests.fuzz.mutation import SEED, fuzz, mutants, outcome
from tests.golden.folder import HERE, Golden

from tocsin.backup import manifest as manifests
from tocsin.backup.manifest import BackupManifest
from tocsin.backup.store import Backups
from tocsin.errors import NotFound, SnapshotDamaged
from tocsin.state import snapshot

FIRST = Golden(HERE / "v1" / "first")


class Place:
    """A folder with one backup in it."""

    def __init__(self, folder: Path) -> None:
        data = FIRST.unpack(folder / "data")
        (self.snapshot,) = snapshot.manifests(data / "snapshots")
        self.told: list[str] = []
        self.backups = Backups(str(folder / "backups"), tell=self.told.append)
        self.made = self.backups.put(data / "snapshots", self.snapshot)
        home = folder / "backups" / self.made.incarnation
        self.data, self.manifest = home / self.made.file, home / manifests.manifest_name(self.made.seq)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def one_changed_byte_of_a_manifest_makes_it_none(place: Place) -> None:
    whole = place.manifest.read_bytes()
    for position in range(len(whole)):
        raw = bytearray(whole)
        raw[position] ^= 1 << position % 8
        found = manifests.decode(bytes(raw), place.made.incarnation, place.made.seq)
        assert found in (None, place.made), position


def any_manifest_is_understood_or_none(place: Place) -> None:
    def check(raw: bytes) -> None:
        found = manifests.decode(raw, place.made.incarnation, place.made.seq)
        if found is not None:
            assert (found.incarnation, found.seq) == (place.made.incarnation, place.made.seq)
            manifests.view_of(found)

    fuzz("backup", check, 4_000)


def a_manifest_of_before_there_were_checksums_counts(place: Place) -> None:
    raw = msgspec.json.encode(place.made)
    assert b"check" not in raw
    assert manifests.decode(raw, place.made.incarnation, place.made.seq) == place.made


def a_changed_time_is_noticed(place: Place) -> None:
    """It decides which backup is the newest."""
    raw = place.manifest.read_bytes()
    assert raw.count(b"1700001010000") == 1
    place.manifest.write_bytes(raw.replace(b"1700001010000", b"1800001010000"))
    assert place.backups.list() == []
    assert "is not the manifest of a backup" in place.told[0]


def damaged_data_is_never_fetched(place: Place, tmp_path: Path) -> None:
    whole = place.data.read_bytes()
    positions = sorted(random.Random(SEED).sample(range(len(whole)), 40))
    flipped = [whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :] for at in positions]
    for raw in [*flipped, *(raw for _, raw in mutants("backup-data", [whole], 60))]:
        place.data.write_bytes(raw)
        _, damaged = outcome(lambda: place.backups.verify(place.made), SnapshotDamaged)
        found, missing = outcome(lambda: place.backups.fetch_newest(tmp_path / "out"), NotFound)
        if raw == whole:
            assert damaged is None
            assert isinstance(found, BackupManifest)
            shutil.rmtree(tmp_path / "out")
            continue
        assert f"backup at sequence {place.made.seq}" in str(damaged)
        assert "that is whole" in str(missing)
        assert snapshot.manifests(tmp_path / "out") == []
        assert list((tmp_path / "out").glob("*")) == []
