"""What a disk remembers, and how it knows that it has forgotten."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tocsin.errors import ClusterError, OfficeTaken
from tocsin.member.record import Memory


def _memory(folder: Path, name: str = "a") -> Memory:
    return Memory(folder / "member", name)


def _with_data(folder: Path) -> None:
    log = folder / "member" / "etcd" / "member" / "wal"
    log.mkdir(parents=True)
    (log / "0.wal").write_bytes(b"promises")


def an_empty_disk_keeps_its_token(tmp_path: Path) -> None:
    first = _memory(tmp_path).record
    assert first.condition == "empty"
    assert _memory(tmp_path).record == first
    assert _memory(tmp_path / "other").record.token != first.token


def who_was_about_to_found_goes_on_with_it(tmp_path: Path) -> None:
    _memory(tmp_path).keep(condition="founding", founding="x")
    assert _memory(tmp_path).record.founding == "x"


def a_record_without_its_data_is_worth_nothing(tmp_path: Path) -> None:
    memory = _memory(tmp_path)
    before = memory.record.token
    memory.keep(condition="founded")
    after = _memory(tmp_path).record
    assert after.condition == "bereft"
    assert after.token != before
    assert _memory(tmp_path).record == after


@pytest.mark.parametrize("left", ["state.db", "snapshots/7.json"])
def as_long_as_anything_is_left_it_is_known_that_there_was_a_cluster(tmp_path: Path, left: str) -> None:
    assert _memory(tmp_path).record.condition == "empty"
    (tmp_path / left).parent.mkdir(exist_ok=True)
    (tmp_path / left).touch()
    assert _memory(tmp_path).record.condition == "bereft"
    shutil.rmtree(tmp_path / "member")
    assert _memory(tmp_path).record.condition == "bereft"


def what_a_person_restored_is_not_left_of_a_cluster(tmp_path: Path) -> None:
    (tmp_path / "restore").mkdir()
    (tmp_path / "restore" / "7.json").touch()
    assert _memory(tmp_path).record.condition == "empty"


def data_without_a_record_still_remembers(tmp_path: Path) -> None:
    _with_data(tmp_path)
    assert _memory(tmp_path).record.condition == "founded"


def half_made_data_remembers_nothing(tmp_path: Path) -> None:
    (tmp_path / "member" / "etcd" / "member" / "snap").mkdir(parents=True)
    assert not _memory(tmp_path).has_data()


def a_disk_belongs_to_one_replica(tmp_path: Path) -> None:
    assert _memory(tmp_path, "a").record
    with pytest.raises(ClusterError, match="belongs to the replica a, not to b") as refused:
        assert _memory(tmp_path, "b").record
    assert "--name a" in refused.value.hint


def a_damaged_record_is_not_guessed_at(tmp_path: Path) -> None:
    assert _memory(tmp_path).record
    (tmp_path / "member" / "member.json").write_bytes(b"{")
    with pytest.raises(ClusterError, match="cannot be read"):
        assert _memory(tmp_path).record


def who_was_removed_begins_anew_and_the_data_is_kept_aside(tmp_path: Path) -> None:
    for _ in range(2):
        _with_data(tmp_path)
        memory = _memory(tmp_path)
        before = memory.record.token
        aside = memory.set_aside()
        assert (aside / "member" / "wal" / "0.wal").exists()
        assert not memory.has_data()
        assert memory.record.token != before
        assert memory.record.condition == _memory(tmp_path).record.condition == "bereft"


def a_memory_has_one_user(tmp_path: Path) -> None:
    first = _memory(tmp_path)
    first.lock()
    with pytest.raises(OfficeTaken):
        _memory(tmp_path).lock()
    first.unlock()
    _memory(tmp_path).lock()


def a_full_disk_is_told_as_such() -> None:
    with pytest.raises(ClusterError, match="cannot be written") as refused:
        assert Memory(Path("/proc/member"), "a").record
    assert "--data" in refused.value.hint
