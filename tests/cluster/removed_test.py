"""A replica that was removed from the cluster stops and does not take office, also if its etcd cannot tell it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.cluster.cluster import Cluster, Refused, Replica
from tests.cluster.places import on_loopback
from tests.cluster.waiting import PATIENCE_S, until
from tests.etcd import damage_log, etcd
from tests.needs import program

NEVER = {"cron": "0 0 29 2 *", "target": {"kind": "null"}}
SECONDLY = {"cron": "* * * * * *", "target": {"kind": "null"}}
STOPS = "this replica was removed from the cluster; it stops"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    program("etcd", "etcd-server")
    with closing(Cluster(tmp_path, on_loopback("abc"))) as cluster:
        cluster.start()
        cluster.make_leader("a")
        cluster["a"].call("PUT", "/v1/schedules/secondly", SECONDLY)
        yield cluster


def _damage_etcd(replica: Replica) -> None:
    damage_log(replica.data / "member" / "etcd")
    replica.kill_etcd()


def _remove(through: Replica, name: str) -> None:
    def is_done() -> bool:
        """etcd refuses it until its members have been connected for five seconds."""
        try:
            through.call("POST", "/v1/cluster:remove", {"name": name}, timeout_s=30)
        except Refused:
            return False
        return True

    until(is_done, f"{name} to be removed", every_s=0.5)


def a_removed_replica_whose_etcd_is_damaged_stops_and_stays_away(cluster: Cluster) -> None:
    a, _, c = cluster
    _damage_etcd(c)
    until(lambda: "etcd ended" in c.log(), "c to notice that its etcd has ended")
    issues = until(lambda: (c.ask("/v1/status") or {}).get("issues"), "c to tell an issue")
    assert "The etcd of this replica does not work, and only those of the others are left" in " ".join(issues)
    assert c.is_running(), "a damaged etcd is no reason to stop"
    _remove(a, "c")
    assert c.process is not None
    assert c.process.wait(PATIENCE_S) == 1
    assert STOPS in c.log()
    assert "the service ends" in c.log()
    c.start()
    assert c.process.wait(PATIENCE_S) != 0
    assert "c is not a member of this cluster" in c.log()
    a.call("PUT", "/v1/schedules/new", NEVER)


def a_removed_replica_that_has_not_noticed_it_wins_no_election(cluster: Cluster) -> None:
    """It stands still while it is removed. When it goes on, nobody leads, and its time to stand has come."""
    a, b, c = cluster
    _damage_etcd(c)
    until(lambda: "etcd ended" in c.log(), "c to notice that its etcd has ended")
    c.pause()
    before = len(c.log())
    _remove(a, "c")
    b.pause()
    a.kill()
    c.resume()
    assert c.process is not None
    assert c.process.wait(PATIENCE_S) == 1
    since = c.log()[before:]
    assert "c was removed from the cluster" in since
    assert "took office" not in since
    b.resume()
    until(lambda: (b.ask("/v1/status") or {}).get("leader") == "b", "b to lead")
    b.call("PUT", "/v1/schedules/new", NEVER)


def who_is_removed_stops_also_on_an_etcd_for_all(tmp_path: Path) -> None:
    with (
        etcd(tmp_path / "etcd") as journal,
        closing(Cluster(tmp_path, on_loopback("abc"), "--journal", journal.url)) as cluster,
    ):
        cluster.start()
        leader, (removed, _) = cluster.until_leader(), cluster.followers()
        _remove(leader, removed.name)
        assert removed.process is not None
        assert removed.process.wait(PATIENCE_S) == 1
        assert STOPS in removed.log()
        leader.call("PUT", "/v1/schedules/new", NEVER)
