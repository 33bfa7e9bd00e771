"""The quorum's engine passes the suite, on a real etcd."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.etcd import EtcdCluster, etcd

from tocsin.journal.contract import Journal
from tocsin.journal.etcd.journal import EtcdJournal
from tocsin.testing.journals import JournalConformance


class _Etcd(JournalConformance):
    def __init__(self, cluster: EtcdCluster) -> None:
        self._cluster = cluster

    async def make(self, folder: Path) -> Journal:
        return EtcdJournal(self._cluster.client(), f"/tocsin{folder}")

    def file_bytes(self, folder: Path) -> int:
        return self._cluster.servers[0].file_bytes


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    with etcd(tmp_path_factory.mktemp("etcd")) as cluster:
        yield cluster


@pytest.mark.parametrize("claim", _Etcd.claims())
def the_etcd_journal_keeps_the_contract(claim: str, one: EtcdCluster, tmp_path: Path) -> None:
    _Etcd(one).check(claim, tmp_path)
