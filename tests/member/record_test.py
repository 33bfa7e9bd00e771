"""What a disk remembers, and how it knows that it has forgotten."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tocsin import file_identity
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


def data_without_a_record_may_be_an_older_one(tmp_path: Path) -> None:
    _with_data(tmp_path)
    memory = _memory(tmp_path)
    assert memory.record.condition == "founded"
    assert memory.is_copy()
    memory.keep(asked=True)
    assert _memory(tmp_path).is_copy(), "a record that is written later does not make it this replica's own"


def data_from_a_version_that_made_no_marks_is_this_replica_s_own(tmp_path: Path) -> None:
    _memory(tmp_path).keep(condition="founded")
    _with_data(tmp_path)
    assert not _memory(tmp_path).is_copy()


def _signed(folder: Path) -> Path:
    """Its data directory."""
    _memory(folder).keep(condition="founding")
    _with_data(folder)
    _memory(folder).sign()
    assert not _memory(folder).is_copy()
    return folder / "member"


def _put_back(copy: Path, data: Path) -> None:
    """As by ``rm -r data; cp -a copy data``: inode numbers are often the same ones."""
    shutil.rmtree(data)
    shutil.copytree(copy, data)


@pytest.mark.parametrize("part", [".", "etcd", "member.json"])
def data_that_was_put_back_is_recognised_whatever_part_of_it_was(tmp_path: Path, part: str) -> None:
    data = _signed(tmp_path)
    shutil.copytree(data, tmp_path / "copy")
    _memory(tmp_path).sign()  # the replica went on
    if (data / part).is_dir():
        _put_back(tmp_path / "copy" / part, data / part)
    else:
        shutil.copy2(tmp_path / "copy" / part, data / part)
    record = _memory(tmp_path).read()
    assert record is not None
    for _ in range(2):
        memory = _memory(tmp_path)
        assert memory.is_copy()
        assert memory.record.token != record.token, "the original may run elsewhere"


def a_copy_of_the_newest_data_is_recognised_too(tmp_path: Path) -> None:
    data = _signed(tmp_path)
    shutil.copytree(data, tmp_path / "copy")
    _put_back(tmp_path / "copy", data)
    assert _memory(tmp_path).is_copy()


def what_rsync_puts_back_is_recognised_after_a_start_or_a_stop(tmp_path: Path) -> None:
    """It replaces only files that look different by size or time."""
    data = _signed(tmp_path)
    shutil.copytree(data, tmp_path / "copy")
    _memory(tmp_path).sign()
    for file in [path for path in (tmp_path / "copy").rglob("*") if path.is_file()]:
        place = data / file.relative_to(tmp_path / "copy")
        seen, old = place.stat() if place.exists() else None, file.stat()
        if seen is None or (seen.st_size, seen.st_mtime_ns) != (old.st_size, old.st_mtime_ns):
            place.unlink(missing_ok=True)
            shutil.copy2(file, place)
    assert _memory(tmp_path).is_copy()


def a_directory_that_is_renamed_is_the_same(tmp_path: Path) -> None:
    data = _signed(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    data.rename(tmp_path / "elsewhere" / "member")
    assert not _memory(tmp_path / "elsewhere").is_copy()


def a_directory_whose_owner_or_rights_are_changed_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a file system that numbers the generations of an inode, as ext4, xfs and btrfs do."""
    monkeypatch.setattr(file_identity, "_generation", lambda _: 7)
    data = _signed(tmp_path)
    (mark,) = data.rglob(".original-*")
    mark.chmod(0o640)
    assert not _memory(tmp_path).is_copy()


def without_generations_the_time_of_the_last_change_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_identity, "_generation", lambda _: 0)
    monkeypatch.setattr(file_identity, "_born_ns", lambda _: 0)
    data = _signed(tmp_path)
    shutil.copytree(data, tmp_path / "copy")
    _put_back(tmp_path / "copy", data)
    assert _memory(tmp_path).is_copy()


def a_crash_while_the_mark_is_renewed_leaves_the_data_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _signed(tmp_path)
    for step in ("keep", "_write"):
        with monkeypatch.context() as broken:
            broken.setattr(Memory, step, _crash)
            with pytest.raises(KeyboardInterrupt):
                _memory(tmp_path).sign()
        assert not _memory(tmp_path).is_copy()
    _memory(tmp_path).sign()
    assert len(list(tmp_path.rglob(".original-*"))) == 1


def _crash(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


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


def who_is_killed_while_the_data_is_put_aside_has_not_forgotten_that_the_others_were_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _with_data(tmp_path)
    memory = _memory(tmp_path)
    assert memory.record

    def killed(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            memory.set_aside(asked=True)
    again = _memory(tmp_path)
    assert again.has_data()
    assert again.is_copy(), "it votes no more"
    assert again.record.asked
    again.set_aside(asked=True)
    assert _memory(tmp_path).record.asked
    assert not _memory(tmp_path).has_data()


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
