"""The real service, and a wall clock that is stepped under it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.api.conftest import Service
from tests.cluster.clockshift import ClockShift
from tests.cluster.waiting import until

DAY_S = 86_400
AHEAD_S = 40 * DAY_S


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClockShift:
    shift = ClockShift(tmp_path)
    shift.step(0)
    for name, value in shift.environment.items():
        monkeypatch.setenv(name, value)
    return shift


def _launches(service: Service) -> list[int]:
    items = service.ask("GET", "/v1/launches?limit=1000").json["items"]
    return sorted(int(item["name"].rpartition("-")[2]) for item in items)


def _until_more(service: Service, count: int) -> list[int]:
    before = len(_launches(service))
    until(lambda: len(_launches(service)) >= before + count, "more launches", every_s=0.1)
    return _launches(service)


def _until_ready(service: Service, status: int) -> Any:
    until(lambda: service.ask("GET", "/readyz").status == status, f"readiness {status}", every_s=0.05)
    return service.ask("GET", "/v1/status").json["issues"]


def three_seconds_forty_days_ahead_launch_nothing_and_lose_nothing(
    start: Callable[..., Service], tmp_path: Path, clock: ClockShift
) -> None:
    service = start(tmp_path / "data", "--history-age", "1d")
    service.create("s", cron="* * * * * *")
    daily = service.create("daily", cron="0 3 * * *")
    before = _until_more(service, 2)
    clock.step(AHEAD_S)
    issues = _until_ready(service, 503)
    assert any("tocsin clock confirm" in issue for issue in issues)
    assert not service.ask("GET", "/v1/clock").json["is_believed"]
    stopped_s = time.monotonic()
    until(lambda: time.monotonic() - stopped_s >= 3, "three seconds", every_s=0.5)
    clock.step(0)
    assert _until_ready(service, 200) == []
    after = _until_more(service, 4)
    assert after == list(range(before[0], after[-1] + 1))
    assert service.ask("GET", "/v1/schedules/daily").json["next"] == daily["next"]


def a_restart_with_a_wrong_clock_waits_and_goes_on_by_itself(
    start: Callable[..., Service], tmp_path: Path, clock: ClockShift
) -> None:
    service = start(tmp_path / "data")
    service.create("s", cron="* * * * * *")
    _until_more(service, 1)
    assert service.stop() == 0
    clock.step(AHEAD_S)
    again = start(tmp_path / "data")
    _until_ready(again, 503)
    assert max(_launches(again)) < time.time() + 60
    clock.step(0)
    _until_more(again, 2)
    assert max(_launches(again)) < time.time() + 60


def a_clock_confirmed_by_mistake_is_put_right(
    start: Callable[..., Service], tmp_path: Path, clock: ClockShift
) -> None:
    service = start(tmp_path / "data")
    service.create("s", cron="* * * * * *")
    _until_more(service, 1)
    for ahead_s in (AHEAD_S, 0):
        clock.step(ahead_s)
        _until_ready(service, 503)
        shows = service.ask("GET", "/v1/clock").json["shows"]
        assert service.ask("POST", "/v1/clock:confirm", {"now": shows}).status == 200
        if ahead_s:
            _until_more(service, 2)
    issues = _until_ready(service, 200)
    assert any("tocsin repair due" in issue for issue in issues)
    assert service.ask("POST", "/v1/due:repair", {"preview": True}).json["repaired"] == 1
    assert service.ask("POST", "/v1/due:repair", {}).json["repaired"] == 1
    _until_more(service, 3)
    assert service.ask("POST", "/v1/due:repair", {}).json["repaired"] == 0
    assert not any("tocsin repair due" in issue for issue in _until_ready(service, 200))
    acts = [item["act"] for item in service.ask("GET", "/v1/history").json["items"]]
    assert acts.count("clock confirmed") == 2
    assert "due repaired" in acts
