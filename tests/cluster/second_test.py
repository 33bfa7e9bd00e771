"""A second cluster beside the first, by mistake: with its secret and the place of its backups."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.cluster.cluster import Cluster
from tests.cluster.places import Place, on_loopback
from tests.cluster.waiting import until
from tests.needs import program

ONCE = {"cron": "0 0 29 2 *", "target": {"kind": "null"}}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """It has a schedule, and a backup of it. One replica will do: every one of a list is asked alike. Whoever takes it
    away is the last one here."""
    program("etcd", "etcd-server")
    folder = tmp_path_factory.mktemp("first")
    cluster = Cluster(folder, on_loopback("a"), "--backup", str(folder / "backups"))
    with closing(cluster):
        cluster.start()
        cluster["a"].call("PUT", "/v1/schedules/kept", ONCE)
        cluster["a"].call("POST", "/v1/backup", timeout_s=30)
        yield cluster


def _second(first: Cluster, folder: Path, places: dict[str, Place]) -> Cluster:
    backups, secret = str(first.folder / "backups"), str(first.folder / "cluster.secret")
    return Cluster(folder, places, "--backup", backups, "--cluster-secret", secret)


@pytest.mark.parametrize(("name", "told"), [("d", "not in --cluster"), ("a", "its cluster goes on")])
def it_does_not_launch_what_the_first_one_launches(
    first: Cluster, tmp_path: Path, name: str, told: str
) -> None:
    with closing(_second(first, tmp_path, on_loopback(name))) as second:
        replica = second[name]
        replica.start()
        until(lambda: not replica.is_running(), "the second one to refuse")
        log = replica.log()
        assert told in log
        assert f"a={first['a'].place.peer}" in log
        assert "tocsin restore" in log
        assert "Traceback" not in log
    assert first["a"].is_running()


def on_other_machines_it_goes_on_when_the_first_one_is_lost(first: Cluster, tmp_path: Path) -> None:
    first["a"].wipe()
    with closing(_second(first, tmp_path, on_loopback("a"))) as second:
        second.start()
        assert second["a"].call("GET", "/v1/schedules/kept")["id"] == "kept"
