"""A machine: a disk, a clock, power, and the process that runs on it.

Killing a process leaves the disk as it is and closes its files, as a kernel would. Everything else about it is the
real replica.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import hashlib
import shutil
import sqlite3
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from tocsin.backup.manifest import Owner
from tocsin.backup.store import Backups
from tocsin.decide.retention import Retention
from tocsin.errors import Diverged
from tocsin.model.ids import launch_name
from tocsin.model.launch import LaunchKind
from tocsin.observe.metrics import Metrics
from tocsin.replica.clock_guard import ClockGuard
from tocsin.replica.office import ElectedOffice
from tocsin.replica.parts import Paths, Setup
from tocsin.replica.replica import Replica
from tocsin.simulation import finals
from tocsin.simulation.chance import Chance
from tocsin.simulation.clocks import MachineClock
from tocsin.simulation.history import Applied, Authority, History, Snapped
from tocsin.simulation.neighbours import House, Neighbours
from tocsin.simulation.network import Network
from tocsin.simulation.quorum import Handle, Presences, Quorum
from tocsin.simulation.receivers import Receivers
from tocsin.simulation.targets import Exec, Herd, Http
from tocsin.simulation.virtual import ASIDE, Process, VirtualLoop
from tocsin.simulation.workshop import Workshop
from tocsin.state import schema
from tocsin.state.apply.tentative import Dropped
from tocsin.state.digest import full_digest
from tocsin.state.store import Store

MOMENT_S = 0.001
RESTART_S = 2.0
"""Whoever looks after processes starts one that ended by itself again."""


class Surrounding(Protocol):
    """The world, as a machine needs it."""

    loop: VirtualLoop
    chance: Chance
    history: History
    network: Network
    quorum: Quorum
    receivers: Receivers
    snapshot_interval_s: float
    retention: Retention
    begins_after: int
    """The last entry that there was before: what it and those before it deleted is not of this world."""

    def now_ms(self) -> float: ...

    def tell(self, text: str) -> None: ...

    def worst_moment(self, process: Process) -> None: ...

    def houses(self) -> dict[str, House]: ...


class WatchedOffice(ElectedOffice):
    """The real one, whose authority is written down by somebody who knows the true time."""

    def __init__(self, machine: Machine, process: Process, guard: ClockGuard) -> None:
        super().__init__(guard, machine.name)
        self._machine = machine
        self._process = process

    def _extend(self, sent_s: float) -> None:
        super()._extend(sent_s)
        until_s = self.until_s()
        assert until_s is not None
        self._machine.note_authority(self._process, until_s)
        self._machine.ask_others_for_authority()

    def holds(self) -> bool:
        """Whoever takes itself to be in office at this moment is noted as well, whatever it concludes that from."""
        is_held = super().holds()
        if is_held:
            self._machine.note_authority(self._process, self._clock.elapsed_s() + MOMENT_S)
        return is_held

    def passed(self, by_s: float) -> None:
        """A quiet time went by, in which all was renewed as it should be."""
        self._opens_s += by_s
        self._until_s += by_s if self._until_s else 0.0
        self._meter.passed(round(by_s * 1000))


class _Losses:
    """Whether the journal went on with a minority."""

    def __init__(self) -> None:
        self.are_to_be_noted = False

    @property
    def may_leave_state_ahead(self) -> bool:
        return self.are_to_be_noted

    may_leave_foreign_state = False

    def noted(self) -> None:
        self.are_to_be_noted = False

    def state_begun(self) -> None:
        return


class DiskCopy(NamedTuple):
    disk: int
    """Which of the machine's disks was copied."""
    folder: Path
    workshop: Workshop


class Machine:
    """One of the cluster's machines."""

    def __init__(self, name: str, folder: Path, around: Surrounding, clock: MachineClock) -> None:
        self.name = name
        self.clock = clock
        self.data = folder / name
        self.losses = _Losses()
        self.process: Process | None = None
        self.replica: Replica | None = None
        self.targets: tuple[Http, Exec] | None = None
        self.starts = 0
        self.boots = 1
        """How often the machine itself was started."""
        self.is_wanted = False
        """It is started again when it ends by itself."""
        self.is_barred = False
        """Its disk is gone, and it is not let in yet: it stays down whoever starts it."""
        self._around = around
        self._backup = folder / "backup"
        self.disks = 0
        """How many it has had."""
        self._named, self._next_lid, self._next_sid = "", 0, 0
        self.workshop = self._new_workshop()

    # Its life

    def start(self) -> None:
        """A new process on what the disk holds, if there is none."""
        self.is_wanted = True
        if self.process is not None or self.is_barred:
            return
        self.starts += 1
        around = self._around
        process = self.process = Process(self.name, self.starts)
        process.on_death = self.crash
        around.tell(f"{process} starts")
        around.loop.spawn(process, self._live(process), f"{process}")

    async def _live(self, process: Process) -> None:
        """As the program around a replica does: start it, and end when it ends."""
        around = self._around
        replica = Replica(self._setup(process))
        self.replica = replica
        try:
            await replica.start()
            wrong = await replica.failed()
        except Exception as failed:  # noqa: BLE001  # why: whatever ends a process is told
            wrong = failed
        if wrong is None or process.is_dead or self.process is not process:
            return
        around.tell(f"{process} ends by itself: {wrong}")
        around.history.ended_badly.append((around.now_ms(), self.name, f"{type(wrong).__name__}: {wrong}"))
        self._let_go()
        if not isinstance(wrong, Diverged):
            around.loop.outside(RESTART_S, self._start_again)

    def _start_again(self) -> None:
        if self.is_wanted:
            self.start()

    async def stop(self) -> None:
        """In peace."""
        replica, process = self.replica, self.process
        self.is_wanted = False
        if replica is None or process is None:
            return
        with contextlib.suppress(Exception):
            await replica.stop()
        if self.process is process:
            self._around.tell(f"{process} has stopped")
            self._let_go()

    def crash(self) -> None:
        """Kill it, wherever it is."""
        self.is_wanted = False
        if self.process is not None:
            self._around.tell(f"{self.process} is killed")
            self._let_go()

    def _let_go(self) -> None:
        process, replica = self.process, self.replica
        self.process = self.replica = self.targets = None
        if process is not None:
            process.kill()
            self._end_authority(process)
        if replica is not None:
            _close_files(replica)
        self._around.network.changed()

    def lose_disk(self) -> None:
        """All that it knew."""
        assert self.process is None
        shutil.rmtree(self.data, ignore_errors=True)
        self.workshop = self._new_workshop()

    def copy_disk(self) -> DiskCopy:
        """As it is at this moment, while the process runs."""
        folder = self.data.with_name(f"{self.name}.copy")
        shutil.rmtree(folder, ignore_errors=True)
        if self.data.exists():
            shutil.copytree(self.data, folder)
        return DiskCopy(self.disks, folder, self.workshop.copy())

    def put_back(self, copy: DiskCopy) -> None:
        assert self.process is None
        shutil.rmtree(self.data, ignore_errors=True)
        if copy.folder.exists():
            copy.folder.rename(self.data)
        self.workshop = copy.workshop

    def _new_workshop(self) -> Workshop:
        self.disks += 1
        chance = self._around.chance.of(f"workshop {self.name}")
        return Workshop(f"disk-{self.name}{self.disks}", self._around.receivers, chance)

    @property
    def is_up(self) -> bool:
        return self.process is not None

    # What it is made of

    def _setup(self, process: Process) -> Setup:
        around, clock = self._around, self.clock
        ids = around.chance.of(f"ids {process}")
        paths = Paths(self.data)
        guard = ClockGuard(clock, paths.clock, f"{self.name} {self.boots}")
        outward = process, clock, guard, around.network, around.receivers, around.worst_moment
        http, herd, command = Http(*outward), Herd(*outward), Exec(*outward, self.workshop)
        self.targets = http, command
        names = list(around.houses())
        return Setup(
            name=self.name,
            paths=paths,
            journal=Handle(around.quorum, around.network, process, around.now_ms, around.history),
            office=WatchedOffice(self, process, guard),
            presence=Presences(around.quorum, around.network, process),
            presence_host=_aside,
            peers=Neighbours(self.name, around.houses(), around.network),
            targets={"exec": command, "http": http, "null": herd},
            clock=guard,
            metrics=Metrics(),
            retention=around.retention,
            snapshot_interval_s=around.snapshot_interval_s,
            backups=Backups(
                self._backup.as_uri(), keep=4, owner=Owner(_signed, lambda: [f"{each}=" for each in names])
            ),
            objection=_no_objection,
            losses=self.losses,
            digests=lambda: _Digests(self._snapped),
            new_id=lambda: ids.randbytes(16),
            on_applied=lambda seq, store: self._applied(process, seq, store),
            on_dropped=self._dropped,
        )

    def _applied(self, process: Process, seq: int, store: Store) -> None:
        meta, history = store.meta, self._around.history
        history.applied.append(
            Applied(
                self._around.now_ms(), meta.incarnation, seq, self.name, process.number, meta.digest.hex()
            )
        )

        finals.note_deleted(store.db)
        deleted = finals.deleted(store.db)
        if seq > self._around.begins_after:
            history.deleted.update((row.name, row) for row in deleted)
        if meta.next_lid != self._next_lid or meta.next_sid != self._next_sid:
            self._note_names(store)

    def _dropped(self, dropped: Sequence[Dropped]) -> None:
        at_ms = self._around.now_ms()
        self._around.history.dropped += [
            (at_ms, self.name, f"{each.change}: {each.error!r}") for each in dropped
        ]

    def _note_names(self, store: Store) -> None:
        """Which launch and schedule got which number: entries speak of them by these."""
        meta, history = store.meta, self._around.history
        if meta.incarnation != self._named:
            self._named, self._next_lid, self._next_sid = meta.incarnation, 0, 0
        # A journal that was put back gives numbers out anew.
        first_lid, first_sid = min(self._next_lid, meta.next_lid), min(self._next_sid, meta.next_sid)
        self._next_lid, self._next_sid = meta.next_lid, meta.next_sid
        for sid, id in store.db.execute("SELECT sid, id FROM schedule WHERE sid >= ?", (first_sid,)):
            history.schedule_ids.setdefault((meta.incarnation, sid), set()).add(id)
        for lid, sid, instant_s, kind in store.db.execute(
            "SELECT lid, sid, instant_s, kind FROM launch WHERE lid >= ?", (first_lid,)
        ):
            for id in history.schedule_ids.get((meta.incarnation, sid), ()):
                name = launch_name(id, instant_s, kind == LaunchKind.MANUAL)
                history.launch_names.setdefault((meta.incarnation, lid), set()).add(name)

    def _snapped(self, seq: int, incarnation: str, digest: str) -> None:
        self._around.history.snapped.append(
            Snapped(self._around.now_ms(), incarnation, seq, self.name, digest)
        )

    def ask_others_for_authority(self) -> None:
        """Does anybody else take itself to be in office at this moment? Then that is noted."""
        for house in self._around.houses().values():
            if house is not self and house.replica is not None:
                house.replica._setup.office.holds()

    def _end_authority(self, process: Process) -> None:
        """The dead have none."""
        authorities, now_ms = self._around.history.authorities, self._around.now_ms()
        for index in range(len(authorities) - 1, -1, -1):
            last = authorities[index]
            if (last.replica, last.process) == (self.name, process.number):
                authorities[index] = msgspec.structs.replace(last, until_ms=min(last.until_ms, now_ms))
                return

    def note_authority(self, process: Process, until_s: float) -> None:
        replica = self.replica
        if replica is None:
            return
        leader = replica.parts.career.any_leader
        term = replica.meta.term if leader is None else leader.term
        if replica.clock.is_believed:
            self._around.history.timed.add((self.name, process.number, term))
        authorities = self._around.history.authorities
        from_ms, until_ms = self._around.now_ms(), self.clock.true_of_elapsed_ms(until_s)
        last = authorities[-1] if authorities else None
        same = last is not None and (last.replica, last.process, last.term) == (
            self.name,
            process.number,
            term,
        )
        if last is not None and same and last.until_ms >= from_ms:
            from_ms, until_ms = last.from_ms, max(last.until_ms, until_ms)
            authorities.pop()
        authorities.append(Authority(self.name, process.number, term, from_ms, until_ms))


async def _aside(main: Callable[[], Coroutine[None, None, None]]) -> None:
    """As a thread of its own: it goes on while the event loop of its process stands still."""
    context = contextvars.copy_context()
    context.run(ASIDE.set, True)
    running = asyncio.create_task(main(), name="presence", context=context)
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        running.cancel()
        raise


async def _no_objection(members: Sequence[str]) -> str:
    """Whether other replicas of the same cluster go on elsewhere: here everybody is known."""
    return ""


def _signed(text: str) -> str:
    """All machines are of one cluster; nobody else is in this world."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class _Digests:
    """The port ``Digests``, without a process of its own."""

    def __init__(self, tell: Callable[[int, str, str], None]) -> None:
        self._tell = tell

    async def of(self, path: Path) -> str:
        return await asyncio.to_thread(self._of, path)

    def _of(self, path: Path) -> str:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            schema.distrust(db)
            digest = full_digest(db)
            (incarnation,) = db.execute("SELECT value FROM meta WHERE key = 'incarnation'").fetchone()
        self._tell(int(path.stem.split("-")[1]), incarnation, digest)
        return digest

    def stop(self) -> None:
        return


def _close_files(replica: Replica) -> None:
    """As the kernel does when a process is gone."""
    store: Store | None = getattr(replica, "_store", None)
    pinned = None if replica._parts is None else replica._parts.snapshotter._pinned
    for connection in [*replica._connections, pinned, None if store is None else store.db]:
        if connection is not None:
            connection.close()
    replica._lock.leave()
