"""The replicas, as the API shows them: one that is alone, and what several say side by side."""

from __future__ import annotations

import pytest

from tocsin.api.resources.replicas import Asked, agree, view
from tocsin.model.cluster import Member, PeerStatus, SnapshotMark, Voters, majority_of

NOW = Asked(1_000_000, 1_000_400)


def _status(name: str, **more) -> PeerStatus:
    return PeerStatus(
        **{"name": name, "version": "1", "role": "follower", "term": 3, "incarnation": "i", **more}
    )


def a_replica_that_is_alone_is_a_cluster_of_one(service):
    answer = service.ask("GET", "/v1/cluster")
    assert answer.status == 200
    found = answer.json
    (alone,) = found["replicas"]
    assert found["leader"] == found["answered_by"] == alone["name"]
    assert (found["majority"], found["reachable"], found["digests_agree"]) == (1, 1, True)
    assert (alone["role"], alone["lag"]) == ("leader", 0)
    assert abs(alone["clock_offset_ms"]) < 1_000
    status = service.ask("GET", "/v1/status").json
    assert (alone["term"], found["incarnation"]) == (status["term"], status["incarnation"])
    assert status["role"] == "leader"


@pytest.mark.parametrize(
    ("verb", "body", "word"),
    [
        ("step-down", None, "no other replica"),
        ("add", {"name": "d", "peer": "10.0.0.4:8410"}, "--cluster"),
        ("remove", {"name": "d"}, "--cluster"),
    ],
)
def what_needs_several_replicas_is_refused_by_one(service, verb, body, word):
    answer = service.ask("POST", f"/v1/cluster:{verb}", body)
    assert answer.status == 409
    assert word in answer.json["detail"] + answer.json["hint"]
    assert service.ask("GET", "/readyz").status == 200


@pytest.mark.parametrize(
    ("verb", "body", "field"),
    [
        ("add", {"name": "A b", "peer": "h:1"}, "name"),
        ("add", {"name": "d", "peer": "not an address"}, "peer"),
        ("add", {"name": "d", "peer": "h:99999"}, "peer"),
        ("add", {"name": "d"}, "peer"),
        ("add", {"name": "d", "peer": "h:1", "vote": 1}, "vote"),
        ("remove", {"name": 7}, "name"),
    ],
)
def what_is_no_replica_is_refused_by_its_field(service, verb, body, field):
    answer = service.ask("POST", f"/v1/cluster:{verb}", body)
    assert answer.status == 400
    assert field in answer.json["field"] + answer.json["detail"]


def there_is_no_other_verb(service):
    assert service.ask("POST", "/v1/cluster:explode").status == 404
    assert service.ask("GET", "/v1/cluster:add").status == 405


def looking_needs_a_reader_and_changing_an_admin(guarded):
    reader = guarded.as_(
        guarded.ask("POST", "/v1/tokens", {"name": "looker", "scopes": ["read"]}).json["token"]
    )
    assert reader.ask("GET", "/v1/cluster").status == 200
    for verb in ("step-down", "add", "remove"):
        assert reader.ask("POST", f"/v1/cluster:{verb}", {"name": "d", "peer": "h:1"}).status == 403
    assert guarded.as_("").ask("GET", "/v1/cluster").status == 401


def a_majority_is_one_of_those_that_have_joined():
    members = [Member(name) for name in "abcde"]
    assert view(_status("a"), {}, members, NOW).majority == 3
    assert view(_status("a"), {}, members, NOW, majority_of("abc")).majority == 2
    assert view(_status("a"), {}, members, NOW, Voters(("a", "b", "c"), 1)).majority == 1
    assert view(_status("a"), {}, members[:1], NOW, majority_of("ab")).majority == 1, "b was just removed"


def the_next_step_is_told_while_the_secret_is_changed():
    members = [Member(name) for name in "ab"]
    b = _status("b", secrets=["old"])
    found = view(_status("a", secrets=["old", "new"]), {"b": b}, members, NOW)
    assert [each.secrets for each in found.replicas] == [["old", "new"], ["old"]]
    assert "only a trusts new" in found.rotation
    assert view(_status("a", secrets=["old"]), {"b": b}, members, NOW).rotation == ""


def several_replicas_are_shown_side_by_side():
    mark = SnapshotMark(40, "d", 1_000_400 - 7_500)
    found = view(
        _status("b", sequence=50, leader="a", wall_ms=1_000_200),
        {
            "a": _status(
                "a", role="leader", sequence=60, snapshots=[mark], wall_ms=1_000_900, started_ms=5_000
            ),
            "c": None,
        },
        [Member("a", "h:1", "http://a"), Member("b", "h:2"), Member("c", "h:3", "http://c")],
        NOW,
    )
    assert (found.leader, found.sequence, found.majority, found.reachable) == ("a", 60, 2, 2)
    a, b, c = found.replicas
    assert (a.role, a.lag, a.snapshot_sequence, a.snapshot_age_s, a.digest) == ("leader", 0, 40, 7, "d")
    assert (a.peer, a.api, a.clock_offset_ms) == ("h:1", "http://a", 500)
    assert (b.role, b.lag, b.clock_offset_ms) == ("follower", 10, 0)
    assert (c.role, c.peer, c.api, c.lag, c.problem) == (
        "unreachable",
        "h:3",
        "http://c",
        None,
        "h:3 does not answer",
    )


def a_clock_is_off_only_by_what_is_certain():
    assert NOW.offset_ms(1_000_300) == 0
    assert NOW.offset_ms(999_000) == -1_000
    assert NOW.offset_ms(1_001_400) == 1_000


def who_leads_is_who_says_so():
    members = [Member("a", "h:1"), Member("b", "h:2"), Member("c", "h:3")]
    own = _status("b", leader="a")
    # One that answers knows better than what others remember of it.
    assert view(own, {"a": _status("a"), "c": _status("c")}, members, NOW).leader == ""
    assert (
        view(own, {"a": _status("a"), "c": _status("c", role="leader", term=4)}, members, NOW).leader == "c"
    )
    both = {"a": _status("a", role="leader", term=3), "c": _status("c", role="leader", term=4)}
    assert view(own, both, members, NOW).leader == "c"
    assert view(own, {"a": None, "c": None}, members, NOW).leader == "a"


def replicas_that_disagree_are_noticed():
    def marked(name: str, seq: int, digest: str) -> PeerStatus:
        return _status(name, snapshots=[SnapshotMark(seq, digest, 5)])

    assert agree([marked("a", 7, "x"), marked("b", 7, "x"), marked("c", 8, "y")])
    assert not agree([marked("a", 7, "x"), marked("b", 7, "y")])
    assert agree([marked("a", 7, "x"), marked("b", 7, "")])
    assert agree([_status("a", digests={3: "x", 4: "y"}), _status("b", digests={4: "y", 5: "z"})])
    assert not agree([_status("a", digests={3: "x", 4: "y"}), _status("b", digests={4: "Y"})])
    restored = _status("b", incarnation="other", digests={4: "Y"})
    assert view(_status("a", digests={4: "y"}), {"b": restored}, [], NOW).digests_agree
