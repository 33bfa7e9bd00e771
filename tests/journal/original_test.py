"""A journal on one machine knows whether it is a copy."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from tocsin import file_identity
from tocsin.journal.original import Original


def _started(journal: Path) -> Original:
    original = Original(journal)
    asyncio.run(original.start())
    return original


def _copied(data: Path) -> None:
    """The folder is put back from a copy of itself."""
    shutil.copytree(data, data.with_name("copy"))
    shutil.rmtree(data)
    shutil.copytree(data.with_name("copy"), data)


@pytest.mark.parametrize("knows", ["generations", "births", "changes"])
def a_copy_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, knows: str) -> None:
    if knows != "generations":
        monkeypatch.setattr(file_identity, "_generation", lambda _: 0)
    if knows == "changes":
        monkeypatch.setattr(file_identity, "_born_ns", lambda _: 0)
    data = tmp_path / "data"
    assert not _started(data / "journal.db").are_to_be_noted
    assert not _started(data / "journal.db").are_to_be_noted
    if knows == "changes":  # a file with another number
        mark = next(data.glob(".original-*"))
        shutil.copy2(mark, tmp_path / "other")
        os.replace(tmp_path / "other", mark)
    else:
        _copied(data)
    for _ in range(2):
        original = _started(data / "journal.db")
        assert original.are_to_be_noted, "as long as nobody has noted it"
    original.noted()
    assert not _started(data / "journal.db").are_to_be_noted


def a_file_system_without_generations_tells_when_a_file_was_made(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    mark.touch()
    with mark.open() as file:
        born_ns = file_identity._born_ns(file.fileno())
    assert abs(born_ns - mark.stat().st_mtime_ns) < 1_000_000_000


def two_journals_in_one_folder_leave_each_other_alone(tmp_path: Path) -> None:
    for _ in range(2):
        both = [_started(tmp_path / name) for name in ("a.db", "a.db-b.db", "b.db")]
        assert not any(original.are_to_be_noted for original in both)
        for original in both:
            asyncio.run(original.stop())
    assert len(list(tmp_path.glob(".original-*"))) == 3


def another_owner_makes_no_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_identity, "_generation", lambda _: 0)
    monkeypatch.setattr(file_identity, "_born_ns", lambda _: 0)
    _started(tmp_path / "journal.db")
    os.chmod(next(tmp_path.glob(".original-*")), 0o640)
    assert not _started(tmp_path / "journal.db").are_to_be_noted


def a_journal_that_nobody_signed_came_from_elsewhere(tmp_path: Path) -> None:
    """A journal is signed before it is made."""
    journal = tmp_path / "journal.db"
    _started(journal)
    journal.touch()
    assert not _started(journal).are_to_be_noted
    (tmp_path / "journal.db.original").unlink()
    assert _started(journal).are_to_be_noted
    (tmp_path / "journal.db.original").touch()
    assert _started(journal).are_to_be_noted, "an empty signature is none"
