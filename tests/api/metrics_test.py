"""What the numbers say is what happened, and they stay few."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.parser import text_string_to_metric_families
from tests.api.conftest import Service

from tocsin.clock import SystemClock
from tocsin.config import Settings
from tocsin.model.audit import AuditCounts
from tocsin.model.command import PutSchedule
from tocsin.model.schedule import convert
from tocsin.node import compose
from tocsin.observe.histogram import LatenessHistogram
from tocsin.observe.metrics import OTHER, ROUTES, Metrics, route_of

BOUNDS_MS = (5, 100, 1000, 60_000)
SERIES_MAX = 400


def _samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


class Numbers:
    """One look at ``/metrics``."""

    def __init__(self, text: str) -> None:
        self._samples = _samples(text)

    def __call__(self, name: str, **labels: str) -> float:
        return self._samples[name, frozenset(labels.items())]

    def __len__(self) -> int:
        return len(self._samples)


def _numbers(service: Service) -> Numbers:
    return Numbers(service.ask("GET", "/metrics").body.decode())


@given(
    st.lists(
        st.lists(st.integers(min_value=-100_000, max_value=2_000), max_size=30).map(
            lambda ages: [1_700_000_000_000 + age for age in ages]
        ),
        max_size=5,
    )
)
def a_column_counts_like_its_rows_one_by_one(columns: list[list[int]]) -> None:
    whole, single = CollectorRegistry(), CollectorRegistry()
    now_ms = 1_700_000_000_000
    mine = LatenessHistogram("late_seconds", "Late", BOUNDS_MS, whole)
    theirs = Histogram("late_seconds", "Late", buckets=[bound / 1000 for bound in BOUNDS_MS], registry=single)
    for column in columns:
        mine.observe(column, now_ms)
        for planned_ms in column:
            theirs.observe(max(0, now_ms - planned_ms) / 1000)
    (found,), (expected,) = whole.collect(), single.collect()
    values = {(s.name, s.labels.get("le")): s.value for s in found.samples}
    assert values == {
        (s.name, s.labels.get("le")): pytest.approx(s.value)
        for s in expected.samples
        if not s.name.endswith("_created")
    }


def every_launch_of_a_herd_is_counted(tmp_path: Path) -> None:
    count = 1200

    async def whole() -> bytes:
        replica = compose(Settings(data=tmp_path, name="one")).replica
        await replica.start()
        clock, never = SystemClock(), asyncio.Event()
        due = f"@at {clock.wall_ms() // 1000 + 2}"
        target = {"kind": "null"}
        puts = [PutSchedule(convert({"id": f"h/{n}", "cron": due, "target": target})) for n in range(count)]
        await asyncio.gather(*map(replica.propose, puts))

        def ended(db: sqlite3.Connection) -> int:
            return int(db.execute("SELECT count(*) FROM launch WHERE state = 10").fetchone()[0])

        while await replica.read(ended) < count:
            await clock.wait(never, 0.05)
        await replica.stop()
        return replica.metrics.text()

    numbers = Numbers(asyncio.run(asyncio.wait_for(whole(), 60)).decode())
    assert numbers("tocsin_lateness_seconds_count") == count
    assert numbers("tocsin_lateness_seconds_bucket", le="+Inf") == count
    assert numbers("tocsin_launches_total", target="null", outcome="succeeded") == count


def the_state_of_the_moment_is_told(service: Service) -> None:
    service.create("moment/one")
    service.create("moment/paused", enabled=False)
    status, numbers = service.ask("GET", "/v1/status").json, _numbers(service)
    assert numbers("tocsin_schedules") == status["schedules"]
    assert numbers("tocsin_schedules_enabled") == status["enabled"] < status["schedules"]
    assert numbers("tocsin_leader") == 1
    assert numbers("tocsin_problem") == 0
    assert 0 <= numbers("tocsin_journal_age_seconds") < 70
    assert numbers("tocsin_journal_entries_since_snapshot") == numbers("tocsin_journal_sequence")
    assert numbers("tocsin_snapshot_interval_seconds") == 300
    assert 0 < numbers("tocsin_disk_free_bytes") <= numbers("tocsin_disk_size_bytes")
    build = next(
        line for line in service.ask("GET", "/metrics").body.decode().splitlines() if "build_info{" in line
    )
    assert f'version="{status["version"]}"' in build
    assert 'python="3.' in build


def launches_are_counted_by_target_and_outcome(service: Service, wait: Any) -> None:
    before = _numbers(service)
    service.create(
        "count/failing", target={"kind": "exec", "shell": "exit 3"}, retry={"limit": 1, "backoff": "1s"}
    )
    service.create("count/fine")
    service.create("count/long", target={"kind": "exec", "shell": "sleep 600"}, overlap="forbid")
    for id in ("failing", "fine"):
        assert service.ask("POST", f"/v1/schedules/count/{id}:run").status < 300
    launched = service.ask("POST", "/v1/schedules/count/long:run").json
    wait(lambda: _numbers(service)("tocsin_open_launches", state="running") >= 1)
    assert service.ask("POST", f"/v1/launches/{launched['name']}:cancel").status < 300

    def grown(outcome: str, target: str) -> float:
        labels = {"target": target, "outcome": outcome}
        return _numbers(service)("tocsin_launches_total", **labels) - before(
            "tocsin_launches_total", **labels
        )

    wait(lambda: grown("failed", "exec") == 1)
    wait(lambda: grown("cancelled", "exec") == 1)
    assert grown("succeeded", "null") == 1
    assert (
        _numbers(service)("tocsin_retries_total", target="exec")
        == before("tocsin_retries_total", target="exec") + 1
    )
    assert _numbers(service)("tocsin_last_day_launches", outcome="failed") >= 1


def an_occurrence_that_is_skipped_counts_with_its_reason(service: Service, wait: Any) -> None:
    target = {"kind": "exec", "shell": "sleep 600"}
    service.create("skip/busy", cron="* * * * * *", target=target, overlap="forbid")
    wait(lambda: _numbers(service)("tocsin_skipped_total", reason="overlap") >= 1)
    assert service.ask("POST", "/v1/schedules/skip/busy:pause").status < 300
    open_now = service.ask("GET", "/v1/launches?schedule=skip/busy&state=running").json["items"]
    for launch in open_now:
        service.ask("POST", f"/v1/launches/{launch['name']}:cancel")
    wait(lambda: not service.ask("GET", "/v1/launches?schedule=skip/busy&state=running").json["items"])


def requests_are_counted_without_telling_what_was_asked_for(service: Service) -> None:
    before = _numbers(service)
    service.ask("GET", "/v1/schedules/very-own-id/nobody-has-it")
    service.ask("PROPFIND", "/never/heard-of")
    service.ask("GET", "/v1/never-heard-of")
    text = service.ask("GET", "/metrics").body.decode()
    after = Numbers(text)
    missing = {"method": "GET", "route": "schedules", "status": "4xx"}
    assert after("tocsin_requests_total", **missing) >= 1
    assert after("tocsin_requests_total", method="other", route="other", status="4xx") >= 1
    assert after("tocsin_request_seconds_count", route="schedules") >= 1
    assert "very-own-id" not in text
    assert "heard-of" not in text
    assert len(after) - len(before) < 40


def refused_requests_are_counted_by_reason(service: Service) -> None:
    before = _numbers(service)
    service.ask("GET", "/v1/status", headers={"host": "elsewhere.example"})
    service.ask("POST", "/v1/schedules", b"a=b", {"content-type": "text/plain"}, raw=True)
    after = _numbers(service)
    for reason in ("forbidden", "media_type"):
        name = "tocsin_refused_requests_total"
        assert after(name, reason=reason) == before(name, reason=reason) + 1


def labels_have_few_values_whatever_comes_in(service: Service) -> None:
    assert len(_numbers(service)) < SERIES_MAX
    metrics = Metrics()
    for number in range(1000):
        metrics.request(f"METHOD{number}", 200 + number % 400, 0.1, f"route{number}")
    assert len(_samples(metrics.text().decode())) < SERIES_MAX


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/v1/schedules", "schedules"),
        ("/v1/schedules/a/b:pause", "schedules"),
        ("/v1/schedules:import", "schedules"),
        ("/v1/launches/a-1700000000:output", "launches"),
        ("/v1/status", "status"),
        ("/healthz", "probes"),
        ("/metrics", "probes"),
        ("/metrics/of/something", "probes"),
        ("/", OTHER),
        ("/v1", OTHER),
        ("/v1/probes", OTHER),
        ("/v2/schedules", OTHER),
    ],
)
def an_address_is_of_a_known_kind(path: str, route: str) -> None:
    assert route_of(path) == route


def every_address_of_the_service_has_a_kind_of_its_own(service: Service) -> None:
    """A new family of addresses wants a line in ``observe.metrics``."""
    paths = service.ask("GET", "/openapi.json").json["paths"]
    assert {path for path in paths if path.startswith("/v1/") and route_of(path) == OTHER} == set()
    assert {route_of(path) for path in paths} <= set(ROUTES)


def a_state_that_was_rebuilt_is_told(start: Any, tmp_path: Path) -> None:
    data = tmp_path / "data"
    first = start(data)
    first.create("kept/one")
    assert _numbers(first)("tocsin_state_rebuilds_total", source="journal") == 0
    assert first.stop() == 0
    for suffix in ("-wal", "-shm"):
        (data / f"state.db{suffix}").unlink(missing_ok=True)
    (data / "state.db").write_bytes(b"this is no database, and long enough to be looked at" * 100)
    second = start(data)
    numbers = _numbers(second)
    assert numbers("tocsin_state_rebuilds_total", source="journal") == 1
    assert numbers("tocsin_absences_total") == 1
    assert numbers("tocsin_schedules") == 1
    assert second.stop() == 0


def a_damaged_snapshot_is_passed_over_and_told(tmp_path: Path) -> None:
    async def filled() -> None:
        replica = compose(Settings(data=tmp_path, name="one")).replica
        await replica.start()
        for number in range(3):
            await replica.propose(
                PutSchedule(convert({"id": f"s{number}", "cron": "@yearly", "target": {"kind": "null"}}))
            )
            await replica.snapshot_now()
            await replica.parts.rounds.once()
        assert replica.metrics.snapshots._value.get() == 3
        await replica.stop()

    async def again() -> bytes:
        replica = compose(Settings(data=tmp_path, name="one")).replica
        await replica.start()
        await replica.stop()
        return replica.metrics.text()

    asyncio.run(filled())
    (tmp_path / "state.db").unlink()
    newest = max((tmp_path / "snapshots").glob("state-*.db"))
    newest.write_bytes(b"\0" * newest.stat().st_size)
    numbers = Numbers(asyncio.run(again()).decode())
    assert numbers("tocsin_snapshots_damaged_total") == 1
    assert numbers("tocsin_state_rebuilds_total", source="snapshot") == 1


def whoever_may_not_see_all_schedules_is_not_shown_words_of_others() -> None:
    metrics = Metrics(["team"])
    for team, number in (("payroll", 3), ("press", 4)):
        values = metrics.audit.breakdown.of({"team": team})
        metrics.audit.count(values, AuditCounts(expected=number, started=number))
        metrics.limited.labels(f"label:team={team}").set(number)
    shown, hidden = metrics.text().decode(), metrics.text(with_words=False).decode()
    assert "payroll" in shown
    assert "payroll" not in hidden
    assert "press" not in hidden
    found = _samples(hidden)
    assert found["tocsin_audit_expected_total", frozenset({("label_team", "other")})] == 7
    assert found["tocsin_limited", frozenset({("limit", "other")})] == 7
    own = {
        key: value
        for key, value in _samples(shown).items()
        if not dict(key[1]).keys() & {"label_team", "limit"}
        and not key[0].startswith(("process_", "python_"))  # they change from one look to the next
    }
    assert own.items() <= found.items()
