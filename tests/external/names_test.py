"""Two services with one name on one etcd, and a data directory that comes back from a copy."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.api.conftest import Service, eventually
from tests.etcd import EtcdCluster, etcd


class Place:
    """An etcd, and services on it that have the same name, as those on one host have by default."""

    def __init__(self, cluster: EtcdCluster, folder: Path, start: Callable[..., Service]) -> None:
        self._cluster = cluster
        self._folder = folder
        self._start = start

    def data(self, disk: str) -> Path:
        (self._folder / disk).mkdir(exist_ok=True)
        return self._folder / disk / "data"

    def begin(self, disk: str) -> Service:
        return self._start(self.data(disk), "--journal", self._cluster.url, "--allow-exec", "yes")

    def start(self, disk: str) -> Service:
        service = self.begin(disk)
        eventually(lambda: service.ask("GET", "/v1/status").json["role"] == "leader")
        return service

    def refused(self, disk: str) -> str:
        """What a service says that does not start."""
        with pytest.raises(AssertionError) as told:
            self.begin(disk)
        return str(told.value)


@pytest.fixture
def place(tmp_path: Path, start: Callable[..., Service]) -> Iterator[Place]:
    with etcd(tmp_path / "etcd") as cluster:
        yield Place(cluster, tmp_path, start)


def a_second_living_replica_of_the_same_name_is_refused(place: Place) -> None:
    first = place.start("one")
    told = place.refused("two")
    assert "another replica named" in told
    assert "--name" in told
    first.create("still/led")
    first.stop(signal.SIGKILL)
    place.start("two").create("after/the/death/of/the/first")


def a_copy_of_a_disk_does_not_run_beside_its_original(place: Place) -> None:
    """It cannot be told from a disk whose process was killed, until the original is heard."""
    first = place.start("one")
    shutil.copytree(first.data, place.data("two"))
    second = place.begin("two")
    assert eventually(second.process.poll, within_s=40) == 1
    assert "on a copy of this data directory" in second.log.read_text()
    first.create("still/led")
    assert first.process.poll() is None


def a_disk_that_was_put_back_from_a_copy_of_the_same_term_launches_nothing_again(
    place: Place, tmp_path: Path
) -> None:
    service, out = place.start("one"), tmp_path / "out"
    service.create("x", target={"kind": "exec", "shell": f"echo called >> {out}; sleep 30"})
    shutil.copytree(service.data, tmp_path / "copy")
    assert service.ask("POST", "/v1/schedules/x:run", {}).status == 202
    eventually(lambda: out.exists() and out.read_text())
    service.stop(signal.SIGKILL)
    shutil.rmtree(service.data)
    (tmp_path / "copy").rename(service.data)
    service = place.start("one")
    eventually(lambda: service.ask("GET", "/v1/launches").json["items"][0]["state"] == "in_doubt")
    assert out.read_text() == "called\n"
