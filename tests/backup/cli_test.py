"""``tocsin backup``, as a person types it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from tests.backup.conftest import KEY, SCHEDULES, SECRET, Source, Weed, damage
from tests.cli.conftest import Command

from tocsin.backup.manifest import Owner, manifest_name
from tocsin.backup.store import Backups
from tocsin.member.secret_file import read_secrets
from tocsin.replica.office import DataLock
from tocsin.state import snapshot
from tocsin.state.snapshot import Manifest
from tocsin.state.store import Store

A = "a" * 32


@pytest.fixture
def tocsin() -> Command:
    return Command(None)


def a_state_of_thousands_of_schedules_comes_back(
    tocsin: Command, url: str, real: tuple[Path, Manifest], tmp_path: Path
) -> None:
    folder, made = real
    Backups(url).put(folder, made)
    data = tmp_path / "data"
    done = tocsin("restore", url, "--data", str(data))
    assert done.status == 0, done.err
    assert f"sequence {made.seq}" in done.out
    assert "may have happened" in done.err
    assert f"tocsin serve --data {data}" in done.err
    assert SECRET not in done.out + done.err
    assert snapshot.manifests(data / "restore") == [made]
    snapshot.restore(data / "restore", made, data / "state.db")
    store = Store(data / "state.db")
    (schedules,) = store.db.execute("SELECT count(*) FROM schedule").fetchone()
    (launches,) = store.db.execute("SELECT count(*) FROM launch").fetchone()
    assert (schedules, launches) == (SCHEDULES, 3 * SCHEDULES)
    assert (store.meta.seq, store.meta.incarnation) == (made.seq, made.incarnation)
    store.close()


def the_backups_are_listed(tocsin: Command, url: str, source: Source) -> None:
    backups = Backups(url)
    made = [source.put(backups, seq) for seq in (1, 2)]
    damage(backups, f"{A}/{made[0].file}", lambda raw: raw[:-1])
    done = tocsin("backup", "list", url)
    assert done.status == 0
    title, second, first = done.out.splitlines()
    assert title.split()[0] == "SEQUENCE"
    assert second.split()[0] == "2"
    assert "there" in second
    assert "cut short" in first
    items = tocsin("backup", "list", url, "--json").json["items"]
    assert [(each["sequence"], each["problem"]) for each in items] == [(2, ""), (1, "cut short")]
    assert items[0]["incarnation"] == A
    assert items[0]["sha256"] == made[1].snapshot.sha256
    assert items[0]["at"] == "1970-01-01T00:00:02Z"


def verify_reads_to_the_end(tocsin: Command, url: str, source: Source) -> None:
    backups = Backups(url)
    made = [source.put(backups, seq) for seq in (1, 2)]
    assert tocsin("backup", "verify", url).status == 0
    damage(backups, f"{A}/{made[0].file}", lambda raw: raw[:50] + bytes([raw[50] ^ 1]) + raw[51:])
    assert tocsin("backup", "verify", url, "--newest").status == 0
    done = tocsin("backup", "verify", url, "--json")
    assert done.status == 1
    assert [bool(each["problem"]) for each in done.json["items"]] == [False, True]


def verify_where_there_is_nothing_is_a_failure(tocsin: Command, tmp_path: Path) -> None:
    done = tocsin("backup", "verify", str(tmp_path / "none"))
    assert (done.status, done.out) == (1, "")
    assert "there is no backup" in done.err
    assert tocsin("backup", "list", str(tmp_path / "none")).status == 0


def the_place_may_stand_in_the_environment(
    weed: Weed, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os
    import subprocess
    import sys

    source.put(Backups(weed.url("shared/in-environment")), 4)
    environment = {
        **os.environ,
        "TOCSIN_BACKUP": "s3://shared/in-environment",
        "AWS_ENDPOINT_URL": weed.endpoint,
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
    }
    done = subprocess.run(
        [sys.executable, "-m", "tocsin", "backup", "list"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1].split()[0] == "4"


def a_damaged_one_is_passed_over_and_told(tocsin: Command, url: str, source: Source, tmp_path: Path) -> None:
    backups = Backups(url)
    good, bad = source.put(backups, 1), source.put(backups, 2)
    damage(
        backups,
        f"{A}/{bad.file}",
        lambda raw: hashlib.sha256(raw).digest() * (len(raw) // 32) + raw[: len(raw) % 32],
    )
    done = tocsin("restore", url, "--data", str(tmp_path / "data"), "--json")
    assert done.status == 0
    assert done.json["sequence"] == good.seq
    assert "passed over" in done.err


def one_can_be_chosen(tocsin: Command, source: Source, tmp_path: Path) -> None:
    place, data = str(tmp_path / "backups"), str(tmp_path / "data")
    for seq in (10, 20, 30):
        source.put(Backups(place), seq)
    assert tocsin("restore", place, "--data", data, "--seq", "10", "--json").json["sequence"] == 10
    by_time = tocsin("restore", place, "--data", data, "--at", "1970-01-01T00:00:25Z", "--json")
    assert by_time.json["sequence"] == 20
    assert [each.seq for each in snapshot.manifests(Path(data) / "restore")] == [20]
    both = tocsin("restore", place, "--data", data, "--seq", "10", "--at", "now")
    assert both.status == 1
    assert "--seq" in both.err
    none = tocsin("restore", place, "--data", data, "--seq", "11")
    assert none.status == 1
    assert "no such backup" in none.err


def a_backup_of_a_time_that_has_not_come_is_told(tocsin: Command, source: Source, tmp_path: Path) -> None:
    place = str(tmp_path / "place")
    source.put(Backups(place), 4)
    done = tocsin("restore", place, "--data", str(tmp_path / "past"))
    assert "has not come yet" not in done.err
    source.put(Backups(place), 4_102_444_800)  # its time is that of its number: the year 2100
    done = tocsin("restore", place, "--data", str(tmp_path / "data"))
    assert (done.status, "has not come yet" in done.err) == (0, True)


def a_directory_that_holds_something_is_left_alone(tocsin: Command, source: Source, tmp_path: Path) -> None:
    place, data = str(tmp_path / "backups"), tmp_path / "data"
    source.put(Backups(place), 1)
    data.mkdir()
    (data / "journal.db").write_text("precious")
    done = tocsin("restore", place, "--data", str(data))
    assert done.status == 1
    assert "is not empty: journal.db" in done.err
    assert (data / "journal.db").read_text() == "precious"
    assert not (data / "restore").exists()
    file = tocsin("restore", place, "--data", str(data / "journal.db"))
    assert (file.status, "not a directory" in file.err) == (1, True)


def a_directory_in_use_is_left_alone(tocsin: Command, source: Source, tmp_path: Path) -> None:
    place, data = str(tmp_path / "backups"), tmp_path / "data"
    source.put(Backups(place), 1)
    lock = DataLock(data / "office.lock")
    lock.take()
    done = tocsin("restore", place, "--data", str(data))
    lock.leave()
    assert done.status == 1
    assert "is using" in done.err
    assert not (data / "restore").exists()


@pytest.mark.parametrize("words", [("backup", "list"), ("backup", "verify"), ("restore",)])
def trouble_is_a_sentence(tocsin: Command, weed: Weed, words: tuple[str, ...], tmp_path: Path) -> None:
    more = ["--data", str(tmp_path / "data")] if words == ("restore",) else []
    for url, told in (
        (weed.url("no-such-bucket"), "no such bucket"),
        (weed.url("shared/x", secret="wrong-secret"), "does not let us in"),
        ("nothing://x/y", "not a kind of file system"),
    ):
        done = tocsin(*words, url, *more)
        assert done.status == 1
        assert told in done.err
        assert "Traceback" not in done.err
        assert "wrong-secret" not in done.err


def with_the_secret_only_what_the_cluster_wrote_is_restored(
    tocsin: Command, source: Source, tmp_path: Path
) -> None:
    place, file = str(tmp_path / "backups"), tmp_path / "cluster.secret"
    file.write_text("0123456789abcdef" * 4)
    file.chmod(0o600)
    owner = Owner(read_secrets(file).digest)
    made = source.put(Backups(place, owner=owner), 1)
    source.put(Backups(place), 2)
    words = ("restore", place, "--data", str(tmp_path / "data"))
    checked = tocsin(*words, "--cluster-secret", str(file), "--json")
    assert checked.json["sequence"] == made.seq
    assert "passed over" in checked.err
    assert "was not checked" not in checked.err
    unchecked = tocsin(*words, "--json")
    assert unchecked.json["sequence"] == 2
    assert "was not checked" in unchecked.err
    assert "--cluster-secret" in tocsin(*words, "--seq", "1").err
    missing = tocsin(*words, "--cluster-secret", str(tmp_path / "none"))
    assert missing.status == 1
    assert "cannot be read" in missing.err


def a_manifest_of_nonsense_is_passed_over(tocsin: Command, url: str, source: Source) -> None:
    backups = Backups(url)
    source.put(backups, 1)
    source.put(backups, 2)
    path = f"{A}/{manifest_name(2)}"
    damage(backups, path, lambda raw: raw.replace(b'"time_ms":2000', b'"time_ms":1000000000000000000'))
    done = tocsin("backup", "list", url)
    assert (done.status, len(done.out.splitlines())) == (0, 2)
    assert "passed over" in done.err
