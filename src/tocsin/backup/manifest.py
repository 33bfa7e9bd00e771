"""What a backup claims to be, and what its files are called."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from tocsin.model.backup import BackupView
from tocsin.state.snapshot import Manifest

FORMAT = 1
BYTES_MAX = 65_536
"""Whoever can write there could have us read for ever."""
_TIME_MS_MAX = 253_370_764_800_000
"""The year 9999. Calendars end with it."""
_SIZE_MAX = 1 << 62
_FOLDER = re.compile(r"[A-Za-z0-9_-]{1,64}")
_FILE = re.compile(r"state-([0-9]{16})(?:\.json|-[0-9a-f]{12}\.db\.zst)")


class Owner(NamedTuple):
    """The cluster that writes backups, and restores those that it has written itself."""

    sign: Callable[[str], str]
    """Of a text, what only who has the cluster's secret can compute."""
    members: Callable[[], list[str]] = list
    """Its replicas at this moment, each as ``NAME=HOST:PORT``."""
    other_signatures: Callable[[str], Sequence[str]] = lambda text: ()
    """Of a text, what the other secrets that the cluster trusts give: while its secret is being changed."""


class BackupManifest(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot, and the file that it is kept in."""

    snapshot: Manifest
    file: str
    stored_size: int
    stored_sha256: str
    """Of the file as it is, compressed."""
    version: str
    """Of the Tocsin that wrote it."""
    members: tuple[str, ...] = ()
    """The replicas of the cluster that wrote it, at that time, each as ``NAME=HOST:PORT``."""
    authenticator: str = ""
    """Of all the rest, made with the cluster's secret: who can write to the place is not believed for that. Empty: it
    was written on one machine, which has no secret."""
    format: int = FORMAT

    @property
    def seq(self) -> int:
        return self.snapshot.seq

    @property
    def incarnation(self) -> str:
        return self.snapshot.incarnation

    @property
    def time_ms(self) -> int:
        return self.snapshot.time_ms


class _Written(BackupManifest, frozen=True, kw_only=True):
    """As it lies there, with a checksum of all the rest: one digit that has become another makes it no backup, instead
    of one of another time."""

    check: str = ""
    """Empty: it was written by a version that did not know of it."""


def signed(backup: BackupManifest, owner: Owner) -> BackupManifest:
    """In the name of its owner, and of those who belong to it now."""
    complete = msgspec.structs.replace(backup, members=tuple(owner.members()))
    return msgspec.structs.replace(complete, authenticator=owner.sign(_text(complete)))


def is_signed(backup: BackupManifest, owner: Owner) -> bool:
    """With any secret that the cluster trusts."""
    text, found = _text(backup), backup.authenticator.encode()
    accepted = (owner.sign(text), *owner.other_signatures(text))
    return any(hmac.compare_digest(found, each.encode()) for each in accepted)


def _text(backup: BackupManifest) -> str:
    """All that it says, and nothing that could be read in two ways."""
    of = backup.snapshot
    snapshot = (of.incarnation, of.origin, of.origin_seq, of.seq, of.time_ms, of.size, of.sha256, of.digest)
    stored = (backup.file, backup.stored_size, backup.stored_sha256, backup.members, backup.version)
    return f"backup {msgspec.json.encode((backup.format, *snapshot, *stored)).decode()}"


def view_of(backup: BackupManifest) -> BackupView:
    """As it is shown."""
    return BackupView(
        sequence=backup.seq,
        at=datetime.fromtimestamp(backup.time_ms / 1000, UTC),
        incarnation=backup.incarnation,
        bytes=backup.snapshot.size,
        stored_bytes=backup.stored_size,
        sha256=backup.snapshot.sha256,
        version=backup.version,
    )


def new_data_name(seq: int) -> str:
    """Another one each time: a try that was given up may still come back to life and write."""
    return f"state-{seq:016d}-{secrets.token_hex(6)}.db.zst"


def manifest_name(seq: int) -> str:
    return f"state-{seq:016d}.json"


def is_folder(name: str) -> bool:
    """Can this be the folder of a journal?"""
    return _FOLDER.fullmatch(name) is not None


def seq_of(name: str) -> int | None:
    """The sequence number in the name of a file of ours; None: it is somebody else's."""
    found = _FILE.fullmatch(name)
    return None if found is None else int(found[1])


def encode(manifest: BackupManifest) -> bytes:
    return msgspec.json.encode(_Written(**_fields(manifest), check=_checksum(manifest)))


def decode(raw: bytes, incarnation: str, seq: int) -> BackupManifest | None:
    """None if it is not one, or not the one of this place: what it says is used to find and to remove files."""
    try:
        written = msgspec.json.decode(raw, type=_Written)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    found = BackupManifest(**_fields(written))
    if written.check and written.check != _checksum(found):
        return None
    if found.format != FORMAT or (found.incarnation, found.seq) != (incarnation, seq):
        return None
    if not 0 <= found.time_ms <= _TIME_MS_MAX or not _are_sizes(found.snapshot.size, found.stored_size):
        return None
    return found if found.file.endswith(".db.zst") and seq_of(found.file) == seq else None


def _fields(manifest: BackupManifest) -> dict[str, Any]:
    return {name: getattr(manifest, name) for name in BackupManifest.__struct_fields__}


def _checksum(manifest: BackupManifest) -> str:
    return hashlib.sha256(msgspec.json.encode(list(_fields(manifest).values()))).hexdigest()


def _are_sizes(*sizes: int) -> bool:
    return all(0 <= size <= _SIZE_MAX for size in sizes)
