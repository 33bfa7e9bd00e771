"""Presence beside the journal in a real etcd."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.etcd import EtcdCluster, etcd

from tocsin.errors import NotEnlisted
from tocsin.journal.contract import Election, settle
from tocsin.journal.etcd.journal import EtcdJournal
from tocsin.journal.etcd.presence import EtcdPresence
from tocsin.journal.etcd.roster import EtcdRoster
from tocsin.model.cluster import Member
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


def only_who_is_enlisted_wins_an_election(one: EtcdCluster, tmp_path: Path) -> None:
    async def story() -> None:
        journal, roster = (
            EtcdJournal(one.client(), str(tmp_path), "c"),
            EtcdRoster(one.client(), str(tmp_path)),
        )
        await journal.open()
        for name in ("a", "c2"):  # neither is c
            await roster.enlist(Member(name))
        end = (await journal.bounds()).end
        for election in (Election(1), Election(1, "a", 0)):
            with pytest.raises(NotEnlisted, match="c was removed from the cluster"):
                await journal.append(b"i" * 16, b"entry", end, election)
        with pytest.raises(NotEnlisted):
            await settle(journal, b"i" * 16, b"entry", end, Election(1))
        assert (await journal.bounds()).end == end, "nothing was written"
        await roster.enlist(Member("c"))
        await journal.append(b"i" * 16, b"entry", end, Election(1))
        await roster.strike("c")
        with pytest.raises(NotEnlisted):
            await journal.append(b"j" * 16, b"entry", (await journal.bounds()).end, Election(2))
        await journal.close()

    asyncio.run(story())
