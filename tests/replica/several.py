"""Several real replicas in one process, on one journal, with receivers that a test controls.

What lies between them is in the test's hands: each one's way to the journal (``Handle``), the ways between them
(``Town.silent``), and what a call does (``World``).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import msgspec
from tests.replica.ledger import Handle, Ledger, Presences

from tocsin.clock import SystemClock
from tocsin.decide.retention import Retention
from tocsin.errors import NoLeader, Unreachable
from tocsin.model.cluster import Asked, Member, PeerStatus
from tocsin.model.command import Command, LaunchNow, PutSchedule
from tocsin.model.launch import LaunchView
from tocsin.model.schedule import convert
from tocsin.model.target import HttpTarget, TargetSpec
from tocsin.observe.metrics import Metrics
from tocsin.replica.clock_guard import ClockGuard
from tocsin.replica.consents import RosterConsents
from tocsin.replica.office import ElectedOffice
from tocsin.replica.parts import Paths, Setup
from tocsin.replica.peers import Answered, Fate, position_of
from tocsin.replica.presence import in_task
from tocsin.replica.replica import Replica
from tocsin.state import snapshot, views
from tocsin.state.snapshot import Manifest
from tocsin.targets.authority import has_ended
from tocsin.targets.contract import ACCEPTED, SUCCEEDED, TOO_LATE, Order, Outcome, Output, Verdict

_T = TypeVar("_T")
PATIENCE_S = 20.0
HTTP = {"kind": "http", "url": "http://receiver/"}
EXEC = {"kind": "exec", "shell": "true"}


class StepClock(SystemClock):
    """This machine's clock, moved."""

    def __init__(self) -> None:
        self.offset_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.offset_ms


class Call(msgspec.Struct):
    """One call that reached a receiver."""

    replica: str
    order: Order
    answer: asyncio.Future[Outcome]

    @property
    def name(self) -> str:
        return self.order.name

    def ends(self, outcome: Outcome = SUCCEEDED) -> None:
        if not self.answer.done():
            self.answer.set_result(outcome)


class World:
    """All that was called, by whomever. While ``is_held`` a call lasts until the test ends it."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.is_held = False
        self.cancelled: list[tuple[str, str]] = []

    def named(self, name: str) -> list[Call]:
        return [call for call in self.calls if call.name == name]

    def call(self, replica: str, order: Order) -> Call:
        call = Call(replica, order, asyncio.get_running_loop().create_future())
        self.calls.append(call)
        if not self.is_held:
            call.ends()
        return call


class Receiver:
    """A target that answers when the test says so, and cannot be asked by name."""

    kind: ClassVar[str] = "http"
    looks_up: ClassVar[bool] = False

    def __init__(self, world: World, replica: str, clock: SystemClock) -> None:
        self._world = world
        self._replica = replica
        self._clock = clock
        self.before: asyncio.Event | None = None
        """What a call waits for before it reaches its receiver."""
        self._running: dict[tuple[str, int], Call] = {}

    def idempotent(self, spec: TargetSpec) -> bool:
        return isinstance(spec, HttpTarget) and spec.idempotent

    async def start(self, last_entry_ms: int = 0) -> None:
        return

    async def stop(self) -> None:
        return

    async def launch(self, order: Order) -> Outcome:
        if self.before is not None:
            await self.before.wait()
        if has_ended(order.until_s, self._clock.elapsed_s()):
            return TOO_LATE
        call = self._running[order.name, order.attempt] = self._world.call(self._replica, order)
        return await asyncio.shield(call.answer)

    async def watch(self, order: Order) -> Outcome:
        return await asyncio.shield(self._running[order.name, order.attempt].answer)

    async def lookup(self, order: Order) -> Outcome | None:
        return Outcome(Verdict.UNKNOWN)

    async def cancel(self, order: Order) -> None:
        self._world.cancelled.append((self._replica, order.name))
        if (call := self._running.get((order.name, order.attempt))) is not None:
            call.ends(Outcome(Verdict.CANCELLED))

    async def output(self, name: str, attempt: int) -> Output | None:
        return None

    async def prune(self, older_than_s: float) -> int:
        return 0


class Workshop(Receiver):
    """One that accepts, runs on the replica's own machine, and keeps records there."""

    kind: ClassVar[str] = "exec"
    looks_up: ClassVar[bool] = True

    def __init__(self, world: World, replica: str, clock: SystemClock) -> None:
        super().__init__(world, replica, clock)
        self.are_keepers_frozen = False
        """They take an order, and do not get to its start."""
        self.claims: dict[tuple[str, int], asyncio.Future[Outcome]] = {}
        """Orders that such keepers have taken."""
        self.lookups = 0
        self._called_ms: dict[tuple[str, int], int] = {}

    def idempotent(self, spec: TargetSpec) -> bool:
        return False

    def kill_keepers(self) -> None:
        for claim in self.claims.values():
            claim.set_result(Outcome(Verdict.UNKNOWN, "its keeper was killed"))

    async def launch(self, order: Order) -> Outcome:
        if has_ended(order.until_s, self._clock.elapsed_s()):
            return TOO_LATE
        if self.are_keepers_frozen:
            self.claims[order.name, order.attempt] = asyncio.get_running_loop().create_future()
            return await self.watch(order)
        if (order.name, order.attempt) not in self._running:
            self._running[order.name, order.attempt] = self._world.call(self._replica, order)
            self._called_ms[order.name, order.attempt] = self._clock.wall_ms()
        return self._accepted(order)

    async def watch(self, order: Order) -> Outcome:
        claim = self.claims.get((order.name, order.attempt))
        return await (super().watch(order) if claim is None else asyncio.shield(claim))

    async def lookup(self, order: Order) -> Outcome | None:
        self.lookups += 1
        claim = self.claims.get((order.name, order.attempt))
        if claim is not None:
            return claim.result() if claim.done() else ACCEPTED
        call = self._running.get((order.name, order.attempt))
        if call is None:
            return None
        return call.answer.result() if call.answer.done() else self._accepted(order)

    def _accepted(self, order: Order) -> Outcome:
        return msgspec.structs.replace(ACCEPTED, called_ms=self._called_ms[order.name, order.attempt])


class Neighbours:
    """The port ``Peers``, within one process."""

    are_reachable = True

    def __init__(self, town: Town, name: str) -> None:
        self._town = town
        self._name = name

    async def statuses(self) -> dict[str, PeerStatus | None]:
        others = [name for name in self._town.known if name != self._name]
        return {name: self._status(name) for name in others}

    def _status(self, name: str) -> PeerStatus | None:
        with suppress(Unreachable):
            return self._other(name).status()
        return None

    async def propose(self, leader: str, command: Command) -> Answered:
        try:
            other = self._other(leader)
        except Unreachable as wrong:
            raise NoLeader(str(wrong)) from None
        answered = await other.carry_out(command)
        if self._town.on_answer is not None:
            await self._town.on_answer()
        return answered

    async def position(self, leader: str) -> int:
        return position_of(leader, self._status(leader))

    async def fates(self, replica: str, asked: Sequence[Asked], term: int) -> list[Fate]:
        self._town.asked.append((self._name, replica, term))
        return await self._other(replica).fates(asked, term)

    async def cancel(self, replica: str, asked: Asked, reason: str) -> None:
        await self._other(replica).cancel_here(asked, reason)

    async def output(self, replica: str, kind: str, name: str, attempt: int) -> Output | None:
        return await self._other(replica).output_here(kind, name, attempt)

    async def step_down(self, leader: str) -> None:
        await self._other(leader).step_down()

    async def fetch_snapshot(
        self, incarnation: str, least: int, folder: Path, newest: Callable[[], Awaitable[int]] | None = None
    ) -> Manifest | None:
        self._town.fetches += 1
        answering = [name for name, status in (await self.statuses()).items() if status is not None]
        if not answering:
            raise Unreachable("none of the others answers")
        offers = [
            (made, name)
            for name in answering
            for made in self._town.replicas[name].snapshots()
            if made.incarnation == incarnation and made.seq >= least
        ]
        for made, name in sorted(offers, key=lambda offer: -offer[0].seq):
            with self._other(name).lend(made.seq) as (manifest, path):
                await asyncio.to_thread(_copied, path, folder, manifest)
                return manifest
        return None

    def _other(self, name: str) -> Replica:
        town = self._town
        if {name, self._name} & town.silent or name not in town.replicas:
            raise Unreachable(f"{name} does not answer")
        return town.replicas[name]


def _copied(path: Path, folder: Path, manifest: Manifest) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / "fetched.partial"
    partial.write_bytes(path.read_bytes())
    snapshot.admit(folder, partial, manifest)


class Enlisted:
    """The port ``Roster``."""

    def __init__(self) -> None:
        self._members: dict[str, Member] = {}

    async def members(self) -> list[Member]:
        return list(self._members.values())

    async def enlist(self, member: Member) -> None:
        self._members[member.name] = member

    async def expect(self, member: Member) -> None:
        self._members.setdefault(member.name, member)

    async def strike(self, name: str) -> None:
        del self._members[name]


class Town:
    """Replicas a, b, c, and everything between them."""

    def __init__(self, folder: Path, names: Sequence[str] = "abc") -> None:
        self.folder = folder
        self.known = list(names)
        self.ledger = Ledger()
        self.roster = Enlisted()
        self.world = World()
        self.handles: dict[str, Handle] = {}
        self.clocks: dict[str, StepClock] = {}
        self.boots: dict[str, int] = {}
        """How often a machine was started, and not only the replica on it."""
        self.receivers: dict[str, Receiver] = {}
        self.workshops: dict[Path, Workshop] = {}
        """By the disk on which they keep their records."""
        self.replicas: dict[str, Replica] = {}
        self.silent: set[str] = set()
        """They neither ask nor answer the others."""
        self.fetches = 0
        """How often somebody asked for a snapshot."""
        self.asked: list[tuple[str, str, int]] = []
        self.on_answer: Callable[[], Awaitable[object]] | None = None
        """What happens while a leader's answer is on its way back."""

    def make(self, name: str, **changes: Any) -> Replica:
        clock = self.clocks.setdefault(name, StepClock())
        handle = self.handles[name] = Handle(self.ledger)
        receiver = self.receivers[name] = Receiver(self.world, name, clock)
        paths = changes.get("paths", Paths(self.folder / name))
        workshop = self.workshops.setdefault(paths.data, Workshop(self.world, name, clock))
        guard = ClockGuard(clock, paths.clock, f"boot {self.boots.get(name, 1)}")
        setup = Setup(
            name=name,
            paths=paths,
            journal=handle,
            office=ElectedOffice(guard, name),
            presence=Presences(handle),
            presence_host=in_task,
            peers=Neighbours(self, name),
            targets={"http": receiver, "exec": workshop},
            clock=guard,
            metrics=Metrics(),
            retention=Retention(),
            snapshot_interval_s=3600,
            consents=RosterConsents(self.roster, Member(name)),
        )
        replica = Replica(msgspec.structs.replace(setup, **changes))
        replica.on_open = lambda: self.roster.enlist(Member(name))
        return replica

    async def start(self, name: str, **changes: Any) -> Replica:
        replica = self.make(name, **changes)
        await replica.start()
        self.replicas[name] = replica
        return replica

    async def stop(self, name: str) -> None:
        await self.replicas.pop(name).stop()

    async def restart(self, name: str) -> Replica:
        """The process alone."""
        await self.stop(name)
        return await self.start(name)

    async def reboot(self, name: str, ahead_ms: int = 0) -> Replica:
        """The machine, which comes up with a clock that is put forward by so much."""
        await self.stop(name)
        self.boots[name] = self.boots.get(name, 1) + 1
        self.clocks.setdefault(name, StepClock()).offset_ms += ahead_ms
        return await self.start(name)

    async def close(self) -> None:
        for call in self.world.calls:
            call.ends()
        for handle in self.handles.values():
            handle.heal()
            if handle.gate is not None:
                handle.gate.set()
        await asyncio.gather(*(self.stop(name) for name in list(self.replicas)))

    # What tests wait for

    async def leader(self, *, but: str = "") -> Replica:
        """Whoever leads, once somebody does."""
        return await self.until(
            lambda: next((r for r in self.replicas.values() if r.name != but and r.is_leader), None)
        )

    async def until(self, seen: Callable[[], _T | None]) -> _T:
        clock, never = SystemClock(), asyncio.Event()
        async with asyncio.timeout(PATIENCE_S):
            while not (found := seen()):
                await clock.wait(never, 0.01)
        return found

    async def call_of(self, name: str, count: int = 1) -> Call:
        """The last of so many calls of that launch."""
        await self.until(lambda: len(self.world.named(name)) >= count)
        return self.world.named(name)[count - 1]

    async def cut(self, name: str) -> Replica:
        """From the journal and from the others: it is as good as paused. Returns who leads instead."""
        self.silent.add(name)
        self.handles[name].cut()
        return await self.leader(but=name)

    def heal(self, name: str) -> None:
        self.silent.discard(name)
        handle = self.handles[name]
        handle.heal()
        if handle.gate is not None:
            handle.gate.set()
            handle.gate = None


async def state_of(replica: Replica, name: str, *states: str) -> LaunchView:
    """The launch as this replica sees it, once it is in one of these states."""
    clock, never = SystemClock(), asyncio.Event()
    async with asyncio.timeout(PATIENCE_S):
        while True:
            view = await replica.read(views.launch, name)
            if view.state in states:
                return view
            await clock.wait(never, 0.01)


async def launched(replica: Replica, id: str = "s") -> str:
    """Launch it by hand. Returns the launch's name."""
    await replica.propose(LaunchNow(id))
    page = await replica.read(views.launches, schedule_id=id)
    return page.items[0].name


def put(id: str = "s", cron: str = "0 0 1 1 *", **fields: Any) -> PutSchedule:
    return PutSchedule(convert({"id": id, "cron": cron, "target": HTTP, **fields}))


@asynccontextmanager
async def _town(folder: Path, names: Sequence[str]) -> AsyncIterator[Town]:
    town = Town(folder, names or "abc")
    try:
        for name in names:
            await town.start(name)
        if names:
            await town.leader()
        yield town
    finally:
        await town.close()


def in_town(folder: Path, work: Callable[[Town], Awaitable[None]], names: Sequence[str] = "abc") -> None:
    """Run a test in a town whose replicas are up."""

    async def whole() -> None:
        async with asyncio.timeout(60), _town(folder, names) as town:
            await work(town)

    asyncio.run(whole())
