"""What HTTP promises: methods, conditions, patches, parameters, limits."""

from __future__ import annotations

import http.client
import threading
import time
from collections import Counter
from email.utils import parsedate_to_datetime
from typing import Any

import pytest


def _patch(service: Any, id: str, changes: Any, headers: dict[str, str] | None = None) -> Any:
    sent = {"content-type": "application/merge-patch+json", **(headers or {})}
    return service.ask("PATCH", f"/v1/schedules/{id}", changes, sent)


class ClaimsAboutPatch:
    def what_is_named_changes_and_the_rest_stays(self, service):
        service.create("patch/one", description="old", labels={"a": "1", "b": "2"}, payload={"x": {"y": 1}})
        answer = _patch(
            service,
            "patch/one",
            {"description": "new", "labels": {"a": None, "c": "3"}, "payload": {"x": {"z": 2}}},
        )
        assert (answer.status, answer.headers["etag"]) == (200, '"2"')
        assert answer.json["description"] == "new"
        assert answer.json["labels"] == {"b": "2", "c": "3"}
        assert answer.json["payload"] == {"x": {"y": 1, "z": 2}}
        assert answer.json["cron"] == "0 0 29 2 *"
        assert service.ask("GET", "/v1/schedules/patch/one").json == answer.json

    def null_gives_a_field_its_default_again(self, service):
        service.create(
            "patch/null", timezone="Europe/Berlin", retry={"limit": 3}, overlap="forbid", payload=[1]
        )
        changes = {"timezone": None, "retry": None, "overlap": None, "payload": None}
        found = _patch(service, "patch/null", changes).json
        assert [found[field] for field in changes] == ["UTC", None, "allow", None]

    def a_list_is_replaced_as_a_whole(self, service):
        service.create("patch/list", target={"kind": "exec", "argv": ["a", "b"]})
        found = _patch(service, "patch/list", {"target": {"argv": ["c"]}}).json
        assert found["target"]["argv"] == ["c"]

    def plain_json_will_do(self, service):
        service.create("patch/json")
        answer = service.ask("PATCH", "/v1/schedules/patch/json", {"description": "d"})
        assert (answer.status, answer.json["description"]) == (200, "d")

    def changing_nothing_makes_no_version(self, service):
        service.create("patch/same", description="d")
        for changes in ({}, {"description": "d"}, {"id": "patch/same"}, {"payload": None}):
            assert _patch(service, "patch/same", changes).headers["etag"] == '"1"'

    @pytest.mark.parametrize(
        ("changes", "field"),
        [
            ({"id": "another"}, "id"),
            ({"id": None}, "id"),
            ({"cron": None}, "cron"),
            ({"cron": "61 * * * *"}, "minute"),
            ({"target": {"kind": "http", "url": "http://127.0.0.1/"}}, "target.argv"),
            ({"version": 7}, "version"),
            ({"labels": {"a": 1}}, "labels"),
            ({"retry": {"limit": -1}}, "retry.limit"),
            ([], "body"),
            ("text", "body"),
            (7, "body"),
        ],
    )
    def what_does_not_give_a_schedule_is_refused_and_named(self, service, changes, field):
        body = {"cron": "@daily", "target": {"kind": "exec", "argv": ["true"]}}
        service.ask("PUT", "/v1/schedules/patch/wrong", body)
        answer = _patch(service, "patch/wrong", changes)
        assert answer.status == 400
        assert answer.json["field"].startswith(field)
        assert service.ask("GET", "/v1/schedules/patch/wrong").json["version"] == 1

    def what_is_not_json_is_refused(self, service):
        service.create("patch/garbage")
        for body in (b"", b"{", b"\xff", b"[" * 5000, b'{"payload":' * 2000):
            answer = service.ask(
                "PATCH", "/v1/schedules/patch/garbage", body, {"content-type": "application/json"}, raw=True
            )
            assert answer.status == 400, body[:20]

    def a_missing_schedule_is_not_found(self, service):
        assert _patch(service, "patch/nobody", {"description": "d"}).status == 404
        assert _patch(service, "patch/nobody", {"description": "d"}, {"If-Match": "*"}).status == 412

    def a_demanded_version_is_honoured(self, service):
        service.create("patch/match")
        assert _patch(service, "patch/match", {"description": "a"}, {"If-Match": '"1"'}).status == 200
        late = _patch(service, "patch/match", {"description": "b"}, {"If-Match": '"1"'})
        assert (late.status, late.json["type"]) == (412, "tag:tocsin,2026:version-conflict")

    def patches_at_the_same_time_are_all_applied(self, service):
        service.create("patch/race")
        answers = _together(
            [lambda n=n: _patch(service, "patch/race", {"labels": {f"k{n}": str(n)}}) for n in range(12)]
        )
        assert {answer.status for answer in answers} == {200}
        found = service.ask("GET", "/v1/schedules/patch/race").json
        assert found["labels"] == {f"k{n}": str(n) for n in range(12)}
        assert sorted(answer.json["version"] for answer in answers) == list(range(2, 14))
        for answer in answers:
            assert len(answer.json["labels"]) == answer.json["version"] - 1


def _together(calls: list[Any]) -> list[Any]:
    """All at once, as far as threads can."""
    barrier, answers = threading.Barrier(len(calls)), []

    def one(call: Any) -> None:
        barrier.wait()
        answers.append(call())

    threads = [threading.Thread(target=one, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == len(calls)
    return answers


def only_one_of_many_puts_at_the_same_time_created_it(service, sample):
    for turn in range(5):
        id = f"race/put/{turn}"
        answers = _together(
            [
                lambda n=n, id=id: service.ask(
                    "PUT", f"/v1/schedules/{id}", sample(id, description=str(n % 3))
                )
                for n in range(12)
            ]
        )
        assert Counter(answer.status for answer in answers)[201] == 1
        assert {answer.status for answer in answers} == {200, 201}


def every_creation_is_told_once_while_others_delete(service, sample):
    def puts() -> list[int]:
        return [service.ask("PUT", "/v1/schedules/race/both", sample("race/both")).status for _ in range(40)]

    def deletes() -> list[int]:
        return [service.ask("DELETE", "/v1/schedules/race/both").status for _ in range(40)]

    told = Counter(status for answer in _together([puts, puts, deletes, deletes]) for status in answer)
    is_left = service.ask("GET", "/v1/schedules/race/both").status == 200
    assert set(told) <= {200, 201, 204, 404}
    assert told[201] == told[204] + is_left


class ClaimsAboutConditions:
    def a_reader_who_knows_the_version_is_told_so_in_short(self, service):
        service.create("etag/read")
        for known in ('"1"', 'W/"1"', '"7", W/"1"', "*"):
            answer = service.ask("GET", "/v1/schedules/etag/read", headers={"If-None-Match": known})
            assert (answer.status, answer.body, answer.headers["etag"]) == (304, b"", '"1"'), known
        for other in ('"2"', '"11"', 'W/"2"'):
            assert (
                service.ask("GET", "/v1/schedules/etag/read", headers={"If-None-Match": other}).status == 200
            )

    def a_weak_tag_is_not_good_enough_to_write(self, service, sample):
        service.create("etag/weak")
        for method in ("PUT", "PATCH", "DELETE"):
            body = None if method == "DELETE" else {"cron": "@daily", "target": {"kind": "null"}}
            answer = service.ask(method, "/v1/schedules/etag/weak", body, {"If-Match": 'W/"1"'})
            assert answer.status == 412, method
        for verb in ("pause", "resume"):
            answer = service.ask("POST", f"/v1/schedules/etag/weak:{verb}", headers={"If-Match": 'W/"1"'})
            assert answer.status == 412, verb

    def any_tag_of_a_list_will_do(self, service, sample):
        service.create("etag/list")
        body = sample("etag/list", description="new")
        answer = service.ask("PUT", "/v1/schedules/etag/list", body, {"If-Match": '"9", "1"'})
        assert (answer.status, answer.headers["etag"]) == (200, '"2"')
        assert service.ask("PUT", "/v1/schedules/etag/list", body, {"If-Match": '"9", "1"'}).status == 412

    @pytest.mark.parametrize("tag", ['"0"', '"-1"', '"01"', '"x"', '""', '"' + "9" * 40 + '"'])
    def a_tag_that_no_version_has_never_matches(self, service, sample, tag):
        service.ask("PUT", "/v1/schedules/etag/odd", sample("etag/odd"))
        answer = service.ask("PUT", "/v1/schedules/etag/odd", sample("etag/odd"), {"If-Match": tag})
        assert answer.status == 412

    @pytest.mark.parametrize(
        ("method", "path"),
        [("PUT", ""), ("PATCH", ""), ("DELETE", ""), ("POST", ":pause"), ("POST", ":resume")],
    )
    def a_schedule_that_is_not_there_is_at_no_version(self, service, sample, method, path):
        body = sample("etag/nobody") if method in ("PUT", "PATCH") else None
        for tag in ("*", '"1"'):
            answer = service.ask(method, f"/v1/schedules/etag/nobody{path}", body, {"If-Match": tag})
            assert answer.status == 412, answer
        assert service.ask("GET", "/v1/schedules/etag/nobody").status == 404

    def a_write_if_it_is_another_version_is_refused_on_that_version(self, service, sample):
        service.create("etag/none")
        body = sample("etag/none", description="new")
        assert service.ask("PUT", "/v1/schedules/etag/none", body, {"If-None-Match": 'W/"1"'}).status == 412
        assert service.ask("PUT", "/v1/schedules/etag/none", body, {"If-None-Match": '"2"'}).status == 200


class ClaimsAboutMethods:
    @pytest.mark.parametrize(
        "path",
        [
            "/v1/schedules",
            "/v1/schedules?limit=1",
            "/v1/schedules/head/one",
            "/v1/schedules/head/one:upcoming",
            "/v1/launches",
            "/v1/schedules/nobody",
            "/v1/schedules?limit=0",
            "/v1/nothing",
            "/openapi.json",
            "/docs",
            "/healthz",
            "/readyz",
        ],
    )
    def head_is_get_without_the_body(self, service, sample, path):
        service.ask("PUT", "/v1/schedules/head/one", sample("head/one"))
        got, head = service.ask("GET", path), service.ask("HEAD", path)
        assert (head.status, head.body) == (got.status, b"")
        for answer in (got, head):
            answer.headers.pop("date")
        assert head.headers == got.headers

    def the_date_of_an_answer_is_that_of_its_request(self, service):
        """Also on a connection that was silent for a while."""
        connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=10)
        for pause_s in (0.0, 1.1, 1.1):
            time.sleep(pause_s)
            before_s = int(time.time())
            connection.request("GET", "/healthz")
            answer = connection.getresponse()
            answer.read()
            (date,) = answer.headers.get_all("date")
            assert before_s <= parsedate_to_datetime(date).timestamp() <= time.time()
        connection.close()

    def head_knows_conditions(self, service):
        service.create("head/etag")
        answer = service.ask("HEAD", "/v1/schedules/head/etag", headers={"If-None-Match": '"1"'})
        assert (answer.status, answer.headers["etag"]) == (304, '"1"')

    @pytest.mark.parametrize(
        ("path", "methods"),
        [
            ("/v1/schedules", "GET, HEAD, OPTIONS, POST"),
            ("/v1/schedules/allow/one", "DELETE, GET, HEAD, OPTIONS, PATCH, PUT"),
            ("/v1/schedules/allow/one:pause", "OPTIONS, POST"),
            ("/v1/schedules/allow/one:why", "GET, HEAD, OPTIONS"),
            ("/v1/launches/allow/one-1:cancel", "OPTIONS, POST"),
            ("/v1/status", "GET, HEAD, OPTIONS"),
            ("/openapi.json", "GET, HEAD, OPTIONS"),
        ],
    )
    def options_and_a_refused_method_tell_what_is_possible(self, service, path, methods):
        asked = service.ask("OPTIONS", path)
        assert (asked.status, asked.headers["allow"], asked.body) == (204, methods, b"")
        assert "content-type" not in asked.headers
        assert not [name for name in asked.headers if name.startswith("access-control")]
        refused = service.ask("TRACE", path)
        assert (refused.status, refused.headers["allow"], refused.json["allowed"]) == (405, methods, methods)

    def each_method_that_is_allowed_is_one(self, service):
        for path in ("/v1/schedules/allow/true", "/v1/launches", "/v1/schedules/allow/true:run"):
            for method in service.ask("OPTIONS", path).headers["allow"].split(", "):
                assert service.ask(method, path).status != 405, (method, path)


class ClaimsAboutParameters:
    @pytest.mark.parametrize(
        ("path", "name", "hint"),
        [
            ("/v1/schedules?prefx=a", "prefx", "prefix"),
            ("/v1/schedules?Limit=3", "Limit", "limit"),
            ("/v1/schedules?labels=a%3Db", "labels", "label"),
            ("/v1/launches?status=failed", "status", "state"),
            ("/v1/launches?schedule_id=a", "schedule_id", "schedule"),
            ("/v1/schedules/query/one?verbose=1", "verbose", ""),
            ("/v1/schedules/query/one:upcoming?n=3", "n", "count"),
            ("/v1/status?x", "x", ""),
        ],
    )
    def one_that_nobody_knows_is_refused_with_what_was_meant(self, service, path, name, hint):
        answer = service.ask("GET", path)
        assert (answer.status, answer.json["field"], answer.json["value"]) == (400, name, name)
        assert answer.json["allowed"]
        if hint not in ("", "count"):
            assert answer.json["hint"] == f"did you mean {hint}?"

    def one_that_is_known_once_is_refused_twice(self, service):
        answer = service.ask("GET", "/v1/schedules?limit=1&limit=2")
        assert (answer.status, answer.json["field"]) == (400, "limit")
        assert service.ask("GET", "/v1/schedules?label=a%3D1&label=b%3D2").status == 200

    def writes_are_asked_as_closely(self, service, sample):
        assert service.ask("PUT", "/v1/schedules/query/two?dry_run=1", sample("query/two")).status == 400
        assert service.ask("GET", "/v1/schedules/query/two").status == 404

    def probes_may_be_asked_in_any_way(self, service):
        assert service.ask("GET", "/healthz?verbose=1").status == 200

    def a_range_is_told_in_words(self, service):
        answer = service.ask("GET", "/v1/schedules?limit=1001")
        assert answer.json["allowed"] == "a whole number from 1 to 1000"


class ClaimsAboutCursors:
    def one_that_was_not_handed_out_is_refused(self, service):
        for number in range(3):
            service.create(f"cursor/{number}")
        cursor = service.ask("GET", "/v1/schedules?prefix=cursor/&limit=1").json["cursor"]
        assert "cursor/0" not in cursor
        swapped = cursor[:-1] + ("A" if cursor[-1] != "A" else "B")
        for wrong in (
            swapped,
            cursor[1:],
            cursor + "A",
            cursor + "=",
            "cursor/0",
            "17",
            "%00",
            "%F0%9F%94%94",
        ):
            answer = service.ask("GET", f"/v1/schedules?prefix=cursor/&limit=1&cursor={wrong}")
            assert (answer.status, answer.json["field"]) == (400, "cursor"), wrong
        assert service.ask("GET", f"/v1/launches?cursor={cursor}").status == 400
        next_page = service.ask("GET", f"/v1/schedules?prefix=cursor/&limit=1&cursor={cursor}").json
        assert [item["id"] for item in next_page["items"]] == ["cursor/1"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"id": "a" * 201}, "id"),
        ({"payload": "x" * 65_537}, "payload"),
        ({"labels": {f"k{n}": "v" for n in range(33)}}, "labels"),
        ({"labels": {"k": "v" * 201}}, "labels.k"),
        ({"labels": {"k" * 64: "v"}}, "labels."),
        ({"description": "x" * 2001}, "description"),
        ({"retry": {"limit": 1001}}, "retry.limit"),
        ({"timeout": "36501d"}, "timeout"),
        ({"target": {"kind": "exec", "shell": "x" * 140_000}}, "schedule"),
    ],
)
def every_limit_is_named_with_what_is_allowed(service, sample, changes, field):
    answer = service.ask("POST", "/v1/schedules", sample(**{"id": "limit/one", **changes}))
    assert answer.status == 400
    assert answer.json["field"].startswith(field)
    assert answer.json["allowed"]
