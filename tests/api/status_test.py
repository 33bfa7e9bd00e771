"""How the service is doing: status, health, readiness, metrics, OpenAPI; its start and its end."""

from __future__ import annotations

import signal
import socket

import pytest
from prometheus_client.parser import text_string_to_metric_families


def the_status_tells_what_it_holds_and_that_all_is_well(service):
    service.create("status/one")
    found = service.ask("GET", "/v1/status").json
    assert found["leader"] == found["replica"]
    assert found["term"] == 1
    assert found["schedules"] >= 1
    assert found["sequence"] > 0
    assert len(found["digest"]) >= 32
    assert found["next_due"].endswith("Z")
    assert found["stalled"] == 0
    assert 0 <= found["lag_ms"] < 10_000
    assert [issue for issue in found["issues"] if "disk" not in issue] == [], (
        "the disk is this machine's own affair"
    )


def failed_launches_are_an_issue(service, wait):
    service.create("status/failing", target={"kind": "exec", "shell": "exit 3"})
    service.ask("POST", "/v1/schedules/status/failing:run")
    issues = wait(
        lambda: [text for text in service.ask("GET", "/v1/status").json["issues"] if "failed" in text]
    )
    assert "'tocsin launches --state failed'" in issues[0]


def a_working_service_is_alive_and_ready(service):
    assert service.ask("GET", "/healthz").body == b"ok"
    assert service.ask("GET", "/readyz").status == 200


def the_metrics_parse_and_follow_the_state(service):
    service.create("metrics/one")
    answer = service.ask("GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    families = {family.name: family for family in text_string_to_metric_families(answer.body.decode())}
    status = service.ask("GET", "/v1/status").json
    assert families["tocsin_schedules"].samples[0].value == status["schedules"]
    assert families["tocsin_problem"].samples[0].value == 0
    assert families["tocsin_journal_sequence"].samples[0].value > 0


def the_description_names_every_address_as_it_is_called(service):
    found = service.ask("GET", "/openapi.json").json
    assert found["info"]["title"] == "Tocsin"
    assert {
        "/v1/schedules",
        "/v1/schedules/{id}",
        "/v1/schedules/{id}:pause",
        "/v1/schedules/{id}:why",
        "/v1/launches/{name}:output",
        "/v1/status",
    } <= set(found["paths"])
    body = found["paths"]["/v1/schedules"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/Schedule"}
    assert "cron" in found["components"]["schemas"]["Schedule"]["properties"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def a_signal_ends_it_cleanly_and_it_goes_on_where_it_was(start, tmp_path, number):
    first = start(tmp_path / "data")
    first.create("kept/one")
    assert first.stop(number) == 0
    second = start(tmp_path / "data")
    assert second.ask("GET", "/v1/schedules/kept/one").json["version"] == 1
    assert second.ask("GET", "/v1/status").json["term"] == 2
    assert second.stop() == 0


def an_idle_connection_does_not_hold_up_the_end(start, tmp_path):
    running = start(tmp_path / "data")
    with socket.create_connection(("127.0.0.1", running.port)) as idle:
        idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert idle.recv(1024).startswith(b"HTTP/1.1 200")
        assert running.stop() == 0
