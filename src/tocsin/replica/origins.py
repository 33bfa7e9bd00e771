"""Where a state comes from that this disk does not hold: what a person restored, what the others hold, the backups."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Sequence

import structlog

from tocsin.backup.patience import in_thread
from tocsin.backup.store import Backups
from tocsin.errors import ClusterError, NotFound, SnapshotDamaged, StateDamaged, TocsinError
from tocsin.journal.contract import Birth, Bounds, Origin
from tocsin.replica.parts import Setup
from tocsin.state import snapshot
from tocsin.state.snapshot import Manifest

log = structlog.get_logger()


class Origins:
    """The sources, in the order in which they are asked."""

    def __init__(self, setup: Setup) -> None:
        self._paths = setup.paths
        self._peers = setup.peers
        self._journal = setup.journal
        self._backups = setup.backups
        self._objection = setup.objection
        self._restored: Manifest | None = None
        """What ``tocsin restore`` has put here."""

    async def prepare(self) -> None:
        """Before the journal is opened: what was restored here is there for it, whoever creates it."""
        folder = self._paths.restore
        if not folder.exists():
            return
        found = snapshot.manifests(folder)
        if not found:
            raise StateDamaged(
                f"{folder} holds a backup that was not restored to its end",
                hint="restore it once more, or remove that folder to begin with nothing",
            )
        try:
            await asyncio.to_thread(snapshot.verify, folder, found[0])
        except SnapshotDamaged as damaged:
            raise StateDamaged(
                f"the backup that was restored here is damaged: {damaged.message}",
                hint=f"restore it once more, or remove {folder} to begin with nothing",
            ) from None
        await asyncio.to_thread(shutil.copytree, folder, self._paths.snapshots, dirs_exist_ok=True)
        self._restored = found[0]

    def check(self, birth: Birth) -> None:
        """A backup that was restored is not passed over in silence."""
        restored = self._restored
        if restored is None or (birth.after, birth.origin) == (restored.seq, restored.incarnation):
            return
        if birth.incarnation == restored.incarnation:
            return  # the same journal is there still, and holds more
        raise StateDamaged(
            f"a backup at sequence {restored.seq} was restored here, and the journal does not go on from it",
            hint="restore the same backup on every replica before the first of them is started; or remove "
            f"{self._paths.restore} to join the others as they are",
        )

    async def of_journal(self) -> Origin:
        """There is no journal yet: what does it go on from? A snapshot that somebody has put here, or the newest
        backup that this very cluster has written, unless it may go on elsewhere."""
        restored = self._restored
        if restored is not None:
            log.warning("going on from a restored snapshot", seq=restored.seq, journal=restored.incarnation)
            return Origin(restored.seq, restored.incarnation)
        backups = self._backups
        if backups is None or self._paths.state.exists():
            return Origin()
        if backups.owner is None:
            await self._tell_of(backups)
            return Origin()
        own = await in_thread(backups.own)
        if own:
            await self._check_alone(backups, own[0].members)
        try:
            found = await in_thread(lambda: backups.fetch_newest(self._paths.snapshots))
        except NotFound:
            return Origin()
        log.warning("there is no journal: going on from the newest backup", seq=found.seq, place=str(backups))
        return Origin(found.seq, found.incarnation)

    async def from_peers(self, birth: Birth, bounds: Bounds) -> Manifest | None:
        """Also the very state that the journal was born to go on from, while nobody has a newer one."""
        folder = self._paths.snapshots
        found = await self._peers.fetch_snapshot(birth.incarnation, bounds.first - 1, folder, self._newest)
        if found is None and birth.after and bounds.first - 1 == birth.after:
            found = await self._peers.fetch_snapshot(birth.origin, birth.after, folder, self._newest)
        return found

    async def _newest(self) -> int:
        return (await self._journal.bounds()).last

    async def from_backup(self, birth: Birth, bounds: Bounds) -> Manifest | None:
        """The newest backup of this journal that its entries follow, or the very one that it was born to go on from.
        Nobody has asked for it, so it must be one that this cluster has written."""
        backups = self._backups
        if backups is None:
            return None
        if backups.owner is None:
            if bounds.first - 1 > birth.after:
                return None
            log.warning(
                "the backup that this journal goes on from is not fetched: whose it is cannot be known",
                remedy=f"'tocsin restore {backups} --seq {birth.after} --data DIRECTORY' into an empty one, and move "
                f"the folder 'restore' from there to {self._paths.data}",
            )
            return None
        found = [
            each
            for each in await in_thread(backups.own)
            if bounds.first - 1 <= each.seq <= bounds.last and birth.fits(each.incarnation, each.seq)
        ]
        if not found:
            return None
        newest = max(found, key=lambda each: each.seq)
        return await in_thread(lambda: backups.fetch(newest, self._paths.snapshots))

    async def tidy(self) -> None:
        """What was restored is in use: the copy is not needed any more."""
        await asyncio.to_thread(shutil.rmtree, self._paths.restore, ignore_errors=True)

    async def _check_alone(self, backups: Backups, members: Sequence[str]) -> None:
        reason = await self._objection(members)
        if reason:
            data = self._paths.data
            raise ClusterError(
                f"there is no journal, and the newest backup at {backups} is not restored by itself: {reason}",
                hint="if they are running or down, correct the settings and start with empty data directories. If "
                "they are lost for ever, empty the data directory of each replica and restore there by hand: "
                f"tocsin restore {backups} --data {data} --cluster-secret FILE",
            )

    async def _tell_of(self, backups: Backups) -> None:
        """Whose they are cannot be known: another service, given the same place, must not launch what is in them."""
        with contextlib.suppress(TocsinError):
            if await in_thread(backups.list):
                data = self._paths.data
                log.warning(
                    "there are backups, and this service begins with nothing",
                    place=str(backups),
                    remedy=f"to go on from them: stop it, empty {data}, and 'tocsin restore {backups} --data {data}'",
                )
