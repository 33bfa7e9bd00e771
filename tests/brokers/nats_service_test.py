"""A whole service that sends to a real NATS."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.api.conftest import Service, eventually
from tests.brokers.nats import NatsServer, arrived, make_stream, messages

EXAMPLE = Path(__file__).parents[2] / "examples" / "nats_consumer.py"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    running = NatsServer(tmp_path / "nats")
    yield running
    running.stop()


@pytest.fixture
def service(tmp_path: Path, server: NatsServer) -> Iterator[Service]:
    asyncio.run(make_stream(server.url, "events.>"))
    running = Service(tmp_path / "data", "--nats", server.url, "--nats-subjects", "events.*,reminders.*")
    yield running
    assert running.stop() == 0
    assert "Traceback" not in running.log.read_text()


def _run(service: Service, id: str) -> str:
    answer = service.ask("POST", f"/v1/schedules/{id}:run")
    assert answer.status in (200, 201, 202), answer
    return str(answer.json["name"])


def _in_state(service: Service, name: str, state: str, *, within_s: float = 20) -> Any:
    def look() -> Any:
        found = service.ask("GET", f"/v1/launches/{name}").json
        return found if found["state"] == state else None

    return eventually(look, within_s=within_s)


def an_event_arrives_and_its_launch_succeeds(server: NatsServer, service: Service) -> None:
    service.create("bill", target={"kind": "nats", "subject": "events.bill"}, payload={"company": 7})
    ended = _in_state(service, _run(service, "bill"), "succeeded")
    (message,) = asyncio.run(messages(server.url))
    assert message.headers["Nats-Msg-Id"] == ended["name"]
    assert message.headers["Tocsin-Schedule"] == "bill"
    assert b'"payload":{"company":7}' in message.data


def an_outage_is_retried_by_its_policy_until_the_event_arrives(server: NatsServer, service: Service) -> None:
    server.kill()
    retry = {"limit": 60, "backoff": "1s", "max_backoff": "1s"}
    service.create("bill", target={"kind": "nats", "subject": "events.bill"}, retry=retry)
    service.create("once", target={"kind": "nats", "subject": "events.once"})
    name, once = _run(service, "bill"), _run(service, "once")
    failed = _in_state(service, once, "failed")
    assert "not connected to nats" in failed["reason"]
    _in_state(service, name, "retrying")
    server.start()
    ended = _in_state(service, name, "succeeded")
    assert ended["attempt"] > 1
    assert asyncio.run(arrived(server.url)) == {name: 1}


def events_left_open_by_a_killed_service_are_repeated_and_arrive_once(
    tmp_path: Path, server: NatsServer
) -> None:
    asyncio.run(make_stream(server.url, "events.>"))
    data = tmp_path / "data"
    first = Service(data, "--nats", server.url)
    first.create("bill", target={"kind": "nats", "subject": "events.bill"})
    _in_state(first, _run(first, "bill"), "succeeded")
    server.send(signal.SIGSTOP)
    first.create("late", target={"kind": "nats", "subject": "events.late"})
    name = _run(first, "late")
    first.stop(signal.SIGKILL)
    server.send(signal.SIGCONT)
    second = Service(data, "--nats", server.url)
    try:
        ended = _in_state(second, name, "succeeded")
        assert asyncio.run(arrived(server.url))[ended["name"]] == 1
    finally:
        second.stop()


def an_event_left_open_by_a_power_cut_is_not_repeated(tmp_path: Path, server: NatsServer) -> None:
    """Nobody has counted the time in which the machine was off: the stream may have forgotten the name."""
    asyncio.run(make_stream(server.url, "events.>"))
    data = tmp_path / "data"
    first = Service(data, "--nats", server.url)
    first.create("bill", target={"kind": "nats", "subject": "events.bill"})
    server.send(signal.SIGSTOP)
    name = _run(first, "bill")
    first.stop(signal.SIGKILL)
    server.send(signal.SIGCONT)
    kept = json.loads((data / "clock.json").read_bytes())
    (data / "clock.json").write_text(json.dumps({**kept, "boot": "another"}))
    second = Service(data, "--nats", server.url)
    try:
        assert _in_state(second, name, "in_doubt")["attempt"] == 1
        assert asyncio.run(arrived(server.url)) in ({name: 1}, {})
    finally:
        second.stop()


def what_the_operator_has_not_named_is_refused_when_it_is_written(service: Service) -> None:
    target = {"kind": "nats", "subject": "others.bill"}
    answer = service.ask("POST", "/v1/schedules", {"id": "x", "cron": "@daily", "target": target})
    assert answer.status == 403
    assert "nats_subjects" in answer.body.decode()
    steered = {"kind": "nats", "subject": "events.x", "headers": {"Nats-Msg-Id": "mine"}}
    answer = service.ask("POST", "/v1/schedules", {"id": "x", "cron": "@daily", "target": steered})
    assert answer.status in (400, 422)
    assert "Nats-" in answer.body.decode()


def a_setting_that_is_wrong_ends_the_start_with_its_name(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tocsin",
            "serve",
            "--data",
            str(tmp_path / "data"),
            "--nats",
            "nats://u:s3cret@a:b",
        ],
        env={key: value for key, value in os.environ.items() if not key.startswith("TOCSIN_")},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode != 0
    assert "nats" in done.stderr
    assert "Traceback" not in done.stderr
    assert "s3cret" not in done.stderr + done.stdout


def a_subject_can_be_given_as_an_option(service: Service) -> None:
    def tocsin(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tocsin", *words],
            env={**os.environ, "TOCSIN_URL": service.url},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    done = tocsin("add", "bill", "@daily", "--nats", "events.bill", "--header", "Team: finance", "--json")
    assert done.returncode == 0, done.stderr
    found = service.ask("GET", "/v1/schedules/bill").json["target"]
    assert found == {"kind": "nats", "subject": "events.bill", "headers": {"Team": "finance"}}
    refused = tocsin("add", "other", "@daily", "--nats", "events.*")
    assert refused.returncode == 1
    assert "not a subject" in refused.stderr
    misfit = tocsin("add", "other", "@daily", "--nats", "events.x", "--idempotent")
    assert misfit.returncode == 1
    assert "--idempotent" in misfit.stderr


def a_herd_arrives_whole_and_once(server: NatsServer, service: Service) -> None:
    moment = datetime.now(UTC) + timedelta(seconds=4)
    lines = "".join(
        json.dumps(
            {
                "id": f"herd/{number}",
                "cron": f"@at {moment:%Y-%m-%dT%H:%M:%SZ}",
                "target": {"kind": "nats", "subject": f"events.{number % 7}"},
                "payload": {"number": number},
            }
        )
        + "\n"
        for number in range(5_000)
    )
    answer = service.ask(
        "POST", "/v1/import", lines.encode(), {"content-type": "application/x-ndjson"}, raw=True
    )
    assert answer.status == 200, answer
    eventually(lambda: len(asyncio.run(arrived(server.url))) == 5_000, within_s=30)
    others = "/v1/launches?state=started,running,retrying,in_doubt,failed"
    eventually(lambda: not service.ask("GET", others).json["items"])
    assert set(asyncio.run(arrived(server.url)).values()) == {1}


def the_example_acts_once_on_each_launch(server: NatsServer, service: Service) -> None:
    target = {"kind": "nats", "subject": "reminders.tea"}
    service.create("reminders/tea", target=target, payload={"text": "tea is ready"})
    consumer = subprocess.Popen(
        [sys.executable, str(EXAMPLE), server.url, "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert consumer.stdout is not None
        ready, _, _ = select.select([consumer.stdout], [], [], 20)
        assert ready
        assert consumer.stdout.readline() == "listening\n"
        first = _run(service, "reminders/tea")
        _in_state(service, first, "succeeded")
        again = eventually(lambda: _run_later(service))
        out, err = consumer.communicate(timeout=30)
        assert consumer.returncode == 0, err
        assert out == f"{first} tea is ready\n{again} tea is ready\n"
    finally:
        if consumer.poll() is None:
            consumer.kill()
            consumer.wait()


def _run_later(service: Service) -> str:
    """By hand there is one launch a second."""
    answer = service.ask("POST", "/v1/schedules/reminders/tea:run")
    return str(answer.json["name"]) if answer.status < 400 else ""
