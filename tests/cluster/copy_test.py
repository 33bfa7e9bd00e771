"""A data directory that is put back from a copy brings back an older log of its etcd."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.cluster.client import Client, schedules_of
from tests.cluster.cluster import Cluster
from tests.cluster.places import on_loopback
from tests.cluster.waiting import until
from tests.needs import program

NEVER = {"cron": "0 0 29 2 *", "target": {"kind": "null"}}
DUE_IN_S = 30
"""Long enough for two replicas to be stopped and one of them to be copied."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    program("etcd", "etcd-server")
    with closing(Cluster(tmp_path, on_loopback("abc"), "--allow-exec", "yes")) as cluster:
        cluster.start()
        yield cluster


def an_older_copy_of_one_replica_loses_and_repeats_nothing(cluster: Cluster) -> None:
    """c is away while a and b acknowledge. Then a has only the copy, and b is away: a and c are a majority that knows
    nothing of it."""
    a, b, c = cluster
    cluster.make_leader("b")
    out = cluster.folder / "out"
    due = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + DUE_IN_S))
    command = {"kind": "exec", "shell": f"echo $TOCSIN_LAUNCH $TOCSIN_ATTEMPT >> {out}"}
    b.call("PUT", "/v1/schedules/pay", {"cron": f"@at {due}", "missed": "last", "target": command})
    a.stop()
    shutil.copytree(a.data, cluster.folder / "copy")
    a.start()
    cluster.until_healthy()
    c.stop()
    acknowledged = {f"new/{number}" for number in range(20)}
    assert not out.exists(), "too early: the copy was to know of no call"
    for id in acknowledged:
        b.call("PUT", f"/v1/schedules/{id}", NEVER)
    until(lambda: out.exists() and out.read_text(), "the command to run")
    a.stop()
    shutil.rmtree(a.data)
    shutil.copytree(cluster.folder / "copy", a.data)
    b.crash()
    a.start()
    c.start()
    until(lambda: "it waits until it can join" in a.log(), "a to wait")
    assert f"directory={a.data}/member/etcd" in a.log()
    assert a.etcd_pids() == []
    assert cluster.leader() is None

    b.start()
    cluster.until_healthy()
    for replica in cluster:
        assert schedules_of(replica, "new/") == acknowledged
    assert len(out.read_text().splitlines()) == 1
    assert "the copy of the former etcd data was put aside" in a.log()
    c.stop()
    Client(cluster).call("PUT", "/v1/schedules/voted-by-a-and-b", NEVER)
