"""``Backups``: snapshots at another place. Synchronous: callers in an event loop use ``patience.in_thread``."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TypeVar

import structlog

from tocsin import __version__
from tocsin.backup import copying, manifest, trouble
from tocsin.backup.manifest import BackupManifest, Owner, manifest_name, new_data_name
from tocsin.backup.patience import Patience, Progress, Pulse
from tocsin.backup.place import Place
from tocsin.backup.shelf import Found, Journal, Shelf, Tell, newest_first
from tocsin.errors import BackupError, InvalidInput, NotFound, SnapshotDamaged
from tocsin.state import snapshot
from tocsin.state.snapshot import Manifest

log = structlog.get_logger()
_T = TypeVar("_T")

SILENCE_MAX_S = 120.0
"""Whoever says nothing for so long is given up."""
OTHERS_KEPT_MS = 30 * 86_400_000
"""How far the newest backup of another journal may be behind the newest of all before it is forgotten."""


class Backups:
    """The backups at one place. Every method raises ``tocsin.errors`` and none of them waits for ever."""

    def __init__(
        self,
        url: str,
        keep: int = 10,
        *,
        silence_max_s: float = SILENCE_MAX_S,
        field: str = "backup",
        tell: Tell | None = None,
        owner: Owner | None = None,
    ) -> None:
        """``owner``: the cluster whose backups are written, and restored. None: on one machine, where nobody can tell
        whose a backup is."""
        self.owner = owner
        self.place = Place(url, field)
        if keep < 1:
            raise InvalidInput(
                f"{keep} is out of range", field="backup_keep", value=keep, allowed="1 or more"
            )
        self.keep = keep
        self._tell: Tell = tell or log.warning
        self._patience = Patience(silence_max_s)

    def __str__(self) -> str:
        return str(self.place)

    def check(self) -> None:
        """Raise if the URL makes no sense here. Nobody is asked."""
        self._patiently(lambda shelf, pulse: None)

    def put(self, folder: Path, snapshot: Manifest, progress: Progress | None = None) -> BackupManifest:
        """Copy a snapshot of this folder. One that is there already is not copied again."""
        return self._patiently(lambda shelf, pulse: self._put(folder, snapshot, shelf, pulse), progress)

    def list(self) -> list[BackupManifest]:
        """All that are there in full length, the newest first."""
        return [each.manifest for each in self.survey() if not each.problem]

    def survey(self) -> Sequence[Found]:
        """All that claim to be backups, the newest first."""
        return self._patiently(
            lambda shelf, pulse: [
                found for journal in newest_first(shelf.journals(), self.is_own) for found in journal.found
            ]
        )

    def is_own(self, backup: BackupManifest) -> bool:
        """Did this cluster write it? On one machine nobody can tell."""
        return self.owner is None or manifest.is_signed(backup, self.owner)

    def own(self) -> Sequence[BackupManifest]:
        """Those of this cluster that are there in full length, the newest first. The others are told of."""
        there = self.list()
        own = [each for each in there if self.is_own(each)]
        if len(own) < len(there):
            seqs = ", ".join(str(each.seq) for each in there if each not in own)
            self._tell(
                f"passed over: this cluster has not written the backups at {self} with sequence {seqs}"
            )
        return own

    def verify(self, backup: BackupManifest, progress: Progress | None = None) -> None:
        """Read all of it. Raises ``SnapshotDamaged`` if it is not what its manifest says."""
        self._patiently(
            lambda shelf, pulse: copying.download(shelf.files, shelf.data(backup), backup, None, pulse),
            progress,
        )

    def newest_valid(self) -> BackupManifest | None:
        """The newest that was read to its end and is what it says."""
        for backup in self.list():
            try:
                self.verify(backup)
            except SnapshotDamaged as damaged:
                self._tell(f"passed over: {damaged.message}")
            else:
                return backup
        return None

    def fetch(self, backup: BackupManifest, folder: Path, progress: Progress | None = None) -> Manifest:
        """Bring it into a folder of snapshots. Raises ``SnapshotDamaged`` if it is not what its manifest says."""
        return self._patiently(lambda shelf, pulse: self._fetch(backup, folder, shelf, pulse), progress)

    def fetch_newest(
        self,
        folder: Path,
        *,
        seq: int | None = None,
        until_ms: int | None = None,
        progress: Progress | None = None,
    ) -> BackupManifest:
        """Bring the newest of its owner's that proves whole, of that sequence number or not after that moment. What is
        damaged is passed over for the one before. Raises ``NotFound`` if there is none."""
        wanted = [
            each
            for each in self.own()
            if (seq is None or each.seq == seq) and (until_ms is None or each.time_ms <= until_ms)
        ]
        for backup in wanted:
            try:
                self.fetch(backup, folder, progress)
            except SnapshotDamaged as damaged:
                self._tell(f"passed over: {damaged.message}")
            else:
                return backup
        which = "such " if seq is not None or until_ms is not None else ""
        raise NotFound(
            f"there is no {which}backup at {self} that is whole",
            hint=f"see what there is: tocsin backup list {self}",
        )

    def prune(self, incarnation: str, keep: int | None = None) -> int:
        """Remove what need not be kept, see the package's description: of this journal, and of others that this cluster
        had. Returns how many backups are gone."""
        return self._patiently(lambda shelf, pulse: self._prune(incarnation, keep or self.keep, shelf))

    # What is behind them

    def _patiently(self, work: Callable[[Shelf, Pulse], _T], progress: Progress | None = None) -> _T:
        try:
            return self._patience.spend(
                lambda pulse: work(Shelf(self.place, pulse, self._tell), pulse), progress
            )
        except Exception as wrong:  # noqa: BLE001  # why: every file system raises errors of its own kinds
            raise trouble.explained(wrong, self.place) from None

    def _put(self, folder: Path, wanted: Manifest, shelf: Shelf, pulse: Pulse) -> BackupManifest:
        if not manifest.is_folder(wanted.incarnation):
            raise BackupError(f"{wanted.incarnation!r} is not the name of a journal")
        home, name = shelf.home(wanted.incarnation), manifest_name(wanted.seq)
        there = shelf.journal(wanted.incarnation)
        for backup in there.whole():
            if backup.seq == wanted.seq and self.is_own(backup):
                return backup
        if name in there.sizes:
            # What claims to be this backup and is not must not be taken for it once the data is there.
            shelf.remove([f"{home}/{name}"])
        file = new_data_name(wanted.seq)
        stored = self._copy(folder, wanted, shelf, f"{home}/{file}", pulse)
        backup = BackupManifest(
            snapshot=wanted,
            file=file,
            stored_size=stored.size,
            stored_sha256=stored.sha256,
            version=__version__,
        )
        if self.owner is not None:
            backup = manifest.signed(backup, self.owner)
        shelf.write(f"{home}/{name}", manifest.encode(backup))
        return backup

    def _copy(self, folder: Path, wanted: Manifest, shelf: Shelf, path: str, pulse: Pulse) -> copying.Stored:
        """The data, read back: what nobody has read is no backup."""
        with _opened(folder, wanted) as source:
            shelf.make(shelf.home(wanted.incarnation))
            try:
                stored = copying.upload(
                    source, shelf.files, path, wanted, pulse, is_folder=self.place.is_folder
                )
                if copying.stored_at(shelf.files, path, pulse) != stored:
                    raise BackupError(
                        f"{self} gives back other data than it was given", hint="it is tried again"
                    )
            except BaseException:
                with contextlib.suppress(Exception):
                    shelf.files.rm_file(path)
                raise
        return stored

    def _fetch(self, backup: BackupManifest, folder: Path, shelf: Shelf, pulse: Pulse) -> Manifest:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = folder / "partial.db"
        partial.unlink(missing_ok=True)
        try:
            with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as sink:
                copying.download(shelf.files, shelf.data(backup), backup, sink, pulse)
            pulse.beat()
            snapshot.admit(folder, partial, backup.snapshot)
        except OSError as wrong:
            if wrong.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            needed = f"the backup takes {backup.snapshot.size // 1024**2 + 1} MB"
            raise BackupError(
                f"{folder} is full: {needed}", hint="make room there, or name another place"
            ) from None
        finally:
            partial.unlink(missing_ok=True)
        return backup.snapshot

    def _prune(self, incarnation: str, keep: int, shelf: Shelf) -> int:
        journals = shelf.journals() if self.owner is not None else [shelf.journal(incarnation)]
        owns = {each.incarnation: [one for one in each.whole() if self.is_own(one)] for each in journals}
        newest_ms = max((own[0].time_ms for own in owns.values() if own), default=0)
        gone = 0
        for journal in journals:
            own = owns[journal.incarnation]
            if not own:
                continue  # nothing is removed that nothing better has taken the place of
            is_present = journal.incarnation == incarnation  # another may be of a time that has not come
            is_forgotten = not is_present and newest_ms - own[0].time_ms > OTHERS_KEPT_MS
            kept = [] if is_forgotten else own[:keep]
            foreign = [each.manifest for each in journal.found if not self.is_own(each.manifest)]
            home = shelf.home(journal.incarnation)
            shelf.remove([f"{home}/{name}" for name in _superfluous(journal, kept, foreign)])
            gone += len(own) - len(kept)
            if is_forgotten and self.place.is_folder:
                with contextlib.suppress(OSError):
                    os.rmdir(home)
        return gone


def _superfluous(journal: Journal, kept: list[BackupManifest], foreign: list[BackupManifest]) -> list[str]:
    """Manifests first, then data. What is not older than the newest one kept may be on its way there just now."""
    names = {name for each in (*kept, *foreign) for name in (each.file, manifest_name(each.seq))}
    rest = [
        name for name in set(journal.sizes) - names if not kept or (manifest.seq_of(name) or 0) < kept[0].seq
    ]
    return sorted(rest, key=lambda name: (not name.endswith(".json"), name))


def _opened(folder: Path, wanted: Manifest) -> IO[bytes]:
    try:
        return snapshot.data_of(folder, wanted.seq).open("rb")
    except FileNotFoundError:
        raise SnapshotDamaged(f"the snapshot at {wanted.seq} is not there any more") from None
