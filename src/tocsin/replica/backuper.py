"""Copies snapshots to the place of the backups, beside everything else: nothing waits for it but those who ask to.

It is offered each snapshot that is to be copied and takes the newest. What fails is tried again after a while, with
whatever is the newest by then.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import structlog

from tocsin.backup.manifest import BackupManifest
from tocsin.backup.patience import in_thread
from tocsin.backup.store import Backups
from tocsin.clock import Clock
from tocsin.errors import Refused, Stopping, TocsinError
from tocsin.observe.metrics import Metrics
from tocsin.state.snapshot import Manifest

log = structlog.get_logger()
FIRST_DELAY_S, DELAY_MAX_S = 5.0, 300.0


class Backuper:
    """Runs beside the leader. Followers may have one too, which is offered nothing."""

    def __init__(self, backups: Backups, folder: Path, clock: Clock, metrics: Metrics) -> None:
        self._backups = backups
        self._folder = folder
        self._clock = clock
        self._metrics = metrics
        self._offered: Manifest | None = None
        self._waiting: list[tuple[int, asyncio.Future[BackupManifest]]] = []
        self._wake = asyncio.Event()
        self._stop = asyncio.Event()
        self.newest: BackupManifest | None = None
        """The newest that is there in full length, as far as is known."""
        self.problem = ""
        """Why there is no newer one, in words; empty: all is well."""
        self._since_ms = clock.wall_ms()
        metrics.backup_age_seconds.set_function(self._age_s)

    @property
    def place(self) -> str:
        return str(self._backups)

    def offer(self, snapshot: Manifest) -> None:
        """This one is to be copied, instead of whatever was offered before."""
        self._offered = snapshot
        self._wake.set()

    def withdraw(self) -> None:
        """Somebody else leads now, and copies theirs. What is on its way already arrives."""
        self._offered = None
        self._fail_waiting(Refused("this replica does not lead any more", hint="ask again"))

    async def copied(self, snapshot: Manifest) -> BackupManifest:
        """Offer it, and wait until it or a newer one is there. Raises why not, after one try."""
        if self._stop.is_set():
            raise Stopping("the service is stopping")
        if self.newest is not None and self.newest.snapshot == snapshot:
            return self.newest
        future: asyncio.Future[BackupManifest] = asyncio.get_running_loop().create_future()
        self._waiting.append((snapshot.seq, future))
        self.offer(snapshot)
        return await future

    def stop(self) -> None:
        """At once: a copy that is under way is left where it is. It is no backup before it is complete."""
        self._stop.set()
        self._wake.set()
        self._fail_waiting(Stopping("the service is stopping"))

    async def run(self) -> None:
        stopped = asyncio.create_task(self._stop.wait())
        work = asyncio.create_task(self._work())
        try:
            await asyncio.wait([stopped, work], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            if not work.done():
                work.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await work
        if not work.cancelled():
            work.result()

    async def _work(self) -> None:
        await self._look()
        delay_s = FIRST_DELAY_S
        while not self._stop.is_set():
            await self._wake.wait()
            self._wake.clear()
            if self._offered is None:
                continue
            if await self._copy(self._offered):
                delay_s = FIRST_DELAY_S
                continue
            # Whoever offers another one, or asks for one, has it tried at once.
            await self._clock.wait(self._wake, delay_s)
            delay_s = min(DELAY_MAX_S, delay_s * 2)
            self._wake.set()

    async def _look(self) -> None:
        """What is there already? And a place that cannot be used is told at the start, not at the first snapshot."""
        try:
            found = await in_thread(self._backups.own)
        except TocsinError as wrong:
            self._failed(wrong)
            return
        self.newest = found[0] if found else None

    async def _copy(self, snapshot: Manifest) -> bool:
        try:
            done = await in_thread(lambda: self._backups.put(self._folder, snapshot))
        except TocsinError as wrong:
            self._failed(wrong)
            self._metrics.backup_failures.inc()
            self._fail_waiting(wrong)
            return False
        if self._offered == snapshot:
            self._offered = None
        self.newest, self.problem = done, ""
        self._metrics.backups.inc()
        log.info("backup", seq=done.seq, bytes=done.stored_size, place=self.place)
        for seq, future in [each for each in self._waiting if each[0] <= done.seq]:
            self._waiting.remove((seq, future))
            if not future.done():
                future.set_result(done)
        await self._prune(done.incarnation)
        return True

    async def _prune(self, incarnation: str) -> None:
        """Too many are no harm: the next one removes them."""
        try:
            await in_thread(lambda: self._backups.prune(incarnation))
        except TocsinError as wrong:
            log.warning("old backups were not removed", place=self.place, reason=str(wrong))

    def _age_s(self) -> float:
        """While none is known, it is as old as this process: so an alert needs one rule only."""
        since_ms = self._since_ms if self.newest is None else self.newest.time_ms
        return max(0, self._clock.wall_ms() - since_ms) / 1000

    def _failed(self, wrong: TocsinError) -> None:
        if str(wrong) != self.problem:
            log.warning("no backup", place=self.place, reason=str(wrong))
        self.problem = str(wrong)

    def _fail_waiting(self, wrong: TocsinError) -> None:
        waiting, self._waiting = self._waiting, []
        for _, future in waiting:
            if not future.done():
                future.set_exception(wrong)
