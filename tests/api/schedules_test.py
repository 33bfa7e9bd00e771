"""Schedules over HTTP: create, read, replace, delete, list, pause, resume, upcoming."""

from __future__ import annotations

import re

import pytest

RFC3339_UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def a_created_schedule_is_read_back_with_its_version_and_next_instant(service, sample):
    answer = service.ask("POST", "/v1/schedules", sample("create/one", labels={"team": "a"}))
    assert answer.status == 201
    assert answer.headers["location"] == "/v1/schedules/create/one"
    assert answer.headers["etag"] == '"1"'
    read = service.ask("GET", answer.headers["location"])
    assert read.status == 200
    assert read.headers["etag"] == '"1"'
    assert read.json == answer.json
    assert read.json["version"] == 1
    assert read.json["labels"] == {"team": "a"}
    for field in ("next", "created_at", "updated_at"):
        assert RFC3339_UTC.fullmatch(read.json[field]), field


def creating_the_identical_schedule_again_changes_nothing(service, sample):
    first = service.ask("POST", "/v1/schedules", sample("create/twice", payload={"n": 1}))
    second = service.ask("POST", "/v1/schedules", sample("create/twice", payload={"n": 1}))
    assert (first.status, second.status) == (201, 200)
    assert first.json == second.json


def creating_another_schedule_under_a_taken_id_is_a_conflict(service, sample):
    service.create("create/taken")
    answer = service.ask("POST", "/v1/schedules", sample("create/taken", description="another"))
    assert answer.status == 409
    assert answer.json["type"] == "tag:tocsin,2026:already-exists"
    assert "create/taken" in answer.json["detail"]


def a_put_creates_then_replaces_then_changes_nothing(service, sample):
    body = sample("put/one")
    del body["id"]
    created = service.ask("PUT", "/v1/schedules/put/one", body)
    replaced = service.ask("PUT", "/v1/schedules/put/one", {**body, "description": "new"})
    same = service.ask("PUT", "/v1/schedules/put/one", {**body, "description": "new"})
    assert [answer.status for answer in (created, replaced, same)] == [201, 200, 200]
    assert [answer.headers["etag"] for answer in (created, replaced, same)] == ['"1"', '"2"', '"2"']


def a_put_on_an_old_version_is_refused(service, sample):
    service.create("put/old")
    body = sample("put/old", description="new")
    assert service.ask("PUT", "/v1/schedules/put/old", body, {"If-Match": '"1"'}).status == 200
    late = service.ask("PUT", "/v1/schedules/put/old", {**body, "description": "late"}, {"If-Match": '"1"'})
    assert late.status == 412
    assert late.json["type"] == "tag:tocsin,2026:version-conflict"
    assert "version 2" in late.json["detail"]
    assert service.ask("GET", "/v1/schedules/put/old").json["description"] == "new"


def a_put_that_must_create_never_replaces(service, sample):
    body = sample("put/new")
    assert service.ask("PUT", "/v1/schedules/put/new", body, {"If-None-Match": "*"}).status == 201
    assert service.ask("PUT", "/v1/schedules/put/new", body, {"If-None-Match": "*"}).status == 412


def a_put_if_any_version_exists_needs_one(service, sample):
    body = sample("put/any")
    assert service.ask("PUT", "/v1/schedules/put/any", body, {"If-Match": "*"}).status == 412
    service.create("put/any")
    assert service.ask("PUT", "/v1/schedules/put/any", body, {"If-Match": "*"}).status == 200


def a_put_with_another_id_in_its_body_is_refused(service, sample):
    answer = service.ask("PUT", "/v1/schedules/put/a", sample("put/b"))
    assert answer.status == 400
    assert (answer.json["field"], answer.json["value"], answer.json["allowed"]) == ("id", "put/b", "put/a")


@pytest.mark.parametrize("version", ["zero", "1", '"1', '"1" "2"', '"1",', '*, "1"', 'w/"1"', ""])
def a_condition_that_is_no_version_is_refused(service, sample, version):
    answer = service.ask("PUT", "/v1/schedules/put/odd", sample("put/odd"), {"If-Match": version})
    assert answer.status == 400
    assert answer.json["field"] == "If-Match"


def a_deleted_schedule_is_gone_and_its_version_goes_on(service, sample):
    service.create("delete/one")
    assert service.ask("DELETE", "/v1/schedules/delete/one", headers={"If-Match": '"7"'}).status == 412
    gone = service.ask("DELETE", "/v1/schedules/delete/one", headers={"If-Match": '"1"'})
    assert (gone.status, gone.body) == (204, b"")
    assert service.ask("GET", "/v1/schedules/delete/one").status == 404
    assert service.ask("DELETE", "/v1/schedules/delete/one").status == 404
    assert service.create("delete/one")["version"] == 2


@pytest.mark.parametrize("id", ["a/b", "a.b@c+d", "x", "deep/er/and/deep-er", "run", "a/pause", "1"])
def an_id_works_in_a_path_as_it_is_and_percent_encoded(service, sample, id):
    encoded = "".join(c if c.isalnum() else f"%{ord(c):02X}" for c in id)
    assert service.ask("PUT", f"/v1/schedules/{id}", sample(id)).status == 201
    for path in (id, encoded):
        assert service.ask("GET", f"/v1/schedules/{path}").json["id"] == id
        paused = service.ask("POST", f"/v1/schedules/{path}:pause", {"note": "n"})
        assert (paused.status, paused.json["enabled"], paused.json["note"]) == (200, False, "n")
        assert service.ask("POST", f"/v1/schedules/{path}%3Aresume").json["enabled"] is True
    assert service.ask("DELETE", f"/v1/schedules/{encoded}").status == 204


def a_paused_schedule_has_no_next_instant_until_it_is_resumed(service):
    service.create("pause/one")
    paused = service.ask("POST", "/v1/schedules/pause/one:pause", {"note": "the bank is down"})
    assert (paused.json["enabled"], paused.json["next"], paused.json["note"]) == (
        False,
        None,
        "the bank is down",
    )
    assert paused.headers["etag"] == '"2"'
    assert service.ask("POST", "/v1/schedules/pause/one:resume", headers={"If-Match": '"1"'}).status == 412
    resumed = service.ask("POST", "/v1/schedules/pause/one:resume")
    assert resumed.json["enabled"] is True
    assert resumed.json["next"] is not None


def a_list_is_read_page_by_page_in_the_order_of_ids(service):
    ids = [f"page/{number:02}" for number in range(7)]
    for id in reversed(ids):
        service.create(id)
    found, cursor = [], ""
    while True:
        page = service.ask("GET", f"/v1/schedules?prefix=page/&limit=3&cursor={cursor}").json
        assert len(page["items"]) <= 3
        found += [item["id"] for item in page["items"]]
        cursor = page["cursor"]
        if not cursor:
            break
    assert found == ids


def a_list_is_narrowed_by_labels_and_by_whether_they_are_enabled(service):
    service.create("label/a", labels={"team": "x", "tier": "1"})
    service.create("label/b", labels={"team": "x", "tier": "2"})
    service.create("label/c", labels={"team": "y"}, enabled=False)

    def ids(query: str) -> list[str]:
        return [
            item["id"] for item in service.ask("GET", f"/v1/schedules?prefix=label/&{query}").json["items"]
        ]

    assert ids("label=team=x") == ["label/a", "label/b"]
    assert ids("label=team%3Dx&label=tier=2") == ["label/b"]
    assert ids("label=team=z") == []
    assert ids("enabled=false") == ["label/c"]
    assert ids("enabled=true") == ["label/a", "label/b"]


@pytest.mark.parametrize(
    ("path", "field", "value"),
    [("schedules", "label", "a=b"), ("launches", "state", "failed"), ("events", "kind", "launch.*")],
)
def a_parameter_cannot_be_given_more_often_than_the_description_says(service, path, field, value):
    (described,) = [
        each
        for each in service.ask("GET", "/openapi.json").json["paths"][f"/v1/{path}"]["get"]["parameters"]
        if each["name"] == field
    ]
    most = (
        described["schema"]["maxItems"] if "maxItems" in described["schema"] else _most(described["schema"])
    )
    answer = service.ask("GET", f"/v1/{path}?" + "&".join([f"{field}={value}"] * (most + 1)))
    assert (answer.status, answer.json["field"]) == (400, field)


def _most(schema):
    """Of the one of several that is a list."""
    return next(each["maxItems"] for each in schema["oneOf"] if "maxItems" in each)


def a_list_is_narrowed_by_the_kind_of_target(service):
    service.create("kind/a", target={"kind": "exec", "argv": ["true"]})
    service.create("kind/b")

    def ids(kind: str) -> list[str]:
        items = service.ask("GET", f"/v1/schedules?prefix=kind/&target={kind}").json["items"]
        return [item["id"] for item in items]

    assert (ids("exec"), ids("http"), ids("null")) == (["kind/a"], [], ["kind/b"])


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=ten", "limit"),
        ("limit=99999999999999999999", "limit"),
        ("enabled=perhaps", "enabled"),
        ("label=nothing", "label"),
        ("label=a=1&label=a=2", "label"),
        ("enabled=1", "enabled"),
        ("target=zip", "target"),
        ("prefix=../", "prefix"),
        ("prefix=%00", "prefix"),
        ("cursor=page/03", "cursor"),
        ("cursor=" + "A" * 5000, "cursor"),
    ],
)
def a_list_with_a_wrong_parameter_names_it(service, query, field):
    answer = service.ask("GET", f"/v1/schedules?{query}")
    assert answer.status == 400
    assert answer.json["field"] == field
    assert answer.json["allowed"]


def upcoming_instants_follow_the_moment_given(service):
    service.create("upcoming/one", cron="0 12 * * *", timezone="Europe/Berlin")
    path = "/v1/schedules/upcoming/one:upcoming"
    found = service.ask("GET", f"{path}?count=2&after=2027-03-27T00:00:00Z").json
    assert found["items"] == ["2027-03-27T11:00:00Z", "2027-03-28T10:00:00Z"]
    same = service.ask("GET", f"{path}?count=2&after=1805932800").json
    assert same["items"] == ["2027-03-25T11:00:00Z", "2027-03-26T11:00:00Z"]
    assert len(service.ask("GET", path).json["items"]) == 10
    for wrong in ("after=tomorrow", "after=2027-03-27T00:00:00", "count=0", "count=1001"):
        assert service.ask("GET", f"{path}?{wrong}").status == 400, wrong


def upcoming_stays_within_the_window_of_the_schedule(service):
    service.create(
        "upcoming/window", cron="0 0 * * *", start="2030-01-01T00:00:00Z", end="2030-01-02T12:00:00Z"
    )
    found = service.ask("GET", "/v1/schedules/upcoming/window:upcoming").json
    assert found["items"] == ["2030-01-01T00:00:00Z", "2030-01-02T00:00:00Z"]
