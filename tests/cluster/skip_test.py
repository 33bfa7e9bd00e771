"""``tocsin journal skip`` on one replica, of what the others have applied."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.cluster import differing
from tests.cluster.cluster import Cluster, Replica
from tests.cluster.places import on_loopback
from tests.cluster.waiting import until
from tests.needs import program

ONCE = {"cron": "0 0 29 2 *", "target": {"kind": "null"}}
POISON = "poison"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    program("etcd", "etcd-server")
    with closing(Cluster(tmp_path, on_loopback("abc"))) as cluster:
        cluster["c"].module = differing.__name__
        cluster["c"].environment = {differing.VARIABLE: POISON}
        cluster.start()
        if cluster.until_leader().name == "c":
            cluster.make_leader("a")
        yield cluster


def _skip(replica: Replica, seq: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tocsin", "journal", "skip", str(seq), "--data", str(replica.data)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def _put(leader: Replica, id: str) -> None:
    leader.call("PUT", f"/v1/schedules/{id}", ONCE)


def _has(replica: Replica, id: str) -> bool:
    return replica.ask(f"/v1/schedules/{id}") is not None


def a_skip_on_one_replica_of_what_others_have_applied_is_refused(cluster: Cluster) -> None:
    """Whether the replica only was away, or could not apply the entry."""
    leader, odd = cluster.until_leader(), cluster["c"]
    odd.kill()
    seq = leader.call("GET", "/v1/status")["sequence"]
    for number in range(3):
        _put(leader, f"meanwhile{number}")
    done = _skip(odd, seq + 1)
    assert done.returncode != 0
    assert f"entry {seq + 1} is not one that this replica could not apply" in done.stderr
    cluster.until_healthy()

    _put(leader, POISON)
    until(lambda: not odd.is_running(), "the odd one to stop")
    found = re.search(r"journal entry (\d+) cannot be applied", odd.log())
    assert found is not None, odd.log()[-2000:]
    assert _skip(odd, int(found[1])).returncode == 0
    odd.start()
    until(lambda: not odd.is_running(), "the odd one to refuse")
    assert f"entry {found[1]} is not skipped" in odd.log(), odd.log()[-2000:]

    # Nothing was lost, and the others start as before.
    for name in "ab":
        assert cluster[name].stop() == 0
        cluster[name].start()
        until(lambda one=cluster[name]: _has(one, POISON), f"{name} to be back")

    # The remedy that the message names. A snapshot is made every few seconds.
    def is_covered() -> bool:
        status = cluster["a"].ask("/v1/cluster")
        return status is not None and any(
            (each["snapshot_sequence"] or 0) >= int(found[1]) for each in status["replicas"]
        )

    until(is_covered, "a snapshot behind the entry")
    for path in [*odd.data.glob("state.db*"), *odd.data.glob("snapshots")]:
        path.rename(cluster.folder / f"old-{path.name}")
    odd.start()
    until(lambda: _has(odd, POISON), "the odd one to have fetched the state")
    cluster.until_healthy()
