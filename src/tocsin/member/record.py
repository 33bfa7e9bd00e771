"""The disk's memory of the cluster: ``member.json``, beside the etcd whose data it speaks of.

The data of etcd holds a mark, a file with a random name, and the record holds the identity of that file. In a directory
that was put back from a copy the mark is another file. Its log may be older than what this replica has acknowledged, so
a majority with its vote could lose acknowledged entries.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from pathlib import Path
from typing import Literal

import msgspec

from tocsin.errors import ClusterError, OfficeTaken
from tocsin.file_identity import drop_other_marks, is_marked, is_surely_copied, new_mark
from tocsin.files import make_folder, unwritable, write_whole
from tocsin.replica.parts import Paths

Condition = Literal["empty", "bereft", "founding", "founded"]
_LOST_RECORD = "the record was lost"
_DISOWNED = "the data was disowned"
"""In place of a mark. No file has these identities."""


class Record(msgspec.Struct, frozen=True):
    """``token`` is of this disk and made by chance, ``founding`` of the cluster that it founded, if it did."""

    name: str
    token: str
    condition: Condition = "empty"
    founding: str = ""
    member: int = 0
    """The number that etcd has given to this member; 0: it was never seen to work."""
    asked: bool = False
    """This disk has asked to be taken into a cluster, and no other member has its place."""
    recovered_ms: int = 0
    """When ``--recover`` was carried out; 0 again after a start without it."""
    joined: bool = False
    """It has joined the others anew, and has yet to take over their state: its own may be of another history."""
    original: str = ""
    """The name of the mark in etcd's data, and its identity. Empty: a version that made no marks wrote this record."""


def replica_of(data: Path) -> str:
    """The name of the replica of a cluster whose disk this is; empty: it is of none."""
    memory = Memory(data / "member", "")
    try:
        record, has_data = memory.read(), memory.has_data()
    except OSError:
        return ""  # what is wrong with the folder is told by who needs it
    if has_data or (record is not None and record.condition != "empty"):
        return record.name if record is not None else "(unknown)"
    return ""


class Memory:
    """The record, and the folder of etcd's data. It is read once; nobody else writes it."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.etcd = folder / "etcd"
        self.aside = folder / "etcd.removed"
        self._file = folder / "member.json"
        self._paths = Paths(folder.parent)
        self._name = name
        self._record: Record | None = None
        self._lock: int | None = None

    def lock(self) -> None:
        """Two processes with one memory would each take the other's etcd for its own."""
        make_folder(self.folder)
        descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise OfficeTaken(
                f"another Tocsin is using {self.folder.parent}",
                hint="stop it, or choose another --data directory",
            ) from None
        self._lock = descriptor

    def unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @property
    def record(self) -> Record:
        if self._record is None:
            self._record = self._found()
        return self._record

    def keep(self, **changes: object) -> None:
        """Durable when it returns."""
        self._write(msgspec.structs.replace(self.record, **changes))

    def has_data(self) -> bool:
        """Has etcd ever written here? Its log is the last thing that it makes before it says a word to others."""
        log = self.etcd / "member" / "wal"
        return log.is_dir() and any(log.iterdir())

    def is_copy(self) -> bool:
        """Is the data of etcd another one than this replica wrote here?"""
        if not self.has_data():
            return False
        return self._is_of_another(self.record)

    def is_surely_copy(self) -> bool:
        """A change of the owner of its files alone does not make it one."""
        return self.has_data() and is_surely_copied(self._marked, self.record.original)

    def _is_of_another(self, record: Record) -> bool:
        return bool(record.original) and not is_marked(self._marked, record.original)

    def sign(self, **changes: object) -> None:
        """The data of etcd is this replica's own. Durable when it returns."""
        try:
            make_folder(self._marked)
            mark = new_mark(self._marked)
        except OSError as wrong:
            raise unwritable(self._marked, wrong) from None
        self.keep(original=mark, **changes)
        drop_other_marks(self._marked, mark)

    def disown(self) -> None:
        """The data of etcd must not vote any more, although its mark is right: from now on it is a copy. Durable when
        it returns."""
        self.keep(original=_DISOWNED)

    def is_disowned(self) -> bool:
        return self.record.original == _DISOWNED

    @property
    def _marked(self) -> Path:
        """Where etcd keeps its log, and looks at nothing that it does not know."""
        return self.etcd / "member"

    def set_aside(self, *, asked: bool = False) -> Path:
        """Be let in anew, but leave the data for who may want to look at it. Only the last one is kept. ``asked``: the
        others have let this replica in already."""
        if self.aside.exists():
            shutil.rmtree(self.aside)
        # Before the data goes: that the others have been asked is not forgotten, and the data votes no more.
        self._write(msgspec.structs.replace(self._blank("bereft"), asked=asked, original=_DISOWNED))
        if self.etcd.exists():
            self.etcd.rename(self.aside)
        return self.aside

    def _found(self) -> Record:
        """A record without the data it speaks of is worth nothing: the replica has forgotten what it promised to the
        others. Only who was about to found may have been stopped before there was any. But that there was a cluster
        is not forgotten, as long as anything is left of it: a new one in its place would begin with nothing."""
        record = self.read()
        if record is not None and record.name != self._name:
            raise ClusterError(
                f"this disk belongs to the replica {record.name}, not to {self._name}",
                hint=f"start it with --name {record.name}, or choose another --data directory",
            )
        if self.has_data():
            record = record or Record(self._name, "", "founded", original=_LOST_RECORD)
            # The disk that a copy was made of has the same token, and may run elsewhere.
            token = secrets.token_hex(16) if self._is_of_another(record) else record.token
            return msgspec.structs.replace(record, token=token)
        if record is not None and record.condition == "bereft":
            return record
        if self._was_in_use() or (record is not None and record.condition == "founded"):
            self._write(self._blank("bereft"))
        elif record is None:
            self._write(self._blank())
        else:
            return record
        assert self._record is not None
        return self._record

    def _was_in_use(self) -> bool:
        """A state comes only after a journal, and the journal is in etcd's data."""
        snapshots = self._paths.snapshots
        return self._paths.state.exists() or (snapshots.is_dir() and any(snapshots.iterdir()))

    def _blank(self, condition: Condition = "empty") -> Record:
        return Record(self._name, secrets.token_hex(16), condition)

    def read(self) -> Record | None:
        """As it stands on the disk; None: nothing does."""
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=Record)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as wrong:
            raise ClusterError(
                f"{self._file} cannot be read: {wrong}",
                hint=f"if the other replicas run, remove {self.folder}: this one then joins them anew",
            ) from None

    def _write(self, record: Record) -> None:
        try:
            make_folder(self.folder)
            write_whole(self._file, msgspec.json.encode(record))
        except OSError as wrong:
            raise unwritable(self._file, wrong) from None
        self._record = record
