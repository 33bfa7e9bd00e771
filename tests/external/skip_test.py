"""An entry that no replica can apply, on an etcd that the services do not run themselves: they go on without it when an
operator has told each of them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.api.conftest import Service, eventually, schedule
from tests.etcd import EtcdCluster, etcd

from tocsin.journal import codec
from tocsin.journal.etcd.address import DEFAULT_PREFIX
from tocsin.journal.etcd.journal import EtcdJournal
from tocsin.model import change as c
from tocsin.model.entry import Entry


def _write_what_cannot_be_applied(cluster: EtcdCluster) -> int:
    """Two launches of one name."""

    async def write() -> int:
        journal = EtcdJournal(cluster.client(), DEFAULT_PREFIX)
        await journal.open()
        end = (await journal.bounds()).end
        twice = c.LaunchesStarted([1, 1], [1, 1], [60, 60], [None, None], None, None)
        entry = Entry(b"x" * 16, end.id, 99, 1_000, [twice])
        await journal.append(entry.id, codec.encode(entry), end)
        await journal.close()
        return end.seq + 1

    return asyncio.run(write())


def _skip(data: Path, seq: int) -> None:
    command = [sys.executable, "-m", "tocsin", "journal", "skip", str(seq), "--data", str(data)]
    subprocess.run(command, check=True, timeout=60)


def replicas_that_all_ask_for_it_go_on_without_the_entry(
    tmp_path: Path, start: Callable[..., Service]
) -> None:
    with etcd(tmp_path / "etcd") as cluster, ThreadPoolExecutor() as threads:

        def run(name: str) -> Service:
            (tmp_path / name).mkdir(exist_ok=True)
            return start(tmp_path / name / "data", "--name", name, "--journal", cluster.url)

        services = [run("a"), run("b")]
        services[0].create("kept")
        for service in services:
            service.stop()
        seq = _write_what_cannot_be_applied(cluster)
        for name in "ab":
            with pytest.raises(AssertionError, match=f"journal entry {seq} cannot be applied"):
                run(name)
        _skip(tmp_path / "a" / "data", seq)
        waiting = threads.submit(run, "a")
        eventually(lambda: "b did not agree yet" in (tmp_path / "a" / "log").read_text())
        assert not waiting.done()
        _skip(tmp_path / "b" / "data", seq)
        services = [run("b"), waiting.result()]
        for service in services:
            assert service.ask("GET", "/v1/schedules/kept").status == 200

        def is_created() -> bool:
            return 201 in [
                service.ask("POST", "/v1/schedules", schedule("later")).status for service in services
            ]

        eventually(is_created)
        for service in services:
            eventually(lambda one=service: one.ask("GET", "/v1/schedules/later").status == 200)
