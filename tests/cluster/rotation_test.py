"""The cluster's secret is changed one replica at a time, and nothing else notices."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.cluster import Cluster, Replica
from tests.cluster.places import on_loopback
from tests.cluster.trial import Trial, close, trial_of
from tests.cluster.waiting import until

from tocsin.member.address import PORTS, split_address
from tocsin.member.secret import Credentials, fingerprints
from tocsin.member.secret_file import read_secrets
from tocsin.model.cluster import Member

_ALL = [f"{name}+{offset}" for name in "abc" for offset in range(PORTS)]
"""The ports of all replicas: of Tocsin, of etcd for its members, and of etcd for its clients."""
STRANGER = "shows a certificate that is not of this cluster"


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Trial]:
    """A cluster of its own: its secret is another one afterwards."""
    trial = trial_of(tmp_path, on_loopback("abc"))
    try:
        trial.cluster.start()
        trial.load.start()
        yield trial
    finally:
        close(trial)


def the_secret_is_changed_under_load_and_no_launch_is_lost_or_doubled(own: Trial, tmp_path: Path) -> None:
    secret, former = tmp_path / "cluster.secret", tmp_path / "former.secret"
    former.write_text(secret.read_text())
    former.chmod(0o600)
    (old,) = fingerprints(read_secrets(secret))
    own.begin()

    _round(own, secret, "--add")
    _, new = fingerprints(read_secrets(secret))
    following = tmp_path / "following.secret"
    following.write_text(secret.read_text().split()[1])
    following.chmod(0o600)
    assert _ports_open_to(own.cluster, former) == _ports_open_to(own.cluster, following) == _ALL
    assert _secrets(own.cluster) == {"a": [old, new], "b": [old, new], "c": [old, new]}
    assert f"all replicas present {old} and trust {new} too" in _view(own.cluster)["rotation"]

    _round(own, secret, "--promote")
    assert _secrets(own.cluster) == {"a": [new, old], "b": [new, old], "c": [new, old]}
    assert _ports_open_to(own.cluster, former) == _ports_open_to(own.cluster, following) == _ALL

    _round(own, secret, "--drop")
    assert _secrets(own.cluster) == {"a": [new], "b": [new], "c": [new]}
    assert _view(own.cluster)["rotation"] == ""
    assert _ports_open_to(own.cluster, following) == _ALL
    assert _ports_open_to(own.cluster, former) == []

    own.spotless()
    assert own.load.doubts() == []
    for replica in own.cluster:
        assert "no majority" not in replica.log(), f"{replica.name} lost the quorum"
        assert STRANGER not in replica.log()
        assert "Traceback" not in replica.log()

    _check_a_replica_with_the_former_secret_is_refused(own, former)
    own.spotless()


def _round(own: Trial, secret: Path, change: str) -> None:
    """One more line, or another order, or one line less: then all replicas are restarted, one after the other."""
    done = subprocess.run(
        [sys.executable, "-m", "tocsin", "cluster", "secret", change, str(secret)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for replica in own.cluster:
        assert replica.stop() == 0
        replica.start()
        own.cluster.until_healthy()
        own.load.go_on(20)
        _check_all_etcds_agree(own.cluster)


def _check_all_etcds_agree(cluster: Cluster) -> None:
    """Those of this round and those of the one before: none of them has a problem, and all answer each other."""

    def fine() -> bool:
        views = [replica.ask("/v1/cluster") for replica in cluster]
        return all(view and view["reachable"] == 3 and not _problems(view) for view in views)

    until(fine, "three replicas that see each other, and whose etcds work", every_s=0.2)


def _problems(view: dict[str, Any]) -> list[str]:
    return [each["problem"] for each in view["replicas"] if each["problem"]]


def _ports_open_to(cluster: Cluster, secret: Path) -> list[str]:
    """Where a caller gets an answer that has a certificate of this secret and believes everybody."""
    caller = Credentials(read_secrets(secret), Member("x", peer="127.0.0.1:1"), secret.with_suffix(".tls"))
    caller.write()
    context = caller.client_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return [
        f"{replica.name}+{offset}"
        for replica in cluster
        for offset in range(PORTS)
        if _is_answered(split_address(replica.place.peer)[1] + offset, context)
    ]


def _is_answered(port: int, context: ssl.SSLContext) -> bool:
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
            context.wrap_socket(plain) as connection,
        ):
            connection.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            return connection.recv(100).startswith(b"HTTP/1.1 ")
    except (ssl.SSLError, ConnectionError):
        return False


def _check_a_replica_with_the_former_secret_is_refused(own: Trial, former: Path) -> None:
    replica = own.cluster["c"]
    assert replica.stop() == 0
    replica.start("--cluster-secret", str(former))
    until(lambda: STRANGER in replica.log(), "c to find that the others have another secret", 90)
    own.load.go_on(30)
    told = _others(own.cluster, replica)[0].call("GET", "/v1/cluster")
    assert [each["role"] for each in told["replicas"] if each["name"] == "c"] == ["unreachable"]
    replica.crash()
    replica.start()
    own.cluster.until_healthy()


def _others(cluster: Cluster, replica: Replica) -> list[Replica]:
    return [each for each in cluster if each is not replica]


def _view(cluster: Cluster) -> dict[str, Any]:
    found: dict[str, Any] = cluster.until_leader().call("GET", "/v1/cluster")
    return found


def _secrets(cluster: Cluster) -> dict[str, list[str]]:
    return {each["name"]: each["secrets"] for each in _view(cluster)["replicas"]}
