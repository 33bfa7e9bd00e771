"""The cookie of the console: good for reading, and for changing only what a page of ours asks for."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.access_test import token
from tests.api.conftest import Service, schedule
from tests.api.logins import log_in

from tocsin.api.door import guard
from tocsin.api.problems import HttpRefusal


@pytest.fixture
def browser(guarded: Service) -> Service:
    """Asked without a token in the header: whoever asks brings a cookie."""
    return guarded.as_("")


def _with(guarded: Service, **headers: str) -> dict[str, str]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return {"Cookie": f"theme=dark; tocsin={_session(guarded)}; other=1", **named}


def _session(guarded: Service) -> str:
    """One for all tests: each login is recorded."""
    key = (guarded.port, guarded.token)
    if key not in _OPENED:
        _OPENED[key] = log_in(guarded, guarded.token)
    return _OPENED[key]


_OPENED: dict[tuple[int, str], str] = {}


def a_session_in_a_cookie_is_as_good_as_a_token_for_reading(guarded, browser):
    assert browser.ask("GET", "/v1/schedules").status == 401
    assert browser.ask("GET", "/v1/schedules", headers=_with(guarded)).status == 200
    assert browser.ask("GET", "/v1/whoami", headers=_with(guarded)).json["name"] == "admin"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def a_cookie_alone_changes_nothing(guarded, browser, method):
    guarded.ask("PUT", "/v1/schedules/cookie/one", schedule("cookie/one"))
    path = "/v1/schedules" if method == "POST" else "/v1/schedules/cookie/one"
    body = None if method == "DELETE" else schedule("cookie/two" if method == "POST" else "cookie/one")
    answer = browser.ask(method, path, body, _with(guarded))
    assert answer.status == 403
    assert "a cookie alone does not allow to change anything" in answer.json["detail"]
    for origin in ("https://evil.example", "null", "http://localhost", f"https://127.0.0.1:{guarded.port}"):
        assert browser.ask(method, path, body, _with(guarded, Origin=origin)).status == 403
    for site in ("cross-site", "same-site", "none"):
        assert browser.ask(method, path, body, _with(guarded, Sec_Fetch_Site=site)).status == 403
    assert guarded.ask("GET", "/v1/schedules/cookie/one").json["version"] == 1


def what_a_page_of_ours_asks_for_is_done(guarded, browser):
    ours = _with(guarded, Origin=f"http://127.0.0.1:{guarded.port}")
    assert browser.ask("POST", "/v1/schedules", schedule("cookie/ours"), ours).status == 201
    same = _with(guarded, Sec_Fetch_Site="same-origin")
    assert browser.ask("DELETE", "/v1/schedules/cookie/ours", headers=same).status in (200, 204)


def a_token_in_the_header_needs_no_origin_and_comes_first(guarded):
    reads = token(guarded, "cookie-reader", "read")
    asks = guarded.as_(reads)
    answer = asks.ask("POST", "/v1/schedules", schedule("cookie/three"), _with(guarded))
    assert answer.status == 403
    assert "has not the scope 'write'" in answer.json["detail"]
    done = guarded.ask("POST", "/v1/schedules", schedule("cookie/three"), {"Cookie": "tocsin=wrong"})
    assert done.status == 201


def a_wrong_cookie_is_nobody(guarded, browser):
    for wrong in (
        "tocsin=",
        "tocsin=x",
        "tocsin=tocsin_0123456789ab_" + "x" * 43,
        "tocsin=tocsin-session_0123456789abcdef_" + "x" * 43,
        "tocsin=" + guarded.token,
        "xtocsin=" + _session(guarded),
        "tocsin",
    ):
        answer = browser.ask("GET", "/v1/schedules", headers={"Cookie": wrong})
        assert answer.status == 401, wrong


def where_no_token_is_needed_a_cookie_changes_nothing_about_that(service):
    assert service.ask("GET", "/v1/schedules", headers={"Cookie": "tocsin=whatever"}).status == 200
    told: Any = service.ask("GET", "/v1/whoami", headers={"Cookie": "tocsin=whatever"}).json
    assert told["name"] == "local"


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def reading_is_never_asked_where_it_comes_from(method):
    guard.check_came_from_us(method, {"cookie": "tocsin=x"})


def the_cookie_of_somebody_else_is_looked_at_like_ours():
    with pytest.raises(HttpRefusal):
        guard.check_came_from_us("POST", {"cookie": "session=of-another-service"})
    guard.check_came_from_us("POST", {"cookie": "session=1", "authorization": "Bearer x"})
    guard.check_came_from_us("POST", {})
