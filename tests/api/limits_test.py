"""``GET /v1/limits``, the answer of ``why`` and the metrics while launches wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.api.conftest import Service

# One a day: what waits in these tests goes on waiting.
LIMITS = """
- label: team=payroll
  rate: 1/d
  burst: 2
- label: team
  concurrency: 50
"""
Wait = Callable[..., Any]


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("limited")
    (folder / "limits.yaml").write_text(LIMITS)
    running = Service(folder / "data", "--tokens", "always", "--limits", str(folder / "limits.yaml"))
    running.token = (running.data / "admin.token").read_text().strip()
    due_s = int(time.time()) + 1
    for number in range(5):
        running.create(f"pay/{number}", cron=f"@at {due_s}", labels={"team": "payroll"})
    yield running
    assert running.stop() == 0
    assert "Traceback" not in running.log.read_text()


def _waiting(service: Service) -> int:
    found: int = service.ask("GET", "/v1/limits").json["items"][0]["waiting"]
    return found


def each_limit_tells_how_it_stands(limited: Service, wait: Wait) -> None:
    wait(lambda: _waiting(limited) == 3)
    answer = limited.ask("GET", "/v1/limits")
    assert answer.status == 200
    assert answer.json["leader"]
    payroll, team = answer.json["items"]
    assert (payroll["limit"], payroll["rate"], payroll["burst"]) == ("team=payroll", "1/d", 2)
    assert payroll["concurrency"] is None
    assert payroll["values"] == []
    assert (team["limit"], team["rate"], team["concurrency"]) == ("team", "", 50)
    assert team["waiting"] == 0


def why_names_the_limit_that_is_waited_for(limited: Service, wait: Wait) -> None:
    wait(lambda: _waiting(limited) == 3)
    told = limited.ask("GET", "/v1/schedules/pay/4:why").json
    assert told["answer"].endswith("It waits: the limit team=payroll 1/d is reached.")
    assert told["launches"] == []
    assert "waits" not in limited.ask("GET", "/v1/schedules/pay/0:why").json["answer"]


def the_metrics_count_who_waits(limited: Service, wait: Wait) -> None:
    wait(lambda: _waiting(limited) == 3)
    text = limited.ask("GET", "/metrics").body.decode()
    assert 'tocsin_limited{limit="team=payroll"} 3.0' in text
    assert 'tocsin_limit_waits_total{limit="team=payroll"} 3.0' in text
    assert 'tocsin_limited{limit="team"} 0.0' in text


def values_of_labels_are_shown_to_who_sees_all(limited: Service, wait: Wait) -> None:
    wait(lambda: _waiting(limited) == 3)
    made = limited.ask("POST", "/v1/tokens", {"name": "few", "scopes": ["read"], "prefixes": ["other/"]})
    assert made.status == 201, made
    answer = limited.as_(made.json["token"]).ask("GET", "/v1/limits")
    assert answer.status == 200
    assert [item["values"] for item in answer.json["items"]] == [[], []]
    assert limited.as_("").ask("GET", "/v1/limits").status == 401


def a_launch_by_hand_does_not_wait(limited: Service, wait: Wait) -> None:
    wait(lambda: _waiting(limited) == 3)
    answer = limited.ask("POST", "/v1/schedules/pay/4:run")
    assert answer.status in (201, 202), answer
    name = answer.json["name"]
    wait(lambda: limited.ask("GET", f"/v1/launches/{name}").json["state"] == "succeeded")


def a_service_without_limits_has_none(service: Service) -> None:
    assert service.ask("GET", "/v1/limits").json["items"] == []


def a_file_with_a_mistake_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "limits.yaml").write_text("- label: team\n  rate: quick\n")
    with pytest.raises(
        AssertionError, match=r"limits.yaml, line 2: 'quick' is not a rate.*allowed.*a number of launches"
    ):
        Service(tmp_path / "data", "--limits", str(tmp_path / "limits.yaml"))


def a_backfill_that_waits_for_a_limit_is_counted_and_explained(limited: Service, wait: Wait) -> None:
    wait(lambda: _waiting(limited) == 3)
    limited.create("pay/hourly", cron="0 * * * *", labels={"team": "payroll"})
    since = str(int(time.time()) - 3_600)
    assert limited.ask("POST", "/v1/schedules/pay/hourly:backfill", {"from": since}).status == 200
    wait(lambda: _waiting(limited) == 4)
    told = limited.ask("GET", "/v1/schedules/pay/hourly:why").json
    assert told["answer"].endswith("It waits: the limit team=payroll 1/d is reached.")
    assert [launch["state"] for launch in told["launches"]] == ["queued"]


def a_token_with_a_prefix_gets_metrics_without_words_of_others(limited: Service) -> None:
    wanted = {"name": "press", "scopes": ["read"], "prefixes": ["press/"]}
    token = limited.ask("POST", "/v1/tokens", wanted).json["token"]
    assert b"payroll" in limited.ask("GET", "/metrics", raw=True).body
    answer = limited.as_(token).ask("GET", "/metrics", raw=True)
    assert b'tocsin_limited{limit="other"}' in answer.body
    assert b"payroll" not in answer.body
