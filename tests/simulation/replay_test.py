"""``tocsin sim --replay``: the data of a real service goes on in a world that is not real."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command, Serving
from tests.golden.folder import HERE, Golden
from tests.needs import lacking
from tests.ports import own_ports

from tocsin.errors import Diverged, StateDamaged, StateError, TocsinError, UnknownChange
from tocsin.model import change as c
from tocsin.simulation import original
from tocsin.simulation.plan import make_plan
from tocsin.simulation.replay import SETTLED_S, Start, load
from tocsin.simulation.run import Outcome, simulate
from tocsin.state.apply import dispatch

WAYS = ("stopped", "killed", "running")
"""How it was when it was copied."""


def _schedules(marks: Path) -> list[dict[str, Any]]:
    """Of several kinds. Busy ones come to an end, so that the simulation need not launch them for hours."""
    end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 150))
    often = {"cron": "*/3 * * * * *", "end": end}
    call, shell = (
        {"kind": "http", "url": "http://127.0.0.1:9/"},
        {"kind": "exec", "shell": f"echo >> '{marks}'"},
    )
    argv, long = {"kind": "exec", "argv": ["false"]}, {"kind": "exec", "shell": "sleep 60"}
    pay, host = {"kind": "http", "url": "https://pay.example/"}, {"kind": "http", "url": "http://a/x"}
    once_more = {"retry": {"limit": 1, "backoff": "1s"}}
    return [
        {"id": "null", **often, "target": {"kind": "null"}},
        {"id": "call", **often, "target": call, **once_more},
        {"id": "again", **often, "target": {**call, "idempotent": True}, "overlap": "queue"},
        {"id": "shell", **often, "target": shell},
        {"id": "argv", **often, "target": argv, **once_more},
        {"id": "long", **often, "cron": "@every 2s", "target": long, "overlap": "forbid"},
        {"id": "night", "cron": "30 2 * * *", "timezone": "Europe/Berlin", "target": pay},
        {"id": "minute", "cron": "* * * * *", "target": host, "jitter": "5s"},
        {"id": "paused", **often, "target": {"kind": "null"}},
    ]


def _until(look: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not look():
        assert time.monotonic() < deadline, "it did not happen in time"


def _launches(tocsin: Command, state: str) -> set[str]:
    return {
        each["schedule"] for each in tocsin("launches", "--state", state, "--json", "-n", "0").json["items"]
    }


def _is_trimmed(data: Path) -> bool:
    with contextlib.closing(sqlite3.connect(f"file:{data}/journal.db?mode=ro", uri=True)) as db:
        return bool(db.execute("SELECT trimmed FROM birth").fetchone()[0])


def _copied(data: Path, to: Path) -> Path:
    """Snapshots before the journal: a service that runs meanwhile makes new ones, and removes the oldest."""
    to.mkdir()
    for path in sorted(data.iterdir(), key=lambda path: path.name != "snapshots"):
        if path.is_dir():
            with contextlib.suppress(shutil.Error):
                shutil.copytree(path, to / path.name, symlinks=True)
        else:
            shutil.copy(path, to)
    return to


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A real service that has launched and still runs something, copied while it ran, after kill -9, and stopped."""
    folder = tmp_path_factory.mktemp("replay")
    data = folder / "data"
    words = ("--json", "--data", str(data), "--snapshot-interval", "1s")
    serving = Serving(*words)
    tocsin = Command(json.loads(serving.greeting)["url"])
    text = "\n".join(json.dumps(each) for each in _schedules(folder / "marks"))
    assert tocsin("import", "-", stdin=text).status == 0
    assert tocsin("pause", "paused").status == 0
    _until(
        lambda: _launches(tocsin, "succeeded") >= {"null", "shell"} and "long" in _launches(tocsin, "running")
    )
    _until(lambda: "argv" in _launches(tocsin, "failed") and _is_trimmed(data))
    found = {"running": _copied(data, folder / "running")}
    serving.process.kill()
    serving.process.communicate()
    found["killed"] = _copied(data, folder / "killed")
    serving = Serving(*words)
    assert serving.stop()[0] == 0
    found["stopped"] = _copied(data, folder / "stopped")
    return found


LAST = Golden(HERE / "v1" / "first").expected.seq


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    """A whole journal, with a snapshot of the middle."""
    return Golden(HERE / "v1" / "first").unpack(tmp_path / "golden")


def _sums(data: Path) -> dict[str, str]:
    files = (path for path in data.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _went_on(data: Path, start: Start, seed: int = 1) -> Outcome:
    plan = make_plan(seed, 0.3, replay=str(data), epoch_s=start.time_ms // 1000 + SETTLED_S)
    return simulate(plan.upto(0.08))


@pytest.mark.parametrize("way", WAYS)
def a_copy_goes_on_under_faults_and_stays_as_it_is(way: str, copies: dict[str, Path]) -> None:
    data = copies[way]
    before = _sums(data)
    start = load(data)
    assert "rebuilt from snapshot" in str(start)
    assert "its state file" in str(start).partition(": the same as ")[2]
    outcome = _went_on(data, start)
    assert [str(verdict.finding.text) for verdict in outcome.verdicts] == []
    assert outcome.history.faults
    assert {call.schedule for call in outcome.history.calls} >= {"null", "call", "again", "shell", "argv"}
    assert not [call for call in outcome.history.calls if call.schedule == "paused"]
    assert _sums(data) == before


def real_targets_are_simulated(copies: dict[str, Path]) -> None:
    data = copies["stopped"]
    marks = data.with_name("marks").read_bytes()
    calls = _went_on(data, load(data), 2).history.calls
    found = {call.schedule: call.receiver for call in calls}
    wanted = {"call": "plain", "again": "idempotent", "shell": "workshop", "argv": "workshop", "null": "herd"}
    assert found | wanted == found
    assert data.with_name("marks").read_bytes() == marks, "no command was carried out"
    assert {call.place for call in calls if call.schedule == "minute"} <= {"plain a"}, (
        "a host, not the machine a"
    )


def what_was_before_is_not_judged(copies: dict[str, Path]) -> None:
    data = copies["killed"]
    start = load(data)
    with sqlite3.connect(start.state) as db:
        (still_open,) = db.execute("SELECT count(*) FROM launch WHERE ended_ms IS NULL").fetchone()
    db.close()
    assert still_open
    final = _went_on(data, start, 3).history.final()
    assert final is not None
    assert final.launches
    assert not {row.name for row in final.launches} & start.launches
    assert min(row.since_ms for row in final.versions) > start.time_ms


@pytest.mark.parametrize("name", ["first", "restored"])
def what_an_earlier_version_has_written_goes_on(name: str, tmp_path: Path) -> None:
    data = Golden(HERE / "v1" / name).unpack(tmp_path / "data")
    start = load(data)
    assert str(start).endswith(": the same as snapshot 40, its state file")
    assert _went_on(data, start).is_well


def a_version_that_applies_entries_differently_is_refused(
    golden: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(context: Any, change: Any) -> None:
        return None

    monkeypatch.setitem(dispatch._HANDLERS, c.LaunchesSucceeded, nothing)
    with pytest.raises(
        StateDamaged, match="this version builds another state from the same journal"
    ) as refused:
        load(golden)
    assert "do not run this version on that data: it applies entries differently" in str(refused.value)


def _write(golden: Path, statement: str, *values: object) -> None:
    with sqlite3.connect(golden / "journal.db") as db:
        db.execute(statement, values)
    db.close()


def _of_a_newer_form(golden: Path) -> None:
    _write(golden, "UPDATE entry SET raw = CAST(x'09' || substr(raw, 2) AS BLOB) WHERE seq = 50")


def _with_a_damaged_entry(golden: Path) -> None:
    _write(golden, "UPDATE entry SET raw = CAST(substr(raw, 1, 20) AS BLOB) WHERE seq = 50")


def _without_an_entry(golden: Path) -> None:
    _write(golden, "DELETE FROM entry WHERE seq = 50")


def _of_another_journal(golden: Path) -> None:
    _write(golden, "UPDATE birth SET incarnation = 'another'")


def _that_is_none(golden: Path) -> None:
    (golden / "journal.db").write_text("hello")


def _without_its_snapshot(golden: Path) -> None:
    _write(golden, "DELETE FROM entry WHERE seq <= 20")
    _write(golden, "UPDATE birth SET trimmed = 20")
    (path,) = golden.glob("snapshots/*.db")
    path.write_bytes(path.read_bytes()[:5000])


def _never_begun(golden: Path) -> None:
    shutil.rmtree(golden)
    golden.mkdir()
    (golden / "journal.db").touch()


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (_of_a_newer_form, "journal entry 50 has the unknown form 9 (was it written by a newer version?)"),
        (_with_a_damaged_entry, "journal entry 50 is damaged: its checksum does not match"),
        (_without_an_entry, "journal entry 50 is missing"),
        (_of_another_journal, "they were mixed up"),
        (_that_is_none, "journal.db is damaged: file is not a database"),
        (_without_its_snapshot, "begins at entry 21, and no whole snapshot that it follows is there"),
        (_never_begun, "was never begun"),
    ],
)
def a_bad_journal_is_named(harm: Callable[[Path], None], told: str, golden: Path) -> None:
    harm(golden)
    with pytest.raises(TocsinError) as refused:
        load(golden)
    assert told in str(refused.value)
    assert str(golden) in str(refused.value)
    assert "/tocsin-" not in str(refused.value), "the copies are nobody's business"


def a_change_that_is_not_known_is_refused(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(dispatch._HANDLERS, c.BackfillRequested)
    with pytest.raises(UnknownChange, match="does not know the change BackfillRequested"):
        load(golden)


def a_damaged_state_is_told_and_not_needed(golden: Path) -> None:
    (golden / "state.db").write_bytes(b"not a state")
    told: list[str] = []
    assert str(load(golden, told.append)).endswith(f"{LAST} entries: the same as snapshot 40")
    assert told == [f"not compared: the state file {golden}/state.db cannot be read: file is not a database"]


def a_damaged_state_alone_is_refused(golden: Path) -> None:
    (golden / "journal.db").unlink()
    shutil.rmtree(golden / "snapshots")
    (golden / "state.db").write_bytes(b"not a state")
    with pytest.raises(StateError, match=r"state\.db cannot be read"):
        load(golden)


def a_state_that_has_diverged_is_refused(golden: Path) -> None:
    (golden / "state.db.has-diverged").write_text("it differs")
    with pytest.raises(Diverged, match="it differs"):
        load(golden)


@pytest.mark.parametrize("kept", ["state.db", "snapshots"])
def without_a_journal_the_state_will_do(kept: str, golden: Path, tmp_path: Path) -> None:
    (tmp_path / "some").mkdir()
    shutil.move(golden / kept, tmp_path / "some" / kept)
    start = load(tmp_path / "some")
    assert start.rebuilt_from == {"state.db": "from its state file", "snapshots": "from snapshot 40"}[kept]
    assert _went_on(tmp_path / "some", start).is_well


def whoever_waits_is_told_how_far_it_is(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(original, "TELL_EVERY_S", 0.0)
    told: list[str] = []
    load(golden, told.append)
    assert {f"40 of {LAST} entries read ...", f"40 of {LAST} entries applied ..."} <= set(told)


@pytest.fixture(scope="module")
def replica(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of a replica that runs an etcd of its own."""
    if shutil.which("etcd") is None:
        lacking("etcd (apt-get install etcd-server)")
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "secret").write_text("a secret of more than 32 bytes, for one replica")
    (folder / "secret").chmod(0o600)
    first = own_ports(3)[0]
    serving = Serving(
        *("--json", "--data", str(folder / "a"), "--name", "a", "--snapshot-interval", "1s"),
        *("--cluster", f"a=127.0.0.1:{first}", "--cluster-secret", str(folder / "secret")),
    )
    tocsin = Command(json.loads(serving.greeting)["url"])
    text = "\n".join(json.dumps(each) for each in _schedules(folder / "marks"))
    _until(lambda: tocsin("import", "-", stdin=text).status == 0)
    _until(
        lambda: "shell" in _launches(tocsin, "succeeded") and len([*folder.glob("a/snapshots/*.json")]) > 1
    )
    assert serving.stop()[0] == 0
    return folder / "a"


def the_journal_of_a_replica_is_read_from_a_copy_of_its_etcd(replica: Path) -> None:
    before = _sums(replica)
    told: list[str] = []
    start = load(replica, told.append)
    assert told == [f"reading the journal from a copy of {replica}/member/etcd ..."]
    assert ": the same as " in str(start)
    assert "its state file" in str(start)
    outcome = _went_on(replica, start)
    assert [str(verdict.finding.text) for verdict in outcome.verdicts] == []
    assert _sums(replica) == before


@pytest.fixture
def another(replica: Path, tmp_path: Path) -> Path:
    return _copied(replica, tmp_path / "another")


def without_an_etcd_a_replica_goes_on_from_its_state(another: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    told: list[str] = []
    assert load(another, told.append).rebuilt_from == "from its state file"
    assert "cannot be read, going on from the state alone: there is no program 'etcd'" in told[-1]


def with_a_damaged_etcd_a_replica_goes_on_from_its_state(another: Path) -> None:
    for log in another.glob("member/etcd/member/wal/*.wal"):
        log.write_bytes(b"not a log" * 100)
    told: list[str] = []
    assert load(another, told.append).rebuilt_from == "from its state file"
    assert "cannot be read, going on from the state alone: etcd ended at once: " in told[-1]


def on_an_etcd_elsewhere_a_replica_goes_on_from_its_state(another: Path) -> None:
    shutil.rmtree(another / "member" / "etcd")
    told: list[str] = []
    assert load(another, told.append).rebuilt_from == "from its state file"
    assert told == [f"there is no journal in {another}: going on from its state alone"]
