"""A full disk on one replica is that replica's trouble alone."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.cluster import Replica
from tests.cluster.trial import Trial
from tests.needs import lacking

_SIZE = "256m"
"""etcd sets aside two files of 64 MB each for what it is going to write."""


@pytest.fixture
def cramped(trial: Trial) -> Iterator[Replica]:
    """A follower whose data directory is a small file system of its own."""
    trial.begin()
    replica = trial.cluster.followers()[0]
    replica.wipe()
    replica.data.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(replica.data)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        lacking("mounting a small file system needs root")
    try:
        trial.cluster.until_healthy()
        yield replica
    finally:
        replica.crash()
        subprocess.run(["umount", "--lazy", str(replica.data)], check=True)
        replica.wipe()
        trial.cluster.until_healthy()


def _fill(place: Path) -> Path:
    """Take every last byte."""
    ballast = place / "ballast"
    for size in (1 << 20, 4096, 1):
        with ballast.open("ab") as file, contextlib.suppress(OSError):
            while True:
                os.write(file.fileno(), b"x" * size)
    return ballast


def a_full_disk_on_the_leader_stops_no_launches(trial: Trial, cramped: Replica) -> None:
    trial.cluster.make_leader(cramped.name)
    trial.begin()
    ballast = _fill(cramped.data)
    trial.load.go_on(150)
    ballast.unlink()
    trial.spotless()
