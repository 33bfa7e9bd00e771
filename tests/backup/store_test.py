"""Backups, in a folder and in a real object store."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.backup.conftest import Source, damage

from tocsin.backup.manifest import BackupManifest, manifest_name
from tocsin.backup.store import OTHERS_KEPT_MS, Backups
from tocsin.errors import BackupError, NotFound, SnapshotDamaged
from tocsin.state import snapshot
from tocsin.state.snapshot import Manifest

A, B = "a" * 32, "b" * 32


@pytest.fixture
def backups(url: str) -> Backups:
    return Backups(url, keep=3)


def _names(backups: Backups, incarnation: str = A) -> set[str]:
    found = backups.place.files.ls(f"{backups.place.base}/{incarnation}", detail=False)
    return {name.rpartition("/")[2] for name in found}


def _seqs(backups: Backups) -> list[int]:
    return [each.seq for each in backups.list()]


def a_place_that_does_not_exist_yet_holds_nothing(backups: Backups, tmp_path: Path) -> None:
    assert list(backups.survey()) == []
    assert backups.newest_valid() is None
    assert backups.prune(A) == 0
    with pytest.raises(NotFound):
        backups.fetch_newest(tmp_path / "out")


def a_real_state_comes_back_as_it_was(backups: Backups, real: tuple[Path, Manifest], tmp_path: Path) -> None:
    folder, made = real
    done: list[tuple[int, int]] = []
    put = backups.put(folder, made, lambda *step: done.append(step))
    assert done[-1] == (made.size, made.size)
    assert put.stored_size < made.size / 3
    assert backups.newest_valid() == put
    assert backups.fetch(put, tmp_path / "out") == made
    assert snapshot.manifests(tmp_path / "out") == [made]
    came_back = snapshot.verify(tmp_path / "out", made)
    assert came_back.read_bytes() == snapshot.verify(folder, made).read_bytes()
    assert came_back.stat().st_mode & 0o077 == 0


def a_journal_that_went_on_from_a_time_that_has_not_come_is_the_newer_one(
    backups: Backups, source: Source
) -> None:
    """The clock was ahead when the first was made. It was restored, and the second went on from it."""
    now_ms = int(time.time() * 1000)
    source.put(backups, 17, incarnation="a" * 32, time_ms=now_ms + 6 * 3_600_000)
    source.put(backups, 75, incarnation="b" * 32, time_ms=now_ms, origin=("a" * 32, 17))
    source.put(backups, 81, incarnation="d" * 32, time_ms=now_ms - 10, origin=("b" * 32, 75))
    source.put(backups, 99, incarnation="c" * 32, time_ms=now_ms - 20)
    assert _seqs(backups) == [81, 75, 17, 99]


def a_journal_that_goes_on_is_newer_than_one_that_was_restored_from_it_on_trial(
    backups: Backups, source: Source
) -> None:
    now_ms = int(time.time() * 1000)
    source.put(backups, 17, incarnation="a" * 32, time_ms=now_ms - 1)
    source.put(backups, 15, incarnation="b" * 32, time_ms=now_ms - 86_400_000, origin=("a" * 32, 9))
    assert _seqs(backups) == [17, 15]


def what_is_there_is_not_copied_again(backups: Backups, source: Source) -> None:
    first = source.put(backups, 7)
    before = _names(backups)
    # Another replica's file of the same moment has other bytes.
    assert source.put(backups, 7) == first
    assert _names(backups) == before


def they_are_listed_the_newest_first_over_all_journals(backups: Backups, source: Source) -> None:
    source.put(backups, 500, time_ms=1_000)
    source.put(backups, 600, time_ms=2_000)
    source.put(backups, 501, incarnation=B, time_ms=3_000)
    assert _seqs(backups) == [501, 600, 500]


def after_the_clock_was_put_back_the_highest_sequence_of_a_journal_is_the_newest(
    backups: Backups, source: Source
) -> None:
    source.put(backups, 20, time_ms=9_000_000)
    source.put(backups, 139, time_ms=2_000_000)
    source.put(backups, 7, incarnation=B, time_ms=1_000_000)
    assert _seqs(backups) == [139, 20, 7]
    newest = backups.newest_valid()
    assert newest is not None
    assert newest.seq == 139


@pytest.mark.parametrize(
    "change",
    [lambda raw: raw[:-1], lambda raw: b"", lambda raw: raw[:100] + bytes([raw[100] ^ 1]) + raw[101:]],
)
def damaged_data_is_passed_over_for_the_one_before(
    backups: Backups, source: Source, tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    good, bad = source.put(backups, 1), source.put(backups, 2)
    damage(backups, f"{A}/{bad.file}", change)
    with pytest.raises(SnapshotDamaged):
        backups.verify(bad)
    with pytest.raises(SnapshotDamaged):
        backups.fetch(bad, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
    assert backups.newest_valid() == good
    assert backups.fetch_newest(tmp_path / "out") == good


def missing_data_is_passed_over_and_put_right_by_the_next_copy(backups: Backups, source: Source) -> None:
    good, bad = source.put(backups, 1), source.put(backups, 2)
    backups.place.files.rm_file(f"{backups.place.base}/{A}/{bad.file}")
    assert [(each.manifest.seq, each.problem) for each in backups.survey()] == [
        (2, "its data is missing"),
        (1, ""),
    ]
    assert backups.newest_valid() == good
    again = backups.put(source.folder, source.held(2))
    assert again.snapshot == bad.snapshot
    assert backups.newest_valid() == again


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: raw[: len(raw) // 2],
        lambda raw: b"",
        lambda raw: b"null",
        lambda raw: raw.replace(A.encode(), B.encode()),
        lambda raw: raw.replace(b'"file":"state', b'"file":"../state'),
        lambda raw: raw.replace(b'"format":1', b'"format":2'),
        lambda raw: raw.replace(b'"time_ms":2000', b'"time_ms":1000000000000000000'),
        lambda raw: raw.replace(b'"time_ms":2000', b'"time_ms":-1'),
        lambda raw: raw.replace(b'"stored_size":', b'"stored_size":-'),
        lambda raw: raw + bytes([32]) * 65_536,
    ],
)
def a_manifest_that_is_none_is_passed_over(
    backups: Backups, source: Source, change: Callable[[bytes], bytes]
) -> None:
    good = source.put(backups, 1)
    source.put(backups, 2)
    damage(backups, f"{A}/{manifest_name(2)}", change)
    assert backups.list() == [good]
    assert backups.newest_valid() == good


def what_unpacks_to_more_than_it_says_is_not_unpacked(
    backups: Backups, source: Source, tmp_path: Path
) -> None:
    import zstandard

    bad = source.put(backups, 1)
    damage(backups, f"{A}/{bad.file}", lambda raw: zstandard.compress(bytes(50_000_000)))
    with pytest.raises(SnapshotDamaged):
        backups.fetch(bad, tmp_path / "out")


def a_damaged_snapshot_is_not_copied(backups: Backups, source: Source) -> None:
    made = source.snapshot(3)
    path = snapshot.verify(source.folder, made)
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(SnapshotDamaged):
        backups.put(source.folder, made)
    path.unlink()
    with pytest.raises(SnapshotDamaged):
        backups.put(source.folder, made)
    assert list(backups.survey()) == []


def the_one_that_was_asked_for_is_brought(backups: Backups, source: Source, tmp_path: Path) -> None:
    for seq in (10, 20, 30):
        source.put(backups, seq)
    assert backups.fetch_newest(tmp_path / "out", seq=20).seq == 20
    assert backups.fetch_newest(tmp_path / "out", until_ms=29_999).seq == 20
    assert backups.fetch_newest(tmp_path / "out").seq == 30
    with pytest.raises(NotFound):
        backups.fetch_newest(tmp_path / "out", seq=21)
    with pytest.raises(NotFound):
        backups.fetch_newest(tmp_path / "out", until_ms=9_999)


def only_the_newest_are_kept(backups: Backups, source: Source) -> None:
    for seq in range(1, 6):
        source.put(backups, seq)
    assert backups.prune(A) == 2
    assert _seqs(backups) == [5, 4, 3]
    assert len(_names(backups)) == 6
    assert backups.prune(A, 1) == 2
    assert _seqs(backups) == [5]


def one_that_is_damaged_takes_nobodys_place(backups: Backups, source: Source) -> None:
    made = [source.put(backups, seq) for seq in range(1, 5)]
    damage(backups, f"{A}/{made[3].file}", lambda raw: raw[:-1])
    assert backups.prune(A, 1) == 2
    assert backups.newest_valid() == made[2]


def where_none_is_whole_nothing_is_removed(backups: Backups, source: Source) -> None:
    for seq in (1, 2):
        damage(backups, f"{A}/{source.put(backups, seq).file}", lambda raw: raw[:-1])
    before = _names(backups)
    assert backups.prune(A, 1) == 0
    assert _names(backups) == before


def a_new_journal_does_not_push_out_the_old_one(backups: Backups, source: Source) -> None:
    source.put(backups, 900, time_ms=1_000)
    for seq in range(1, 6):
        source.put(backups, seq, incarnation=B, time_ms=10_000 * seq)
        backups.prune(B, 2)
    assert _seqs(backups) == [5, 4, 900]


def of_other_journals_nothing_is_removed_on_one_machine(backups: Backups, source: Source) -> None:
    """They may be those of another service that was given the same place."""
    other = source.put(backups, 900, time_ms=1_000)
    newest = source.put(backups, 1, incarnation=B, time_ms=1_000 + OTHERS_KEPT_MS + 1)
    assert backups.prune(B, 1) == 0
    assert backups.list() == [newest, other]


def what_an_interrupted_copy_left_is_removed_later(backups: Backups, source: Source) -> None:
    source.put(backups, 10)
    remnants = {f"state-{seq:016d}-0123456789ab.db.zst" for seq in (5, 20)}
    for name in remnants:
        backups.place.files.pipe_file(f"{backups.place.base}/{A}/{name}", b"half of it")
    backups.place.files.pipe_file(f"{backups.place.base}/{A}/notes.txt", b"somebody else's")
    backups.prune(A)
    # The later one may be on its way there just now.
    assert remnants & _names(backups) == {f"state-{20:016d}-0123456789ab.db.zst"}
    source.put(backups, 30)
    backups.prune(A)
    assert not remnants & _names(backups)
    assert "notes.txt" in _names(backups)


def files_of_others_are_left_alone(backups: Backups, source: Source) -> None:
    source.put(backups, 1)
    backups.place.files.pipe_file(f"{backups.place.base}/state-0000000000000001.json", b"{}")
    assert _seqs(backups) == [1]


def the_name_of_a_journal_cannot_lead_elsewhere(backups: Backups, source: Source) -> None:
    with pytest.raises(BackupError):
        source.put(backups, 1, incarnation="../elsewhere")


def every_backup_says_who_wrote_it(backups: Backups, source: Source) -> None:
    import tocsin

    found: BackupManifest = source.put(backups, 1)
    assert found.version == tocsin.__version__
    assert found.incarnation == A
