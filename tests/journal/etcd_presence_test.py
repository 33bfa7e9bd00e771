"""Presence beside the journal in a real etcd."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.etcd import EtcdCluster, etcd

from tocsin.journal.etcd.journal import EtcdJournal
from tocsin.journal.etcd.presence import EtcdPresence
from tocsin.testing.presences import Place, PresenceConformance


class _Etcd(PresenceConformance):
    def __init__(self, cluster: EtcdCluster) -> None:
        self._cluster = cluster

    async def make(self, folder: Path) -> Place:
        prefix = f"/tocsin{folder}"
        stores = [EtcdPresence(self._cluster.client(), prefix) for _ in range(2)]
        return Place(EtcdJournal(self._cluster.client(), prefix), *stores)


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    with etcd(tmp_path_factory.mktemp("etcd")) as cluster:
        yield cluster


@pytest.mark.parametrize("claim", _Etcd.claims())
def presence_in_etcd_keeps_the_contract(claim: str, one: EtcdCluster, tmp_path: Path) -> None:
    _Etcd(one).check(claim, tmp_path)
