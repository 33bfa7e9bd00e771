"""The audit beside the leader: what it counts, and what it finds. On real replicas."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.replica.lone import LeapClock, in_town, launched, put, run
from tests.replica.several import HTTP, Town

from tocsin.api.resources import health, status
from tocsin.api.service import Service
from tocsin.config import Settings
from tocsin.errors import InvalidInput
from tocsin.journal import codec
from tocsin.model import change as c
from tocsin.model.audit import AuditCounts
from tocsin.model.entry import Entry
from tocsin.observe import audit
from tocsin.observe.metrics import Metrics
from tocsin.replica import auditor
from tocsin.replica.replica import Replica

LATER_S = auditor.MARGIN_S + 10


def _value(replica: Replica, name: str, **labels: str) -> float:
    return replica.metrics.registry.get_sample_value(f"tocsin_audit_{name}_total", labels) or 0.0


async def _round(replica: Replica, clock: LeapClock) -> None:
    """So much later that what was launched so far is judged. The leader notices that it was away, meanwhile."""
    clock.ahead_s += LATER_S
    await replica.parts.auditor.once()


def what_the_leader_launched_is_counted_once_and_by_its_labels(tmp_path: Path) -> None:
    async def work(replica: Replica, clock: LeapClock) -> None:
        await replica.propose(put("a", labels={"team": "x"}))
        await replica.propose(put("b", labels={"team": "y", "tier": "1"}))
        await replica.propose(put("c", cron="@daily"))
        await launched(replica, 6)
        await _round(replica, clock)
        counted = {team: _value(replica, "expected", label_team=team) for team in ("x", "y", "")}
        assert counted["x"] >= 3
        assert counted["y"] >= 3
        assert counted[""] == 0
        assert _value(replica, "started", label_team="x") >= 3
        assert replica.parts.auditor.note == ""
        before = _value(replica, "schedules")
        assert before == 3
        await _round(replica, clock)
        found = await replica.read(_recorded)
        await _round(replica, clock)
        whole = sum(_value(replica, "expected", label_team=team) for team in ("x", "y"))
        assert whole >= found, "nothing is left out between two rounds"

    run(tmp_path, work, audit_labels="team")


def _recorded(db: sqlite3.Connection) -> int:
    """Occurrences that were decided so far, in launches and in stretches that were given up."""
    (launches,) = db.execute("SELECT count(*) FROM launch").fetchone()
    (given_up,) = db.execute("SELECT coalesce(sum(before_s - from_s), 0) FROM missed").fetchone()
    return int(launches + given_up)


def a_launch_that_is_gone_from_the_record_is_told_of_by_all_means(tmp_path: Path) -> None:
    async def work(replica: Replica, clock: LeapClock) -> None:
        await replica.propose(put(cron="*/2 * * * * *"))
        await launched(replica, 2)

        def taken_out() -> int:
            db = replica._store.db
            ((instant_s,),) = db.execute("SELECT min(instant_s) FROM launch").fetchall()
            db.execute("DELETE FROM launch WHERE instant_s = ?", (instant_s,))
            return int(instant_s)

        await replica._on_state(taken_out)
        with capture_logs() as lines:
            await _round(replica, clock)
        (told,) = [line for line in lines if line["event"] == "the audit found what must not be"]
        assert (told["kind"], told["schedule"], told["log_level"]) == ("unaccounted", "s", "error")
        assert _value(replica, "unaccounted") == 1
        assert _value(replica, "doubled") == 0
        service = Service(replica, Settings(data=tmp_path))
        note = "the audit found 0 doubled and 1 unaccounted occurrences: 'tocsin audit' names them"
        assert (await status.ready.fn(service)).content == f"ready\n{note}"
        assert any("1 unaccounted" in issue for issue in health.issues(service, await health.look(service)))

    run(tmp_path, work)


def a_second_start_in_the_journal_is_counted(tmp_path: Path) -> None:
    """The state cannot hold it, and whoever applied it would stop: so it is put where an entry was applied already."""

    async def work(replica: Replica, clock: LeapClock) -> None:
        await replica.propose(put())
        await launched(replica, 2)
        entries = await replica.entries(0, 100)
        started = [
            (seq, change)
            for seq, entry in entries
            for change in entry.changes
            if isinstance(change, c.LaunchesStarted)
        ]
        (_, first), (seq, _) = started[:2]
        _, entry = entries[seq - 1]
        tampered = Entry(entry.id, entry.prev, entry.term, entry.time_ms, [*entry.changes, first])
        db = sqlite3.connect(tmp_path / "journal.db")
        with db:
            db.execute("UPDATE entry SET raw = ? WHERE seq = ?", (codec.encode(tampered), seq))
        db.close()
        await replica.parts.auditor.once()
        assert _value(replica, "doubled") == 1
        assert "1 doubled" in replica.parts.auditor.note

    run(tmp_path, work)


def a_round_that_was_held_up_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judge_next, turns = auditor.audits.judge_next, iter(range(100))

    def sometimes(*given: Any) -> Any:
        if next(turns) == 1:
            raise sqlite3.OperationalError("the disk had a moment")
        return judge_next(*given)

    async def work(replica: Replica, clock: LeapClock) -> None:
        for id in ("a", "b", "c"):
            await replica.propose(put(id))
        await launched(replica, 6)
        monkeypatch.setattr(auditor, "SCHEDULES_AT_ONCE", 1)
        monkeypatch.setattr(auditor.audits, "judge_next", sometimes)
        await _round(replica, clock)
        assert _value(replica, "schedules") == 1
        await replica.parts.auditor.once()
        assert _value(replica, "schedules") == 3

    run(tmp_path, work)


def an_audit_that_fails_does_not_end_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    async def work(replica: Replica, clock: LeapClock) -> None:
        await replica.propose(put())
        monkeypatch.setattr(auditor.audits, "judge_next", broken)
        with capture_logs() as lines:
            await _round(replica, clock)
        assert [line["event"] for line in lines if line["log_level"] == "error"] == [
            "the audit could not go on"
        ]
        await launched(replica, 2)

    run(tmp_path, work)


async def _only_who_leads_counts(town: Town) -> None:
    first, second = await town.start("a"), await town.start("b")
    leads = await town.leader()
    follows = second if leads is first else first
    await leads.propose(put(target=HTTP))
    for replica in (leads, follows):
        await replica.parts.auditor.once()
    assert _value(leads, "entries") > 0
    assert _value(follows, "entries") == 0


def only_who_leads_counts(tmp_path: Path) -> None:
    in_town(tmp_path, _only_who_leads_counts)


def values_of_labels_are_bounded_and_nothing_is_left_out() -> None:
    metrics = Metrics(["team", "a/b"])
    for number in range(audit.SERIES_MAX + 100):
        values = metrics.audit.breakdown.of({"team": f"t{number % 60}", "a/b": str(number)})
        metrics.audit.count(values, AuditCounts(expected=1, skipped={"missed": 2}))
    families = {family.name: family for family in metrics.registry.collect()}
    samples = [each for each in families["tocsin_audit_expected"].samples if each.name.endswith("_total")]
    assert sum(each.value for each in samples) == audit.SERIES_MAX + 100
    assert len({each.labels["label_team"] for each in samples}) <= audit.VALUES_MAX + 2
    assert len(samples) <= audit.SERIES_MAX + 1
    assert max(each.value for each in samples if each.labels["label_a_b"] == audit.OTHER) > 1


@pytest.mark.parametrize("given", ["team,team", "a.b,a-b", "a,b,c,d,e", "-x", "team tier"])
def labels_that_metrics_cannot_have_are_refused(given: str) -> None:
    with pytest.raises(InvalidInput, match="audit_labels"):
        Settings(audit_labels=given).check()
