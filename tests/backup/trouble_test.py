"""What can be wrong with the place of the backups: told in a sentence, soon, and without secrets."""

from __future__ import annotations

import io
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from tests.backup.conftest import KEY, SECRET, Source, Weed

from tocsin.backup.store import Backups
from tocsin.errors import BackupError, BackupUnavailable, InvalidInput, TocsinError


def _refusal(url: str, source: Source, silence_max_s: float = 60) -> TocsinError:
    """The same for whoever reads and whoever writes."""
    backups = Backups(url, silence_max_s=silence_max_s)
    with pytest.raises(TocsinError) as reading:
        backups.list()
    with pytest.raises(TocsinError) as writing:
        source.put(backups, 1)
    assert type(reading.value) is type(writing.value)
    assert reading.value.hint
    assert writing.value.hint
    for text in (str(reading.value), str(writing.value), str(backups)):
        assert SECRET not in text
        assert "wrong-secret" not in text
    return writing.value


def a_missing_bucket_is_told_and_not_made(weed: Weed, source: Source) -> None:
    found = _refusal(weed.url("no-such-bucket/folder"), source)
    assert isinstance(found, BackupError)
    assert "s3://no-such-bucket/folder: there is no such bucket" in found.message
    assert "no-such-bucket" not in {path.strip("/") for path in weed.files().ls("")}


@pytest.mark.parametrize(("key", "secret"), [(KEY, "wrong-secret"), ("wrong-key", SECRET)])
def wrong_credentials_are_told(weed: Weed, source: Source, key: str, secret: str) -> None:
    found = _refusal(weed.url("shared/x", key=key, secret=secret), source)
    assert isinstance(found, BackupError)
    assert not found.retryable
    assert "does not let us in" in found.message
    assert "AWS_SECRET_ACCESS_KEY" in found.hint


def missing_credentials_are_told(weed: Weed, source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    found = _refusal(f"s3://shared/x?endpoint_url={weed.endpoint}", source)
    assert "no credentials" in found.message


def credentials_may_stand_in_the_environment(
    weed: Weed, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_ENDPOINT_URL", weed.endpoint)
    backups = Backups("s3://shared/environment")
    assert backups.list() == []
    made = source.put(backups, 1)
    assert backups.list() == [made]


def an_address_where_nobody_listens_is_told(source: Source) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    found = _refusal(f"s3://b/x?endpoint_url=http://127.0.0.1:{port}&key=k&secret={SECRET}", source)
    assert isinstance(found, BackupUnavailable)
    assert f"127.0.0.1:{port}" in found.message


@pytest.fixture
def silent() -> Iterator[int]:
    """Takes connections and never says anything."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def whoever_never_answers_is_given_up(silent: int, source: Source) -> None:
    began = time.monotonic()
    url = f"s3://b/x?endpoint_url=http://127.0.0.1:{silent}&key=k&secret={SECRET}"
    found = _refusal(url, source, silence_max_s=1)
    assert isinstance(found, BackupUnavailable)
    assert found.retryable
    assert time.monotonic() - began < 10


def those_who_are_stuck_do_not_become_more_and_more(silent: int) -> None:
    url = f"s3://b/x?endpoint_url=http://127.0.0.1:{silent}&key=k&secret={SECRET}"
    backups = Backups(url, silence_max_s=0.2)
    for _ in range(4):
        with pytest.raises(BackupUnavailable):
            backups.list()
    began = time.monotonic()
    with pytest.raises(BackupUnavailable):
        backups.list()
    assert time.monotonic() - began < 0.2


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("", "allowed"),
        ("nothing://a/b", "not a kind of file system"),
        ("s3://", "names no bucket"),
        ("s3://?key=k", "names no bucket"),
        ("gs://bucket/x", "pip install"),
        ("simplecache::s3://b", "allowed"),
    ],
)
def a_url_that_makes_no_sense_is_refused_before_anybody_is_asked(url: str, told: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Backups(url).check()
    assert told in str(refused.value)
    assert refused.value.field == "backup"


def an_unknown_option_is_told() -> None:
    with pytest.raises(BackupError, match="option of the URL is not known"):
        Backups("s3://bucket/x?colour=red").list()


@pytest.mark.parametrize("keep", [0, -1])
def at_least_one_is_kept(keep: int) -> None:
    with pytest.raises(InvalidInput, match="backup_keep"):
        Backups("/tmp/x", keep)


def a_disk_that_is_not_mounted_is_not_taken_for_an_empty_one(tmp_path: Path, source: Source) -> None:
    found = _refusal(str(tmp_path / "mnt" / "backups"), source)
    assert "does not exist" in found.message
    assert not (tmp_path / "mnt").exists()


def a_file_in_the_place_of_the_folder_is_told(tmp_path: Path, source: Source) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BackupError):
        source.put(Backups(str(tmp_path / "file")), 1)


class _Forgetful(LocalFileSystem):
    """Loses the last byte of what it was given."""

    protocol = "forgetful"

    @classmethod
    def _strip_protocol(cls, path: str, *_: Any) -> str:
        return "/" + path.partition("://")[2].strip("/") if "://" in path else path

    def _open(self, path: str, mode: str = "rb", **more: Any) -> Any:
        opened = super()._open(path, mode, **more)
        return io.BytesIO(opened.read()[:-1]) if mode == "rb" and path.endswith(".zst") else opened


def what_a_store_does_not_give_back_as_it_was_is_no_backup(tmp_path: Path, source: Source) -> None:
    fsspec.register_implementation("forgetful", _Forgetful, clobber=True)
    backups = Backups(f"forgetful://{tmp_path}/backups")
    with pytest.raises(BackupError, match="gives back other data"):
        source.put(backups, 1)
    assert list(backups.survey()) == []
    assert [path for path in (tmp_path / "backups").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"sftp://me:{SECRET}@host/folder?token={SECRET}", "sftp://***@host/folder"),
        (f"sftp://me:{SECRET}/more@host/folder", "sftp://***@host/folder"),
        (f"s3://{SECRET}@bucket", "s3://***@bucket"),
        ("s3://bucket/folder/you@here", "s3://bucket/folder/you@here"),
    ],
)
def passwords_in_a_url_are_never_shown(url: str, shown: str) -> None:
    assert str(Backups(url)) == shown


@pytest.mark.parametrize(
    "url",
    [
        f"simplecache::s3://key:{SECRET}@bucket",
        f"simplecache::s3://bucket?secret={SECRET}",
        f"zip://me:{SECRET}@x::s3://key:{SECRET}@bucket",
        f"sftp://me:{SECRET}?more@host",
        f"sftp://me:ab?{SECRET}@host",
        f"nothing://me:{SECRET}@host/x",
    ],
)
def what_is_refused_is_shown_without_its_password(url: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Backups(url).check()
    assert SECRET not in str(refused.value)
    assert SECRET not in str(refused.value.value)
    assert "ab?" not in str(refused.value.value)
