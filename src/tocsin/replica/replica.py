"""One process holding the state: start, stop, propose, read."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

from tocsin.clock import Clock
from tocsin.decide.retention import Retention
from tocsin.errors import Gap
from tocsin.journal import codec
from tocsin.journal.contract import Journal
from tocsin.model.command import Command
from tocsin.model.entry import Entry
from tocsin.observe.metrics import Metrics
from tocsin.replica.housekeeper import Housekeeper
from tocsin.replica.launcher import Launcher
from tocsin.replica.leader import Leader
from tocsin.replica.notices import Applied
from tocsin.replica.office import Office
from tocsin.replica.proposer import Proposer
from tocsin.replica.recovery import mark_damaged, recover
from tocsin.replica.snapshotter import Snapshotter
from tocsin.state.store import Meta
from tocsin.targets.contract import Output, Target

_P = ParamSpec("_P")
_T = TypeVar("_T")
_READERS = 2


class Paths(msgspec.Struct, frozen=True):
    """Where a replica keeps its things."""

    data: Path

    @property
    def state(self) -> Path:
        return self.data / "state.db"

    @property
    def snapshots(self) -> Path:
        return self.data / "snapshots"

    @property
    def lock(self) -> Path:
        return self.data / "office.lock"


class Replica:
    """Holds the state of one journal, and leads it while in office."""

    def __init__(
        self,
        *,
        name: str,
        paths: Paths,
        journal: Journal,
        office: Office,
        targets: Mapping[str, Target],
        clock: Clock,
        metrics: Metrics,
        retention: Retention,
        snapshot_interval_s: float,
    ) -> None:
        self.name = name
        self.metrics = metrics
        self.clock = clock
        self._paths = paths
        self._journal = journal
        self._office = office
        self._targets = targets
        self._retention = retention
        self._snapshot_interval_s = snapshot_interval_s
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="state")
        self._readers = ThreadPoolExecutor(max_workers=_READERS, thread_name_prefix="reader")
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._tasks: list[asyncio.Task[None]] = []

    # Its life

    async def start(self) -> None:
        """Returns when it is in office and has concluded what was open."""
        await self._office.take()
        await self._journal.open()
        self._store = await recover(self._journal, self._paths.state, self._paths.snapshots, self.metrics)
        for target in self._targets.values():
            await target.start()
        self._compose()
        self._tasks = [
            asyncio.create_task(self._leader.run(), name="leader"),
            asyncio.create_task(self.snapshotter.run(), name="snapshotter"),
            asyncio.create_task(self._housekeeper.run(), name="housekeeper"),
        ]
        ready = asyncio.create_task(self._leader.ready.wait())
        await asyncio.wait([ready, self._tasks[0]], return_when=asyncio.FIRST_COMPLETED)
        if self._tasks[0].done():
            ready.cancel()
            error = await self.failed()
            await self.stop()
            if error is not None:
                raise error

    def _compose(self) -> None:
        wake = asyncio.Event()
        self._launcher = Launcher(self._targets, self._office, self.clock, wake.set)
        self._proposer = Proposer(
            self._journal, self._store, self.clock, self.metrics, self._on_state, asyncio.sleep
        )
        self._leader = Leader(
            name=self.name,
            store=self._store,
            office=self._office,
            proposer=self._proposer,
            launcher=self._launcher,
            clock=self.clock,
            metrics=self.metrics,
            retention=self._retention,
            on_state=self._on_state,
            wake=wake,
        )
        self.snapshotter = Snapshotter(
            self._journal,
            self._store,
            self._paths.snapshots,
            self.clock,
            self.metrics,
            self._snapshot_interval_s,
        )
        self._housekeeper = Housekeeper(self._targets, self.clock, self._retention)

    async def failed(self) -> BaseException | None:
        """Returns when a part of it ends: with what ended it, or None after ``stop``."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        error = next((task.exception() for task in done if task.exception() is not None), None)
        mark_damaged(self._paths.state, error)
        return error

    async def stop(self) -> None:
        """Leave office cleanly. Commands that run go on running."""
        self._leader.stop()
        self.snapshotter.stop()
        self._housekeeper.stop()
        self.applied.end()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for target in self._targets.values():
            await target.stop()
        await self._journal.close()
        self._readers.shutdown(wait=True)
        for connection in self._connections:
            connection.close()
        self._writer.shutdown(wait=True)
        self._store.close()
        self._office.leave()

    # What others may ask of it

    async def propose(self, command: Command) -> Any:
        """Make a command durable and apply it. Raises ``Refused`` if it does not fit the present state."""
        return await self._leader.propose(command)

    async def read(
        self, query: Callable[Concatenate[sqlite3.Connection, _P], _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        """Ask the state, on a thread and a connection that hold nobody up."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, lambda: query(self._reader(), *args, **kwargs))

    async def entries(self, after: int, limit: int) -> list[tuple[int, Entry]]:
        """The next entries behind that one, up to the last one applied. Raises ``Gap`` where they were trimmed away.

        One by one: it takes no more memory than the entries that are returned, and holds up no append for longer
        than one of them takes to be read.
        """
        found: list[tuple[int, Entry]] = []
        for seq in range(after + 1, min(after + limit, self.meta.seq) + 1):
            record = await self._journal.get(seq)
            if record is None:
                if found:
                    break
                raise Gap(f"journal entry {seq} is no longer kept")
            loop = asyncio.get_running_loop()
            found.append((seq, await loop.run_in_executor(self._readers, codec.decode, record.raw, seq)))
        return found

    async def first_kept(self) -> int:
        """The sequence number of the first entry that the journal still holds."""
        return (await self._journal.bounds()).first

    async def output(self, kind: str, name: str, attempt: int) -> Output | None:
        """What an attempt printed, as far as its target captures it."""
        target = self._targets.get(kind)
        return None if target is None else await target.output(name, attempt)

    @property
    def meta(self) -> Meta:
        return self._store.meta

    @property
    def applied(self) -> Applied:
        """Tells when the next entry has been applied."""
        return self._proposer.applied

    @property
    def problem(self) -> str:
        """What keeps it from working, in words; empty when it works."""
        if self._tasks and self._tasks[0].done() and not self._tasks[0].cancelled():
            return f"the scheduling loop has ended: {self._tasks[0].exception()}"
        return self._proposer.problem

    @property
    def open_calls(self) -> int:
        return self._launcher.calls

    async def _on_state(self, work: Callable[..., _T], *args: Any) -> _T:
        """On the one thread that may write the state."""
        return await asyncio.get_running_loop().run_in_executor(self._writer, lambda: work(*args))

    def _reader(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._store.reader()
            self._connections.append(connection)
        return connection
