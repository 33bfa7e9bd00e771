"""Who may do what: as somebody would try who should not get in."""

from __future__ import annotations

import http.client
import json
import os
import re
import sqlite3
import stat
from typing import Any

import pytest
from tests.api.conftest import Service, schedule

from tocsin.api.door import access
from tocsin.model.token import Token, hash_of, is_right

NAME = "tocsin_0123456789ab_" + "x" * 43


def token(service: Service, name: str, *scopes: str, prefixes: tuple[str, ...] = (), **more: Any) -> str:
    answer = service.ask("POST", "/v1/tokens", {"name": name, "scopes": scopes, "prefixes": prefixes, **more})
    assert answer.status == 201, answer
    return answer.json["token"]


@pytest.fixture(scope="module")
def tokens(guarded: Service) -> dict[str, str]:
    """One of each kind."""
    guarded.create("a/one")
    guarded.create("b/two")
    return {
        "reader": token(guarded, "reader", "read"),
        "writer": token(guarded, "writer", "write"),
        "operator": token(guarded, "operator", "operate"),
        "of-a": token(guarded, "of-a", "write", "operate", prefixes=("a/",)),
    }


# Without a token, or with a wrong one


@pytest.mark.parametrize(
    "path",
    [
        "/v1/schedules",
        "/v1/status",
        "/metrics",
        "/v1/schedules/a/one",
        "/v1/launches",
        "/v1/tokens",
        "/v1/events",
    ],
)
def nothing_is_told_without_a_token(guarded: Service, path: str) -> None:
    answer = guarded.as_("").ask("GET", path)
    assert answer.status == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json", "/docs"])
def probes_and_the_description_need_no_token(guarded: Service, path: str) -> None:
    assert guarded.as_("").ask("GET", path).status == 200


@pytest.mark.parametrize(
    "given",
    [
        "Bearer",
        "Bearer ",
        "Bearer nonsense",
        f"Bearer {NAME}",
        f"Basic {NAME}",
        "Bearer tocsin_0123456789ab_" + "é" * 43,
        "Bearer " + "x" * 5000,
    ],
)
def a_wrong_token_is_refused_in_the_same_words(guarded: Service, given: str) -> None:
    answer = guarded.as_("").ask("GET", "/v1/schedules", headers={"authorization": given.encode("latin-1")})  # type: ignore[dict-item]  # why: bytes reach the wire as they are
    assert answer.status == 401
    assert answer.json["detail"] == "this token is not valid"


def a_token_with_one_letter_changed_is_refused(guarded: Service) -> None:
    last = "A" if guarded.token[-1] != "A" else "B"
    assert guarded.as_(guarded.token[:-1] + last).ask("GET", "/v1/status").status == 401


def a_wrong_token_is_refused_also_where_none_is_needed(service: Service) -> None:
    assert service.as_(NAME).ask("GET", "/v1/status").status == 401
    assert service.ask("GET", "/v1/status").status == 200


@pytest.mark.parametrize("in_cookie", [False, True])
def guessing_is_slowed_down_and_nobody_else_is(start: Any, tmp_path: Any, in_cookie: bool) -> None:
    service = start(tmp_path / "data", "--tokens", "always")
    guesser = service.as_("" if in_cookie else NAME)
    headers = {"Cookie": f"tocsin={NAME}"} if in_cookie else {}
    answers = [guesser.ask("GET", "/v1/status", headers=headers) for _ in range(60)]
    assert {answer.status for answer in answers} == {401, 429}
    assert answers[-1].headers["retry-after"] == "1"
    service.token = (service.data / "admin.token").read_text().strip()
    assert service.ask("GET", "/v1/status").status == 200


def a_token_that_does_not_exist_is_compared_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the time of the answer would tell which tokens there are."""
    compared = []
    monkeypatch.setattr(
        "tocsin.model.token.hmac.compare_digest",
        lambda one, other: compared.append((one, other)) or one == other,
    )
    kept = Token("a" * 12, "t", hash_of("right"), ("read",))
    assert is_right("right", kept, 0)
    assert not is_right("wrong", kept, 0)
    assert not is_right("right", None, 0)
    assert [len(other) for _, other in compared] == [32, 32, 32]


def whoever_asks_too_fast_is_told_how_long_to_wait(start: Any, tmp_path: Any) -> None:
    service = start(tmp_path / "data", "--rate-limit", "5")
    answers = [service.ask("GET", "/v1/status") for _ in range(30)]
    assert {answer.status for answer in answers} == {200, 429}
    refused = next(answer for answer in answers if answer.status == 429)
    assert refused.headers["retry-after"] == "1"
    assert "5 requests a second" in refused.json["detail"]
    assert service.ask("GET", "/healthz").status == 200, "a probe is never held back"


# Scopes


@pytest.mark.parametrize(
    ("who", "method", "path", "body", "status"),
    [
        ("reader", "GET", "/v1/schedules/a/one", None, 200),
        ("reader", "PUT", "/v1/schedules/a/one", schedule("a/one"), 403),
        ("reader", "DELETE", "/v1/schedules/a/one", None, 403),
        ("reader", "POST", "/v1/schedules/a/one:pause", {}, 403),
        ("reader", "POST", "/v1/schedules/a/one:run", None, 403),
        ("reader", "POST", "/v1/tokens", {"name": "x", "scopes": ["admin"]}, 403),
        ("reader", "GET", "/v1/tokens", None, 403),
        ("reader", "POST", "/v1/bulk", {"action": "delete", "selector": {"prefix": "a/"}}, 403),
        ("writer", "PUT", "/v1/schedules/a/one", schedule("a/one", description="w"), 200),
        ("writer", "POST", "/v1/schedules/a/one:run", None, 403),
        ("writer", "POST", "/v1/schedules/a/one:backfill", {"from": "0"}, 403),
        ("writer", "POST", "/v1/bulk", {"action": "run", "selector": {"prefix": "a/"}}, 403),
        (
            "operator",
            "POST",
            "/v1/bulk",
            {"action": "label", "selector": {"prefix": "a/"}, "labels": {"x": "y"}},
            403,
        ),
        ("writer", "GET", "/v1/tokens", None, 403),
        ("operator", "POST", "/v1/schedules/a/one:pause", {}, 200),
        ("operator", "POST", "/v1/schedules/a/one:resume", {}, 200),
        ("operator", "PUT", "/v1/schedules/a/one", schedule("a/one"), 403),
        ("operator", "POST", "/v1/schedules/a/one:restore", {"version": 1}, 403),
        ("operator", "DELETE", "/v1/tokens/reader", None, 403),
    ],
)
def a_scope_allows_what_it_says_and_no_more(
    guarded: Service, tokens: dict[str, str], who: str, method: str, path: str, body: Any, status: int
) -> None:
    assert guarded.as_(tokens[who]).ask(method, path, body).status == status


def every_operation_stands_in_the_table_of_rights_or_is_public(guarded: Service) -> None:
    paths = guarded.ask("GET", "/openapi.json").json["paths"]
    named = {
        operation["operationId"]
        for path, methods in paths.items()
        for operation in methods.values()
        if path not in access.PUBLIC
    }
    assert named == set(access.NEEDS) - {"console"}


# Prefixes


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/schedules/b/two", None),
        ("GET", "/v1/schedules/b/absent", None),
        ("GET", "/v1/schedules/b%2Ftwo", None),
        ("GET", "/v1/schedules/ab", None),
        ("PUT", "/v1/schedules/b/two", schedule("b/two")),
        ("POST", "/v1/schedules", schedule("b/new")),
        ("PATCH", "/v1/schedules/b/two", {"description": "x"}),
        ("DELETE", "/v1/schedules/b/two", None),
        ("POST", "/v1/schedules/b/two:run", None),
        ("GET", "/v1/schedules/b/two:why?at=0", None),
        ("GET", "/v1/schedules/b/two:versions", None),
        ("POST", "/v1/schedules/b/two:restore", {}),
        ("GET", "/v1/launches?schedule=b/two", None),
        ("GET", "/v1/launches/b/two-5", None),
        ("GET", "/v1/launches/b/two-5:output", None),
        ("POST", "/v1/launches/b/two-5:cancel", {}),
        ("POST", "/v1/launches/b/two-5:resolve", {"outcome": "failed"}),
        ("GET", "/v1/history?schedule=b/two", None),
        ("GET", "/v1/events?schedule=b/two", None),
        ("POST", "/v1/preview", {"schedule": schedule("b/two")}),
    ],
)
def another_prefix_is_out_of_reach_whether_it_exists_or_not(
    guarded: Service, tokens: dict[str, str], method: str, path: str, body: Any
) -> None:
    answer = guarded.as_(tokens["of-a"]).ask(method, path, body)
    assert answer.status == 403, answer
    assert "reaches" in answer.json["detail"]


@pytest.mark.parametrize(
    "path", ["a/../b/two", "a/%2e%2e/b/two", "a//b/two", "a/./../b/two", "a%00/two", "a%2F..%2Fb%2Ftwo"]
)
def no_path_trick_leads_out_of_a_prefix(guarded: Service, tokens: dict[str, str], path: str) -> None:
    assert guarded.as_(tokens["of-a"]).ask("GET", f"/v1/schedules/{path}").status in (400, 403, 404)


def lists_show_only_what_a_token_reaches(guarded: Service, tokens: dict[str, str]) -> None:
    of_a = guarded.as_(tokens["of-a"])
    for id in ("a/one", "b/two"):
        assert guarded.ask("POST", f"/v1/schedules/{id}:run").status == 202
    assert {item["id"] for item in of_a.ask("GET", "/v1/schedules").json["items"]} == {"a/one"}
    assert {item["schedule"] for item in of_a.ask("GET", "/v1/launches").json["items"]} == {"a/one"}
    assert {item["about"] for item in of_a.ask("GET", "/v1/history").json["items"]} == {"a/one"}
    exported = of_a.ask("GET", "/v1/export").body.splitlines()
    assert {json.loads(line)["id"] for line in exported} == {"a/one"}
    lines = of_a.ask(
        "POST", "/v1/bulk", {"action": "pause", "selector": {"everything": True}, "preview": True}
    ).body
    assert [json.loads(line).get("id") for line in lines.splitlines()] == ["a/one", None]


def what_is_named_beyond_reach_is_refused_whether_it_exists_or_not(
    guarded: Service, tokens: dict[str, str]
) -> None:
    wish = {"action": "pause", "selector": {"ids": ["b/two", "b/absent", "a/one"]}, "preview": True}
    answer = guarded.as_(tokens["of-a"]).ask("POST", "/v1/bulk", wish)
    *named, _ = [json.loads(line) for line in answer.body.splitlines()]
    assert [line.get("error", {}).get("status") for line in named] == [403, 403, None]


def an_import_refuses_the_lines_that_are_out_of_reach(guarded: Service, tokens: dict[str, str]) -> None:
    body = b"\n".join(json.dumps(schedule(id)).encode() for id in ("a/in", "b/out"))
    answer = guarded.as_(tokens["of-a"]).ask(
        "POST", "/v1/import", body, {"content-type": "application/x-ndjson"}, raw=True
    )
    refused, summed_up = [json.loads(line) for line in answer.body.splitlines()]
    assert (refused["line"], refused["id"], refused["error"]["status"]) == (2, "b/out", 403)
    assert summed_up["counts"] == {"created": 1, "refused": 1}


# Tokens themselves


def the_secret_is_told_once_and_kept_nowhere(guarded: Service) -> None:
    text = token(guarded, "secretive", "read")
    secret = text.split("_", 2)[2]
    assert text not in guarded.ask("GET", "/v1/tokens").body.decode()
    for path in guarded.data.rglob("*"):
        if path.is_file() and path.name != "admin.token":
            assert secret.encode() not in path.read_bytes(), path
    assert secret not in guarded.log.read_text()


def the_admins_file_is_for_the_service_alone(guarded: Service) -> None:
    mode = os.stat(guarded.data / "admin.token").st_mode
    assert stat.S_IMODE(mode) == 0o600


def a_revoked_token_is_refused_at_once(guarded: Service) -> None:
    text = token(guarded, "short-lived", "read")
    assert guarded.as_(text).ask("GET", "/v1/status").status == 200
    assert guarded.ask("DELETE", "/v1/tokens/short-lived").status == 204
    assert guarded.as_(text).ask("GET", "/v1/status").status == 401
    assert guarded.ask("DELETE", "/v1/tokens/short-lived").status == 404


def a_token_expires(guarded: Service, wait: Any) -> None:
    text = token(guarded, "brief", "read", expires_in="1s")
    wait(lambda: guarded.as_(text).ask("GET", "/v1/status").status == 401)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "x"}, "scopes"),
        ({"name": "x", "scopes": []}, "scopes"),
        ({"name": "x", "scopes": ["root"]}, "scopes[0]"),
        ({"name": "a b", "scopes": ["read"]}, "name"),
        ({"name": "x", "scopes": ["admin"], "prefixes": ["a/"]}, "prefixes"),
        ({"name": "x", "scopes": ["read"], "prefixes": ["../x"]}, "prefixes"),
        ({"name": "x", "scopes": ["read"], "expires_in": "soon"}, "expires_in"),
    ],
)
def a_token_that_cannot_be_is_refused_by_its_field(guarded: Service, body: Any, field: str) -> None:
    answer = guarded.ask("POST", "/v1/tokens", body)
    assert (answer.status, answer.json["field"]) == (400, field)


def who_one_is_can_be_asked(guarded: Service, service: Service, tokens: dict[str, str]) -> None:
    told = guarded.as_(tokens["of-a"]).ask("GET", "/v1/whoami").json
    assert (told["name"], told["scopes"], told["prefixes"]) == ("of-a", ["operate", "write"], ["a/"])
    assert service.ask("GET", "/v1/whoami").json["name"] == "local"


def acts_are_recorded_in_the_name_of_the_token(guarded: Service, tokens: dict[str, str]) -> None:
    guarded.as_(tokens["of-a"]).ask("POST", "/v1/schedules", schedule("a/mine"))
    (record,) = guarded.ask("GET", "/v1/history?schedule=a/mine").json["items"]
    assert (record["act"], record["actor"]) == ("created", "of-a")
    # With a token nobody can claim to be somebody else.
    guarded.as_(tokens["of-a"]).ask("DELETE", "/v1/schedules/a/mine", headers={"tocsin-actor": "boss"})
    assert guarded.ask("GET", "/v1/history?schedule=a/mine").json["items"][0]["actor"] == "of-a"


def a_name_claimed_without_a_token_is_recorded_as_a_claim(service: Service) -> None:
    service.ask("POST", "/v1/schedules", schedule("claimed"), {"tocsin-actor": "ann"})
    (record,) = service.ask("GET", "/v1/history?schedule=claimed").json["items"]
    assert record["actor"] == "local:ann"


def tokens_survive_a_restart_and_the_last_use_is_shown(start: Any, tmp_path: Any) -> None:
    first = start(tmp_path / "data", "--tokens", "always")
    first.token = (first.data / "admin.token").read_text().strip()
    text = token(first, "kept", "read")
    first.stop()
    second = start(tmp_path / "data", "--tokens", "always")
    assert second.as_(text).ask("GET", "/v1/status").status == 200
    with sqlite3.connect(tmp_path / "data" / "state.db") as db:
        assert db.execute("SELECT count(*) FROM token").fetchone() == (2,)


def the_last_admin_token_is_not_revoked_where_one_is_needed(guarded: Service) -> None:
    answer = guarded.ask("DELETE", "/v1/tokens/admin")
    assert (answer.status, "last admin" in answer.json["detail"]) == (409, True)
    second = token(guarded, "second", "admin")
    assert guarded.ask("DELETE", "/v1/tokens/second").status == 204
    assert guarded.as_(second).ask("GET", "/v1/status").status == 401


def who_lost_every_admin_token_gets_another_by_a_restart(start: Any, tmp_path: Any) -> None:
    first = start(tmp_path / "data")
    token(first, "reader", "read")
    first.stop()
    second = start(tmp_path / "data", "--tokens", "always")
    second.token = (second.data / "admin.token").read_text().strip()
    assert second.ask("GET", "/v1/whoami").json["scopes"] == ["admin"]


def the_last_use_of_a_token_is_shown(guarded: Service, wait: Any) -> None:
    text = token(guarded, "busy", "read")
    guarded.as_(text).ask("GET", "/v1/status")

    def used() -> bool:
        items = guarded.ask("GET", "/v1/tokens").json["items"]
        return next(item for item in items if item["name"] == "busy")["last_used_at"] is not None

    wait(used)


def an_import_ends_with_the_token_that_it_came_with(guarded: Service, wait: Any) -> None:
    text = token(guarded, "importer", "write")
    connection = http.client.HTTPConnection("127.0.0.1", guarded.port, timeout=10)
    connection.putrequest("POST", "/v1/import")
    for name, value in (
        ("authorization", f"Bearer {text}"),
        ("content-type", "application/x-ndjson"),
        ("transfer-encoding", "chunked"),
    ):
        connection.putheader(name, value)
    connection.endheaders()

    def send(prefix: str) -> None:
        lines = b"".join(json.dumps(schedule(f"{prefix}/{n}")).encode() + b"\n" for n in range(500))
        connection.send(b"%x\r\n%b\r\n" % (len(lines), lines))

    send("before")
    wait(lambda: guarded.ask("GET", "/v1/schedules/before/499").status == 200)
    assert guarded.ask("DELETE", "/v1/tokens/importer").status == 204
    send("after")
    connection.send(b"0\r\n\r\n")
    told = [json.loads(line) for line in connection.getresponse().read().splitlines()]
    connection.close()
    assert told[-1]["counts"] == {"created": 500, "refused": 500}
    assert guarded.ask("GET", "/v1/schedules/after/0").status == 404


def metrics_and_errors_hold_no_token(guarded: Service) -> None:
    assert not re.search(r"tocsin_[0-9a-f]{12}_", guarded.ask("GET", "/metrics").body.decode())
    answer = guarded.ask("GET", f"/v1/schedules/{guarded.token}")
    assert guarded.token.split("_", 2)[2] not in guarded.log.read_text()
    assert answer.status == 404
