"""A service with a place for backups: it loses its disk and goes on from there."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.api.conftest import Service, eventually
from tests.backup.conftest import SECRET, Weed
from tests.cli.conftest import Command

from tocsin.backup.store import Backups

NUMBER = 2_000


def what_was_backed_up_comes_back_after_the_disk_was_lost(
    url: str, tmp_path: Path, start: Callable[..., Service]
) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    first = start(tmp_path / "first" / "data", "--backup", url)
    tocsin = Command(first.url)
    lines = "".join(
        f'{{"id": "team/{number}", "cron": "0 0 29 2 *", "target": {{"kind": "null"}}}}\n'
        for number in range(NUMBER)
    )
    assert tocsin("import", "-", stdin=lines).status == 0
    made = tocsin("backup", "--json").json
    assert made["sequence"] == first.ask("GET", "/v1/status").json["snapshot_sequence"]
    first.create("after/the-backup")
    first.stop(signal.SIGKILL)
    shutil.rmtree(first.data)

    done = tocsin("restore", url, "--data", str(tmp_path / "second" / "data"), "--json")
    assert done.status == 0, done.err
    assert done.json["sequence"] == made["sequence"]
    second = start(tmp_path / "second" / "data", "--backup", url)
    status = second.ask("GET", "/v1/status").json
    assert status["schedules"] == NUMBER
    assert status["incarnation"] != made["incarnation"]
    assert status["sequence"] > made["sequence"]
    # Backups of the new journal stand before those of the old one, which are still there.
    again = Command(second.url)("backup", "--json").json
    found = Backups(url).list()
    assert (found[0].seq, found[0].incarnation) == (again["sequence"], status["incarnation"])
    assert made["incarnation"] in {each.incarnation for each in found}
    assert second.stop() == 0
    for service in (first, second):
        log = service.log.read_text()
        assert "Traceback" not in log
        assert SECRET not in log


def a_store_that_is_down_is_told_and_holds_up_nothing(
    mortal_weed: Weed, tmp_path: Path, start: Callable[..., Service]
) -> None:
    mortal_weed.bucket("bucket")
    url = mortal_weed.url("bucket/x")
    service = start(tmp_path / "data", "--backup", url)
    mortal_weed.kill()
    refused = Command(service.url)("backup")
    assert refused.status == 1
    assert "cannot be reached" in refused.err
    assert SECRET not in refused.err
    service.create("launches/go-on", cron="@every 1s")
    eventually(lambda: service.ask("GET", "/v1/launches?state=succeeded").json["items"])
    mortal_weed.start()
    assert Command(service.url)("backup").status == 0
    assert Backups(url).newest_valid() is not None
    assert service.stop() == 0
    assert "Traceback" not in service.log.read_text()


def a_backup_that_cannot_be_made_is_an_issue(tmp_path: Path, start: Callable[..., Service]) -> None:
    folder = tmp_path / "mnt"
    service = start(tmp_path / "data", "--backup", str(folder / "backups"))
    [issue] = eventually(lambda: service.ask("GET", "/v1/status").json["issues"])
    assert "There is no new backup" in issue
    assert f"{folder} does not exist" in issue
    assert "'tocsin backup'" in issue
    folder.mkdir()
    assert Command(service.url)("backup").status == 0
    assert service.ask("GET", "/v1/status").json["issues"] == []


def where_there_is_no_place_for_backups_none_is_made(service: Service) -> None:
    answer = service.ask("POST", "/v1/backup")
    assert answer.status == 409
    assert "--backup" in answer.json["hint"]


def only_an_admin_has_one_made(guarded: Service) -> None:
    made = guarded.ask("POST", "/v1/tokens", {"name": "writer", "scopes": ["write", "operate"]}).json
    assert guarded.as_(made["token"]).ask("POST", "/v1/backup").status == 403
    assert guarded.as_("").ask("POST", "/v1/backup").status == 401
    assert guarded.ask("POST", "/v1/backup").status == 409


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--backup", "nothing://x/y"), "not a kind of file system"),
        (("--backup", "gs://bucket/x"), "pip install"),
        (("--backup", "/tmp/x", "--backup-keep", "0"), "backup_keep"),
        (("--backup", "simplecache::s3://key:pass-word@bucket"), "s3://***@bucket"),
        (("--journal", "etcds://root:pass-word@host"), "etcds://***@host"),
        (("--journal", "root:pass-word@host:2379"), "***@host:2379"),
        (("--journal", "etcd://root:pass-word?more@host"), "%3F"),
    ],
)
def a_place_that_makes_no_sense_is_refused_at_the_start(
    options: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    done = Command(None).process(
        "serve", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", *options
    )
    assert done.status == 1
    assert told in done.err
    assert "pass-word" not in done.err
