"""``tocsin cluster`` and what is below it."""

from __future__ import annotations

import pytest

from tocsin.cli.cluster import _complaints, _show_secrets
from tocsin.model.cluster import ClusterView, ReplicaView

_TITLES = ["NAME", "ROLE", "TERM", "SEQUENCE", "LAG", "SNAPSHOT", "DIGEST", "CLOCK", "PROBLEM"]


def the_replicas_are_a_table(tocsin):
    done = tocsin("cluster")
    assert done.status == 0, done
    title, row = done.out.splitlines()
    assert title.split() == _TITLES
    assert row.split()[1] == "leader"


def for_programs_it_is_what_the_api_says(tocsin):
    found = tocsin("cluster", "--json").json
    assert found["leader"] == found["replicas"][0]["name"] == tocsin("status", "--json").json["replica"]


@pytest.mark.parametrize("words", [("step-down",), ("add", "d=10.0.0.4:8410"), ("remove", "d")])
def one_replica_alone_refuses_what_needs_several(tocsin, words):
    done = tocsin("cluster", *words)
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("tocsin: there is no")


def an_address_that_is_none_is_refused_before_anybody_is_asked(alone):
    for given in ("d", "d=", "D=h", "d=h:0", "=h:1"):
        done = alone("cluster", "add", given)
        assert done.status == 1, given
        assert "allowed" in done.err


def nobody_there_is_told_like_everywhere(alone):
    done = alone("cluster")
    assert (done.status, done.out) == (3, "")
    assert "tocsin serve" in done.err
    assert alone("cluster", "--json").err.startswith('{"type"')


def a_secret_is_made_without_a_service_and_never_twice(alone):
    first, second = alone("cluster", "secret"), alone("cluster", "secret", "--json")
    assert first.status == second.status == 0
    assert len(first.out.strip()) >= 43
    assert first.out.strip() != second.json["secret"]


def the_file_of_a_secret_is_changed_in_three_rounds(alone, tmp_path):
    file = tmp_path / "cluster.secret"
    file.write_text(alone("cluster", "secret").out)
    file.chmod(0o640)
    (old,) = file.read_text().splitlines()
    added = alone("cluster", "secret", "--add", str(file))
    assert added.status == 0, added
    assert f"tocsin cluster secret --promote {file}" in added.err
    kept, new = file.read_text().splitlines()
    assert kept == old
    promoted = alone("cluster", "secret", "--promote", str(file))
    assert f"tocsin cluster secret --drop {file}" in promoted.err
    assert file.read_text().splitlines() == [new, old]
    first, second = (done.out.split() for done in (added, promoted))
    assert (first[2], first[4]) == (second[4] + ",", second[2].rstrip(","))
    dropped = alone("cluster", "secret", "--drop", str(file), "--json")
    assert dropped.json == {"file": str(file), "secrets": [second[2].rstrip(",")]}
    assert file.read_text().splitlines() == [new]
    assert file.stat().st_mode & 0o777 == 0o640
    for done in (added, promoted, dropped):
        assert old not in done.out + done.err
        assert new not in done.out + done.err


def a_round_out_of_turn_or_two_at_once_leave_the_file_alone(alone, tmp_path):
    file = tmp_path / "cluster.secret"
    file.write_text("a secret that is the only one of its cluster\n")
    file.chmod(0o600)
    for words, told in (
        (("--promote", file), "add a new one first"),
        (("--drop", file), "it is in use"),
        (("--add", file, "--drop", file), "one round at a time"),
        (("--add", tmp_path / "none"), "cannot be read"),
    ):
        done = alone("cluster", "secret", *map(str, words))
        assert (done.status, done.out) == (1, ""), words
        assert told in done.err
    assert file.read_text() == "a secret that is the only one of its cluster\n"


def while_the_secret_is_changed_the_secrets_and_the_next_step_are_shown(capsys):
    replicas = [
        ReplicaView(name="a", role="leader", peer="", api="", secrets=["new", "old"]),
        ReplicaView(name="b", role="follower", peer="", api="", secrets=["old", "new"]),
        ReplicaView(name="c", role="unreachable", peer="", api=""),
    ]
    _show_secrets(_view(replicas=replicas, rotation="what to do next"))
    told = capsys.readouterr()
    assert told.out == "a: presents new, trusts old too\nb: presents old, trusts new too\n"
    assert told.err == "what to do next\n"


def the_help_says_what_the_columns_and_the_exit_status_mean(alone):
    told = " ".join(alone("cluster", "--help").out.split())
    for word in ("LAG", "DIGEST", "exit status is 1", "step-down", "secret"):
        assert word in told


def _view(**more) -> ClusterView:
    replicas = [
        ReplicaView(name="a", role="leader", peer="", api=""),
        ReplicaView(name="b", role="follower", peer="", api=""),
        ReplicaView(name="c", role="unreachable", peer="", api=""),
    ]
    fields = {
        "answered_by": "b",
        "leader": "a",
        "term": 1,
        "sequence": 1,
        "incarnation": "i",
        "majority": 2,
        "reachable": 2,
        "digests_agree": True,
        "replicas": replicas,
    }
    return ClusterView(**{**fields, **more})


def what_somebody_must_look_at_is_said():
    assert _complaints(_view()) == []
    for wrong, word in (
        ({"leader": ""}, "nobody leads"),
        ({"leader": "c"}, "c led last and does not answer"),
        ({"leader": "d"}, "d led last and is no replica of this cluster any more"),
        ({"digests_agree": False}, "different states"),
    ):
        (complaint,) = _complaints(_view(**wrong))
        assert word in complaint
    first, second = _complaints(_view(reachable=1, leader=""))
    assert "only 1 of 3" in first
    assert "nobody leads" in second
    assert _complaints(_view(reachable=1)) == [], "after a recovery one may be all there is"
