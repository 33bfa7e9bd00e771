"""What lies at a place: the folders of the journals, and the files in them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tocsin.backup import manifest, trouble
from tocsin.backup.manifest import BackupManifest
from tocsin.backup.patience import Pulse
from tocsin.backup.place import Place
from tocsin.errors import BackupError

Tell = Callable[[str], None]
"""Told of what is passed over."""
_OBJECT_STORES = ("s3", "s3a", "gs", "gcs", "abfs", "az", "oci", "oss", "memory")


class Found(NamedTuple):
    """A backup there. ``problem`` is empty if its data is there in its full length."""

    manifest: BackupManifest
    problem: str


class Journal(NamedTuple):
    """The folder of one journal: what lies there, by name and size, and what it amounts to, the newest first."""

    incarnation: str
    sizes: dict[str, int]
    found: list[Found]
    """The newest first: that with the highest sequence, for the clock may have been put back."""

    def newest_ms(self) -> int:
        """When the newest was made. Journals are compared by it: one that was restored has another incarnation, and may
        count on from a lower number."""
        return next((each.manifest.time_ms for each in self.found), 0)

    def whole(self) -> list[BackupManifest]:
        return [each.manifest for each in self.found if not each.problem]


def newest_first(journals: Sequence[Journal], is_own: Callable[[BackupManifest], bool]) -> list[Journal]:
    """The clock may have been ahead when a backup was made. If its journal was lost then and restored, the one that
    went on from it is the newer one, though its time is earlier: the former comes right behind it."""
    times_ms = {journal.incarnation: journal.newest_ms() for journal in journals}
    seqs = {
        journal.incarnation: max((each.manifest.seq for each in journal.found), default=0)
        for journal in journals
    }
    for _ in journals:  # each of them may have gone on from another one
        for journal in journals:
            of = next((backup.snapshot for backup in journal.whole() if is_own(backup)), None)
            if of is not None and of.origin in times_ms and seqs[of.origin] <= of.origin_seq:
                times_ms[of.origin] = min(times_ms[of.origin], times_ms[journal.incarnation] - 1)
    return sorted(journals, key=lambda journal: -times_ms[journal.incarnation])


class Shelf:
    """Reads and writes there. Errors are those of the file system."""

    def __init__(self, place: Place, pulse: Pulse, tell: Tell) -> None:
        self._place = place
        self._pulse = pulse
        self._tell = tell
        self.files = place.files

    def home(self, incarnation: str) -> str:
        return f"{self._place.base}/{incarnation}"

    def data(self, backup: BackupManifest) -> str:
        return f"{self.home(backup.incarnation)}/{backup.file}"

    def journals(self) -> list[Journal]:
        names = [name for name, size in self._listed(self._place.base) if size is None]
        return [self.journal(name) for name in names if manifest.is_folder(name)]

    def journal(self, incarnation: str) -> Journal:
        home = self.home(incarnation)
        listed = [(name, size) for name, size in self._listed(home) if manifest.seq_of(name) is not None]
        sizes = {name: size for name, size in listed if size is not None}
        found = []
        for name in sorted((name for name in sizes if name.endswith(".json")), reverse=True):
            backup = self._read(home, name, sizes[name], incarnation)
            self._pulse.beat()
            if backup is not None:
                is_whole = sizes.get(backup.file) == backup.stored_size
                problem = "" if is_whole else "cut short" if backup.file in sizes else "its data is missing"
                found.append(Found(backup, problem))
        return Journal(incarnation, sizes, found)

    def make(self, home: str) -> None:
        """Folders, where there are such things. Of those above the place itself only what there is: a disk that is not
        mounted must not be taken for an empty one. In object stores making one may make a bucket nobody asked for."""
        if self._place.is_folder:
            for path in (Path(self._place.base), Path(home)):
                path.mkdir(mode=0o700, exist_ok=True)
        elif self._place.scheme not in _OBJECT_STORES:
            self.files.makedirs(home, exist_ok=True)

    def write(self, path: str, raw: bytes) -> None:
        """A small file, at once."""
        self._pulse.beat()
        self.files.pipe_file(path, raw)
        if self._place.is_folder:
            os.chmod(path, 0o600)
            for each in (path, os.path.dirname(path)):
                _sync(each)

    def remove(self, paths: list[str]) -> None:
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                self.files.rm_file(path)
            self._pulse.beat()

    def _read(self, home: str, name: str, size: int, incarnation: str) -> BackupManifest | None:
        raw = b""
        try:
            if 0 < size <= manifest.BYTES_MAX:
                raw = self.files.cat_file(f"{home}/{name}", start=0, end=size)
        except FileNotFoundError:
            return None  # it was pruned in this moment
        backup = manifest.decode(raw, incarnation, manifest.seq_of(name) or 0)
        if backup is None:
            self._tell(f"{incarnation}/{name} is not the manifest of a backup and is passed over")
        return backup

    def _listed(self, path: str) -> Iterator[tuple[str, int | None]]:
        """Names and sizes of what lies there; folders have none. A path that does not exist yet holds nothing."""
        try:
            found = self.files.ls(path, detail=True)
        except FileNotFoundError as missing:
            if trouble.is_missing_bucket(missing):
                raise
            self._check_mounted()
            return
        self._pulse.beat()
        for each in found:
            name = each["name"].rstrip("/").rpartition("/")[2]
            yield name, None if each["type"] == "directory" else each["size"]

    def _check_mounted(self) -> None:
        above = os.path.dirname(self._place.base)
        if self._place.is_folder and not os.path.isdir(above):
            raise BackupError(f"{above} does not exist", hint="make it, or is a disk not mounted?")


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
