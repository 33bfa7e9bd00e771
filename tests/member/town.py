"""Real etcd members on loopback, whose replicas greet each other within this process."""

from __future__ import annotations

import asyncio
import os
import select
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tests.needs import lacking
from tests.ports import own_ports

from tocsin.config import Settings
from tocsin.errors import JournalUnavailable, Unreachable
from tocsin.journal.etcd.address import DEFAULT_PREFIX
from tocsin.journal.etcd.client import EtcdClient
from tocsin.journal.etcd.roster import EtcdRoster
from tocsin.member.member import Enrolment, EtcdMember
from tocsin.member.membership import Membership
from tocsin.member.process import find
from tocsin.model.cluster import Hello, Member

PATIENCE_S = 60.0
SECRET = "a secret that all replicas of this town share"


class House:
    """One replica: its settings, its disk, and its member while it is up."""

    def __init__(self, town: Town, name: str, cluster: str, secret: str = SECRET) -> None:
        self.name = name
        self.data = town.folder / name
        self.town = town
        self.member: EtcdMember | None = None
        file = town.folder / f"{name}.secret"
        file.write_text(secret)
        file.chmod(0o600)
        self.settings = Settings(data=self.data, name=name, cluster=cluster, cluster_secret=str(file))

    @property
    def etcd(self) -> Path:
        return self.data / "member" / "etcd"

    def pid(self) -> int | None:
        found = find(self.etcd)
        return found[0] if found else None

    def prepare(self, *, recover: bool = False, program: str = "etcd") -> EtcdMember:
        self.member = EtcdMember(Enrolment(self.settings), self.town, recover=recover, program=program)
        return self.member

    async def start(self, *, recover: bool = False) -> EtcdMember:
        member = self.prepare(recover=recover)
        await asyncio.wait_for(member.start(), PATIENCE_S)
        member.mark_founded()
        await EtcdRoster(self.client(), DEFAULT_PREFIX).enlist(Member(self.name, peer=self.address()))
        return member

    async def stop(self) -> None:
        member, self.member = self.member, None
        if member is not None:
            await member.stop()

    async def leave_etcd_alone(self) -> None:
        """As if this Tocsin were killed: nobody minds its etcd any more."""
        member, self.member = self.member, None
        assert member is not None
        assert member._watch is not None
        assert member._process is not None
        assert member._process._keeping is not None
        await member._watch.stop()
        member._process._keeping.cancel()
        with suppress(asyncio.CancelledError):
            await member._process._keeping
        member._memory.unlock()

    async def die(self) -> None:
        """Tocsin and etcd at once."""
        await self.leave_etcd_alone()
        self.kill()

    async def lose_disk(self) -> None:
        await self.die()
        shutil.rmtree(self.data)

    def kill(self) -> None:
        """SIGKILL to etcd."""
        pid = self.pid()
        if pid is not None:
            handle = os.pidfd_open(pid)
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            select.select([handle], [], [], PATIENCE_S)
            os.close(handle)

    def address(self) -> str:
        return dict(part.split("=") for part in self.settings.cluster.split(","))[self.name]

    def client(self, *, alone: bool = False) -> EtcdClient:
        assert self.member is not None
        endpoints = self.member.endpoints()
        client = EtcdClient(endpoints[:1] if alone else endpoints, tls=self.member.client_context())
        self.town.clients.append(client)
        return client


class Town:
    """All houses, and how they greet each other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.houses: dict[str, House] = {}
        self.clients: list[EtcdClient] = []

    async def hello(self, member: Member) -> Hello | None:
        house = self.houses.get(member.name)
        if house is None or house.member is None:
            raise Unreachable(f"{member.name} cannot be reached: nobody is at home")
        return house.member.condition()

    def build(self, names: str) -> list[House]:
        addresses = {house.name: house.address() for house in self.houses.values()}
        addresses |= {name: f"127.0.0.1:{own_ports(3)[0]}" for name in names if name not in addresses}
        cluster = ",".join(f"{name}={address}" for name, address in sorted(addresses.items()))
        built = [House(self, name, cluster) for name in names]
        self.houses |= {house.name: house for house in built}
        return built

    def move(self, house: House) -> House:
        """The same disk at another address."""
        cluster = house.settings.cluster.replace(house.address(), f"127.0.0.1:{own_ports(3)[0]}")
        moved = self.houses[house.name] = House(self, house.name, cluster)
        return moved

    async def founded(self, names: str = "abc") -> list[House]:
        houses = self.build(names)
        await asyncio.gather(*(house.start() for house in houses))
        return houses

    def membership(self, house: House) -> Membership:
        client = house.client()
        return Membership(EtcdRoster(client, DEFAULT_PREFIX), client)

    async def close(self) -> None:
        for client in self.clients:
            await client.close()
        for house in self.houses.values():
            with suppress(AssertionError):
                await house.stop()
            house.kill()


@asynccontextmanager
async def a_town(folder: Path) -> AsyncIterator[Town]:
    if shutil.which("etcd") is None:
        lacking("etcd (apt-get install etcd-server)")
    town = Town(folder)
    try:
        yield town
    finally:
        await town.close()


async def keeps(house: House) -> None:
    """Something is acknowledged."""
    await house.client().put(b"kept", b"what was acknowledged")


async def remembers(house: House) -> bool:
    """Does this one's own etcd know of it?"""
    found = await house.client(alone=True).range(b"kept")
    return [one.value for one in found.kvs] == [b"what was acknowledged"]


async def ids(house: House) -> dict[str, int]:
    """Of all members, by name."""
    return {peer.name: peer.id for peer in await house.client().members()}


async def joins_anew(house: House, beside: House, before: dict[str, int]) -> EtcdMember:
    """It starts as a new member, and its old data is kept."""
    member = await house.start()
    assert await remembers(house)
    assert member.condition().condition == "founded"
    after = await ids(beside)
    assert after.keys() == before.keys()
    assert after[house.name] != before[house.name]
    assert (house.etcd.with_name("etcd.removed") / "member" / "wal").is_dir(), "nothing is thrown away"
    return member


async def lead(house: House, among: Sequence[House]) -> None:
    """Make this one's etcd the leader of the others."""
    number = (await ids(house))[house.name]

    async def leads() -> bool:
        for one in among:
            client = one.client(alone=True)
            status = await client.status(client.endpoints[0])
            if status.leader == number:
                return True
            if status.leader == status.member:
                await client.move_leader(client.endpoints[0], number)
        return False

    await until(leads, f"the etcd of {house.name} to lead")


async def until(condition: Callable[[], Awaitable[object]], what: str) -> None:
    """Ask until it is so. The pause between two questions only spares the processor."""
    never = asyncio.Event()
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with suppress(JournalUnavailable):
                if await condition():
                    return
            with suppress(TimeoutError):
                await asyncio.wait_for(never.wait(), 0.05)


def imposter(folder: Path, otherwise: str) -> str:
    """A program that passes for etcd until it is to do something."""
    path = folder / "imposter"
    path.write_text(f"#!/bin/sh\n{otherwise}\n")
    path.chmod(0o755)
    return str(path)
