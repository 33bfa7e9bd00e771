"""Two living replicas must not have the same name on one journal: launches are attributed to replicas by name.

The name's record says which process holds it, and changes with every beat of that process.

- A process that finds the record of another disk waits for as long as a living holder would beat several times. If the
  record changes, this process does not start.
- A process that finds the record of its own disk takes it at once, because the lock of the data directory proves that
  the former process is dead. Only a copy of the disk can prove otherwise: then the holder takes its name back, and the
  newcomer, which is on probation for as long, ends. A process that found no record, or a dead one, is not on probation.
- A holder that was silent for so long (paused, suspended) and then finds its name taken ends.

Nothing is launched twice where this guard is blind for a moment (``terms``). It prevents that two replicas disturb each
other for weeks and nobody knows why.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from pathlib import Path

import structlog

from tocsin.clock import Clock
from tocsin.errors import JournalError, NameTaken
from tocsin.journal.contract import NameHolder, NameStore

log = structlog.get_logger()
BEAT_S = 1.0
SILENCE_S = 4.0
"""A holder that is not heard for so long is taken for dead."""


class NameGuard:
    """Holds the name of this replica for this process."""

    def __init__(self, name: str, disk: Path, store: NameStore, clock: Clock) -> None:
        self._name = name
        self._disk_path = disk
        self._disk = ""
        self._process = secrets.token_hex(8)
        self._store = store
        self._clock = clock
        self._held: NameHolder | None = None
        """The record as this process wrote it last."""
        self._probation_until_s = self._heard_s = 0.0

    async def start(self) -> None:
        self._disk = await asyncio.to_thread(disk_id, self._disk_path)

    async def stop(self) -> None:
        if self._held is not None:
            with contextlib.suppress(JournalError):
                await self._store.release(self._name, self._held)
        await self._store.close()

    async def take(self) -> None:
        """Raises NameTaken if another living process holds it, JournalUnavailable if nobody can tell."""
        found = await self._store.holder(self._name)
        is_own_disk = found is not None and found.disk == self._disk
        if found is not None and not is_own_disk:
            log.info("the name was held with another disk: is that replica alive?", name=self._name)
            found = await self._dead(found)
        now_s = self._clock.elapsed_s()
        record = NameHolder(self._disk, self._process, 0 if found is None else found.beat + 1)
        if not await self._store.put(self._name, record, found):
            raise self._taken(await self._store.holder(self._name))
        self._held, self._heard_s = record, now_s
        self._probation_until_s = now_s + SILENCE_S if is_own_disk else now_s

    async def _dead(self, found: NameHolder) -> NameHolder | None:
        """Returns the record of a holder that is dead, or None if it has left."""
        until_s, never = self._clock.elapsed_s() + SILENCE_S, asyncio.Event()
        now: NameHolder | None = found
        while now is not None and self._clock.elapsed_s() < until_s:
            await self._clock.wait(never, BEAT_S / 2)
            now = await self._store.holder(self._name)
            if now is not None and now != found:
                raise self._taken(now)
        return now

    async def lost(self) -> BaseException:
        """Returns when another process has the name, and this one must end."""
        never = asyncio.Event()
        while True:
            await self._clock.wait(never, BEAT_S)
            try:
                await self._beat()
            except NameTaken as taken:
                return taken
            except JournalError as wrong:
                log.debug("the name's record cannot be renewed", reason=wrong.message)

    async def _beat(self) -> None:
        now_s, held = self._clock.elapsed_s(), self._held
        assert held is not None
        record = NameHolder(self._disk, self._process, held.beat + 1)
        if not await self._store.put(self._name, record, held):
            found = await self._store.holder(self._name)
            if found is not None and found.process != self._process:
                self._check_mine(found, now_s)
            record = NameHolder(self._disk, self._process, (found or held).beat + 1)
            if not await self._store.put(self._name, record, found):
                return  # the next beat sees what became of it
        self._held, self._heard_s = record, now_s

    def _check_mine(self, found: NameHolder, now_s: float) -> None:
        """Raises NameTaken unless this process is the one that held the name all the time."""
        if now_s < self._probation_until_s or now_s - self._heard_s >= SILENCE_S:
            raise self._taken(found)
        log.error(
            "another process was started under the name of this replica, and is to end",
            name=self._name,
            remedy=_remedy(is_copy=found.disk == self._disk),
        )

    def _taken(self, found: NameHolder | None) -> NameTaken:
        is_copy = found is not None and found.disk == self._disk
        where = (
            "on a copy of this data directory" if is_copy else "on this journal, with another data directory"
        )
        return NameTaken(
            f"another replica named {self._name} is running {where}", hint=_remedy(is_copy=is_copy)
        )


def _remedy(*, is_copy: bool) -> str:
    if is_copy:
        return "stop one of the two: a data directory that was copied must not run beside its original"
    return "give each replica a name of its own with --name (without it the name is the host name)"


def disk_id(path: Path) -> str:
    """Made by chance when the disk was empty."""
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, secrets.token_hex(16).encode() + b"\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    return path.read_text(errors="replace").strip()
