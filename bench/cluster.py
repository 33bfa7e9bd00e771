"""Three replicas on this machine, each with its own etcd, all as processes of their own."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.cluster import Cluster, Replica
from tests.cluster.places import on_loopback

from bench.service import Running

MISSING = "there is no etcd on this machine (Debian: apt-get install etcd-server)"


def is_possible() -> bool:
    return shutil.which("etcd") is not None


@contextlib.contextmanager
def three(folder: Path, *more: str) -> Iterator[Cluster]:
    folder.mkdir(parents=True, exist_ok=True)
    # Snapshots as often as users have them, not as often as tests want them.
    options = ["--snapshot-interval", "5m", "--rate-limit", "0", *more]
    cluster = Cluster(folder, on_loopback("abc"), *options)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


def running(replica: Replica) -> Running:
    return Running(replica.url, replica.data / "state.db", replica.pid, replica.log_path)
