"""A proxy in front: refused where nobody needs a token, believed where it is named, and whose address is logged."""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import structlog
from tests.api.conftest import Service, eventually

from tocsin.api.door.failed_logins import ADDRESSES_MAX, LOGGED_EVERY_S, OTHERS, FailedLogins
from tocsin.api.door.proxies import BehindProxies, TrustedProxies
from tocsin.clock import SystemClock
from tocsin.config import Settings
from tocsin.errors import InvalidInput
from tocsin.observe.metrics import Metrics

WRONG = "tocsin_0123456789ab_" + "x" * 43
FORWARDED = [
    {"X-Forwarded-For": "203.0.113.9"},
    {"x-forwarded-host": "tocsin.example.org"},
    {"X-Forwarded-Proto": "https"},
    {"Forwarded": "for=203.0.113.9"},
    {"Via": "1.1 proxy"},
    {"X-Real-IP": "203.0.113.9"},
    {"X-FORWARDED-": ""},
    {"X-Original-Forwarded-For": "203.0.113.9"},
    {"True-Client-IP": "203.0.113.9"},
    {"Client-IP": "203.0.113.9"},
    {"CF-Connecting-IP": "203.0.113.9"},
]


class _Clock(SystemClock):
    ahead_s = 0.0

    def elapsed_s(self) -> float:
        return super().elapsed_s() + self.ahead_s


def _trusting(*networks: str) -> TrustedProxies:
    return TrustedProxies(map(ipaddress.ip_network, networks))


@pytest.mark.parametrize("headers", FORWARDED)
def what_came_through_a_proxy_is_refused_where_nobody_needs_a_token(
    service: Service, headers: dict[str, str]
) -> None:
    for path in ("/v1/schedules", "/metrics", "/", "/openapi.json"):
        answer = service.ask("GET", path, headers=headers)
        assert answer.status == 403, (path, answer)
        assert b"tokens" in answer.body


@pytest.mark.parametrize("headers", FORWARDED)
def probes_are_answered_through_a_proxy(service: Service, headers: dict[str, str]) -> None:
    assert service.ask("GET", "/healthz", headers=headers).status == 200
    assert service.ask("GET", "/readyz", headers=headers).status == 200


@pytest.mark.parametrize("headers", FORWARDED)
def where_tokens_are_needed_a_proxy_is_welcome(guarded: Service, headers: dict[str, str]) -> None:
    assert guarded.ask("GET", "/v1/schedules", headers=headers).status == 200


@pytest.mark.parametrize(
    ("written", "client"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("198.51.100.1, 203.0.113.9", "203.0.113.9"),
        ("198.51.100.1, 203.0.113.9, 10.0.0.5", "203.0.113.9"),
        ("198.51.100.1,203.0.113.9:4711,10.0.0.5:80", "203.0.113.9"),
        ("2001:db8::1", "2001:db8::1"),
        ("[2001:db8::1]:4711", "2001:db8::1"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("10.0.0.5, 10.0.0.6", "10.0.0.5"),
        ("203.0.113.9, nonsense", "127.0.0.1"),
        ("203.0.113.9, nonsense, 10.0.0.5", "10.0.0.5"),
        ("203.0.113.9,", "127.0.0.1"),
        ("", "127.0.0.1"),
    ],
)
def the_client_is_the_last_one_that_is_no_trusted_proxy(written: str, client: str) -> None:
    assert _trusting("127.0.0.1/32", "10.0.0.0/8").client("127.0.0.1", written) == client


def whoever_is_not_trusted_cannot_speak_for_others() -> None:
    assert _trusting("10.0.0.0/8").client("127.0.0.1", "203.0.113.9") == "127.0.0.1"
    assert _trusting().client("10.0.0.5", "203.0.113.9") == "10.0.0.5"


def an_address_of_four_numbers_in_one_of_six_is_the_same_proxy() -> None:
    assert "::ffff:10.0.0.5" in _trusting("10.0.0.0/8")
    assert "not an address" not in _trusting("0.0.0.0/0")


def _seen(peer: str, *headers: tuple[bytes, bytes]) -> dict[str, Any]:
    """The scope that an application behind the proxies is given."""
    found: dict[str, Any] = {}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        found.update(scope)

    scope = {"type": "http", "client": (peer, 4711), "scheme": "http", "headers": list(headers)}
    asyncio.run(BehindProxies(app, _trusting("10.0.0.0/8"))(scope, None, None))  # type: ignore[arg-type]  # why: as little of a scope as is looked at
    return found


def a_trusted_proxy_says_by_which_scheme_the_client_came() -> None:
    seen = _seen("10.0.0.5", (b"x-forwarded-for", b"203.0.113.9"), (b"x-forwarded-proto", b"https"))
    assert (seen["client"], seen["scheme"]) == (("203.0.113.9", 4711), "https")
    assert _seen("10.0.0.5", (b"x-forwarded-proto", b"gopher"))["scheme"] == "http"
    assert _seen("10.0.0.5", (b"x-forwarded-proto", b"https, http"))["scheme"] == "http"
    assert _seen("192.0.2.1", (b"x-forwarded-proto", b"https"))["scheme"] == "http"


def a_header_that_stands_there_twice_is_one_list() -> None:
    seen = _seen("10.0.0.5", (b"x-forwarded-for", b"198.51.100.1"), (b"x-forwarded-for", b"203.0.113.9"))
    assert seen["client"][0] == "203.0.113.9"


@pytest.mark.parametrize("written", ["proxy.example.org", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.1;10.0.0.2"])
def a_proxy_that_is_no_address_is_refused_by_name(written: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Settings(trusted_proxies=written, tokens="always").check()
    assert refused.value.field == "trusted_proxies"


def trusted_proxies_are_refused_where_nobody_needs_a_token() -> None:
    with pytest.raises(InvalidInput, match="let everybody in"):
        Settings(trusted_proxies="10.0.0.1").check()
    Settings(trusted_proxies="10.0.0.1, 2001:db8::/32", tokens="always").check()


def whoever_came_by_https_is_told_to_come_so_again(start: Any, tmp_path: Any) -> None:
    service = start(tmp_path / "data", "--tokens", "always", "--trusted-proxies", "127.0.0.1")
    for path, accept in (("/v1/schedules", "*/*"), ("/login", "text/html"), ("/nothing", "text/html")):
        headers = {"X-Forwarded-For": "203.0.113.9", "Accept": accept}
        plain = service.ask("GET", path, headers=headers, raw=True)
        assert "strict-transport-security" not in plain.headers
        secure = service.ask("GET", path, headers={**headers, "X-Forwarded-Proto": "https"}, raw=True)
        assert secure.headers["strict-transport-security"] == "max-age=31536000"


def a_wrong_token_is_logged_with_the_address_of_the_client(start: Any, tmp_path: Any) -> None:
    service = start(
        tmp_path / "data", "--tokens", "always", "--trusted-proxies", "127.0.0.1", "--log-format", "json"
    )
    for _ in range(3):
        service.as_(WRONG).ask("GET", "/v1/status", headers={"x-forwarded-for": "203.0.113.9"})
    service.ask(
        "POST",
        "/login",
        f"token={WRONG}".encode(),
        {"content-type": "application/x-www-form-urlencoded", "x-forwarded-for": "203.0.113.10"},
        raw=True,
    )
    lines = eventually(lambda: _lines(service, "authentication failed", 2))
    assert [line["address"] for line in lines] == ["203.0.113.9", "203.0.113.10"]
    assert WRONG not in service.log.read_text()
    service.token = (service.data / "admin.token").read_text().strip()
    assert re.search(r"^tocsin_failed_logins_total 4\.0$", service.ask("GET", "/metrics").body.decode(), re.M)


def the_access_log_tells_who_asked_for_what_and_not_the_query(start: Any, tmp_path: Any) -> None:
    service = start(tmp_path / "data", "--access-log", "--log-format", "json")
    service.ask("GET", "/v1/schedules?prefix=confidential", headers={"tocsin-actor": "ann"})
    service.ask("GET", "/v1/schedules/a%0aforged")
    lines = eventually(lambda: _lines(service, "request", 2))
    told = [(line["method"], line["path"], line["status"], line["address"]) for line in lines]
    assert told == [
        ("GET", "/v1/schedules", 200, "127.0.0.1"),
        ("GET", "/v1/schedules/a%0aforged", 400, "127.0.0.1"),
    ]
    assert lines[0]["by"] == "local:ann"
    assert "confidential" not in service.log.read_text()


def without_being_asked_for_no_request_is_logged(service: Service) -> None:
    service.ask("GET", "/v1/schedules")
    assert "/v1/schedules" not in service.log.read_text()


def _lines(service: Service, event: str, least: int) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in service.log.read_text().splitlines() if line.startswith("{")]
    some = [line for line in found if line["event"] == event]
    return some if len(some) >= least else []


def an_address_that_guesses_on_is_logged_once_a_minute_with_the_number() -> None:
    async def guess() -> None:
        clock = _Clock()
        failed = FailedLogins(Metrics(), clock)
        for _ in range(5):
            failed.note("192.0.2.1", "wrong")
        clock.ahead_s += LOGGED_EVERY_S
        failed.note("192.0.2.1", "wrong")

    with structlog.testing.capture_logs() as lines:
        asyncio.run(guess())
    assert [line["times"] for line in lines] == [1, 5]


def the_number_of_guesses_is_logged_also_if_no_other_one_comes(monkeypatch) -> None:
    async def guess() -> tuple[list[int], list[float]]:
        timers: list[tuple[float, Callable[[], None]]] = []
        monkeypatch.setattr(
            asyncio.get_running_loop(),
            "call_later",
            lambda after_s, work, *args: timers.append((after_s, functools.partial(work, *args))),
        )
        with structlog.testing.capture_logs() as lines:
            failed = FailedLogins(Metrics(), SystemClock())
            for _ in range(31):
                failed.note("192.0.2.1", "wrong")
            for _, work in timers:
                work()
        return [line["times"] for line in lines], [after_s for after_s, _ in timers]

    times, (after_s,) = asyncio.run(guess())
    assert times == [1, 30]
    assert 0 < after_s <= LOGGED_EVERY_S


def from_a_thousand_addresses_the_log_stays_short() -> None:
    async def guess() -> None:
        clock = _Clock()
        failed = FailedLogins(Metrics(), clock)
        with structlog.testing.capture_logs() as lines:
            for n in range(3 * ADDRESSES_MAX):
                failed.note(f"2001:db8::{n:x}", "wrong")
        assert len(lines) == ADDRESSES_MAX + 1
        assert lines[-1]["address"] == OTHERS
        clock.ahead_s += LOGGED_EVERY_S
        with structlog.testing.capture_logs() as lines:
            failed.note("192.0.2.1", "wrong")
        assert lines[0]["address"] == "192.0.2.1"

    asyncio.run(guess())
