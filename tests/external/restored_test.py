"""An external etcd that was restored from an old copy, or replaced, under services that have seen more: they notice it,
stop with the remedy, and launch nothing twice."""

from __future__ import annotations

import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.api.conftest import Service, eventually, schedule
from tests.cli.conftest import Command
from tests.etcd import EtcdCluster, _is_up, etcd

NOTICED = "does not continue what this replica has applied"


class Pair:
    """A leader and a stand-by on one etcd, and what they have launched."""

    def __init__(self, cluster: EtcdCluster, folder: Path, start: Callable[..., Service]) -> None:
        self.cluster = cluster
        self.folder = folder
        self._start = start
        self._out = folder / "launched"
        self._out.touch()
        self.services = [self.start(name) for name in ("a", "b")]

    def start(self, name: str, prefix: str = "") -> Service:
        (self.folder / name).mkdir(exist_ok=True)
        options = ("--name", name, "--journal", self.cluster.url + prefix, "--allow-exec", "yes")
        return self._start(self.folder / name / "data", *options)

    def launch_every_second(self) -> None:
        command = ["sh", "-c", f"echo $TOCSIN_LAUNCH >> {self._out}"]
        self.create("tick", cron="@every 1s", target={"kind": "exec", "argv": command})
        self.launches(2)

    def create(self, id: str, **fields: Any) -> None:
        """By whoever leads: a stand-by forwards nothing."""
        body = schedule(id, **fields)

        def is_created() -> bool:
            answers = [service.ask("POST", "/v1/schedules", body).status for service in self.services]
            assert set(answers) <= {201, 409, 503}, answers
            return 201 in answers

        eventually(is_created, within_s=20)

    def launches(self, more: int) -> None:
        """Wait for so many more."""
        wanted = len(self.launched) + more
        eventually(lambda: len(self.launched) >= wanted, within_s=20)

    @property
    def launched(self) -> list[str]:
        return self._out.read_text().split()

    def sequences(self) -> list[int]:
        asked = [service.ask("GET", "/v1/status").json for service in self.services]
        return [int(status["sequence"]) for status in asked]

    def all_see_more(self) -> None:
        """A replica that has seen no more than an old copy holds cannot know that there was more."""
        eventually(lambda: min(self.sequences()) > self.copied, within_s=20)

    def stop_etcd(self) -> None:
        for server in self.cluster.servers:
            server.end()

    def start_etcd(self) -> None:
        for server in self.cluster.servers:
            server.start()
        assert _is_up(self.cluster)

    def copy_etcd(self) -> Path:
        """As it is now, while nobody writes to it."""
        self.stop_etcd()
        self.copied = max(self.sequences())
        copy = self.folder / "copy"
        shutil.copytree(self.cluster.servers[0].folder, copy)
        return copy

    def put_back(self, copy: Path | None) -> None:
        """None: an empty one takes its place."""
        place = self.cluster.servers[0].folder
        shutil.rmtree(place)
        if copy is not None:
            shutil.copytree(copy, place)

    def all_stop(self, told: str = NOTICED) -> None:
        for service in self.services:
            assert service.process.wait(30) != 0
            log = service.log.read_text()
            assert told in log, log[-3000:]
            assert "docs/damage.md" in log
            assert "Traceback" not in log

    def nothing_was_launched_twice(self) -> None:
        twice = {name: times for name, times in Counter(self.launched).items() if times > 1}
        assert not twice


@pytest.fixture
def pair(tmp_path: Path, start: Callable[..., Service]) -> Iterator[Pair]:
    with etcd(tmp_path / "etcd") as cluster:
        yield Pair(cluster, tmp_path, start)


def an_etcd_restored_from_an_old_copy_stops_leader_and_stand_by(pair: Pair) -> None:
    pair.launch_every_second()
    copy = pair.copy_etcd()
    pair.start_etcd()
    pair.launches(3)
    pair.all_see_more()
    pair.stop_etcd()
    pair.put_back(copy)
    pair.start_etcd()
    pair.all_stop()
    pair.nothing_was_launched_twice()


def a_replica_that_was_stopped_by_it_refuses_to_start_again(pair: Pair) -> None:
    copy = pair.copy_etcd()
    pair.start_etcd()
    pair.create("later")
    pair.all_see_more()
    pair.stop_etcd()
    pair.put_back(copy)
    pair.start_etcd()
    pair.all_stop()
    with pytest.raises(AssertionError, match=NOTICED):
        pair.start("a")


def an_old_copy_under_an_idle_leader_is_noticed(pair: Pair) -> None:
    """Nothing is due and nobody asks for anything: the next reconnect tells."""
    copy = pair.copy_etcd()
    pair.start_etcd()
    pair.create("later")
    pair.all_see_more()
    pair.stop_etcd()
    pair.put_back(copy)
    pair.start_etcd()
    pair.all_stop()


def an_empty_etcd_in_its_place_is_noticed(pair: Pair) -> None:
    pair.launch_every_second()
    pair.stop_etcd()
    pair.put_back(None)
    pair.start_etcd()
    pair.all_stop("the journal's head is missing")
    pair.nothing_was_launched_twice()


def an_old_copy_that_others_have_written_to_is_noticed(pair: Pair) -> None:
    """A clone of a replica goes on with the old copy while those who know more are paused: the numbers of the entries
    go beyond what these have seen."""
    pair.launch_every_second()
    copy = pair.copy_etcd()
    for service in pair.services:
        service.process.send_signal(signal.SIGSTOP)
    clone = pair.folder / "c" / "data"
    shutil.copytree(pair.services[1].data, clone)
    pair.start_etcd()
    for service in pair.services:
        service.process.send_signal(signal.SIGCONT)
    pair.launches(2)
    pair.all_see_more()
    seen = max(pair.sequences())
    for service in pair.services:
        service.process.send_signal(signal.SIGSTOP)
    pair.stop_etcd()
    pair.put_back(copy)
    pair.start_etcd()
    other = pair.start("c")
    eventually(lambda: other.ask("GET", "/v1/status").json["sequence"] > seen + 5, within_s=30)
    for service in pair.services:
        service.process.send_signal(signal.SIGCONT)
    pair.all_stop()


def after_it_a_new_journal_goes_on_from_the_state_of_a_replica(pair: Pair) -> None:
    """The remedy: nothing that the replica has seen is lost, and a stand-by joins with an empty disk."""
    copy = pair.copy_etcd()
    pair.start_etcd()
    pair.create("later")
    pair.all_see_more()
    pair.stop_etcd()
    pair.put_back(copy)
    pair.start_etcd()
    pair.all_stop()
    done = Command(None)("restore", str(pair.services[0].data), "--data", str(pair.folder / "c" / "data"))
    assert done.status == 0, done.err
    other = pair.start("c", prefix="/tocsin/new")
    assert other.ask("GET", "/v1/schedules/later").status == 200
    other.create("after/it")
    joined = pair.start("d", prefix="/tocsin/new")
    eventually(lambda: joined.ask("GET", "/v1/schedules/after/it").status == 200)
    assert joined.ask("GET", "/v1/schedules/later").status == 200
