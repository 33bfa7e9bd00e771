"""etcd's messages, as its ``rpc.proto`` numbers them: requests as bytes, answers as values."""

from __future__ import annotations

from typing import NamedTuple

from tocsin.journal.etcd import wire

_PUT, _DELETED = 0, 1
_EQUAL, _GREATER = 0, 1
_CREATED_AT, _MODIFIED_AT, _VALUE = 1, 2, 3
_NO_DELETES = 1
_GET, _DISARM = 0, 2
ALARMS = {0: "none", 1: "nospace", 2: "corrupt"}


class KeyValue(NamedTuple):
    """A key as it stands, or stood at a revision."""

    key: bytes
    value: bytes
    revision: int
    """At which it was written."""


class Ranged(NamedTuple):
    """The keys of a range."""

    kvs: list[KeyValue]
    more: bool
    revision: int
    """Of the whole store when it was asked."""


class Transacted(NamedTuple):
    """What a transaction did."""

    succeeded: bool
    revision: int
    ranges: list[Ranged]
    """Answers of the branch that was taken, in order; those of puts and deletes are left out."""


class Batch(NamedTuple):
    """What a watch tells at once. Nothing in it: the server is alive and all is told."""

    revision: int
    puts: list[KeyValue]


class Watched(NamedTuple):
    """An answer on a watch's stream."""

    batch: Batch
    cancelled: bool
    compacted: int
    reason: str


class Status(NamedTuple):
    """What a server says of itself."""

    version: str
    member: int
    leader: int
    """0: it knows of none."""
    file_bytes: int
    used_bytes: int
    raft_index: int
    raft_applied: int
    is_learner: bool
    errors: list[str]
    """Alarms, and that it knows of no leader."""


class Alarm(NamedTuple):
    member: int
    kind: str


class EtcdMember(NamedTuple):
    """A server of the etcd cluster."""

    id: int
    name: str
    """Empty: it was added and has not started yet."""
    peer_urls: list[str]
    client_urls: list[str]
    is_learner: bool


# Requests


def range_of(key: bytes, end: bytes = b"", *, limit: int = 0, keys_only: bool = False) -> bytes:
    """Linearizable. With an end: from key to, and without, the end."""
    return wire.message((1, key), (2, end), (3, limit), (8, keys_only))


def put(key: bytes, value: bytes) -> bytes:
    return wire.message((1, key), (2, value))


def delete(key: bytes, end: bytes = b"") -> bytes:
    return wire.message((1, key), (2, end))


def do_range(request: bytes) -> bytes:
    """As a part of a transaction."""
    return wire.nested(1, request)


def do_put(key: bytes, value: bytes) -> bytes:
    return wire.nested(2, put(key, value))


def do_delete(key: bytes, end: bytes = b"") -> bytes:
    return wire.nested(3, delete(key, end))


def has_value(key: bytes, value: bytes) -> bytes:
    """A condition of a transaction."""
    return wire.message((1, _EQUAL), (2, _VALUE), (3, key)) + wire.nested(7, value)


def is_absent(key: bytes) -> bytes:
    """A condition of a transaction: the key was created at no revision."""
    return wire.message((1, _EQUAL), (2, _CREATED_AT), (3, key)) + b"\x28\x00"


def is_present(key: bytes) -> bytes:
    """A condition of a transaction: the key was created at some revision."""
    return wire.message((1, _GREATER), (2, _CREATED_AT), (3, key)) + b"\x28\x00"


def is_at(key: bytes, revision: int) -> bytes:
    """A condition of a transaction: the key was last written at that revision; 0: there is no such key."""
    compared = wire.message((1, _EQUAL), (2, _MODIFIED_AT), (3, key))
    return compared + (wire.message((6, revision)) if revision else b"\x30\x00")


def transaction(conditions: list[bytes], then: list[bytes], otherwise: list[bytes]) -> bytes:
    return b"".join(
        wire.nested(number, part)
        for number, parts in ((1, conditions), (2, then), (3, otherwise))
        for part in parts
    )


def create_watch(key: bytes, end: bytes, start_revision: int) -> bytes:
    """Puts only."""
    request = wire.message((1, key), (2, end), (3, start_revision), (5, _NO_DELETES))
    return wire.nested(1, request)


def ask_for_progress() -> bytes:
    return wire.nested(3, b"")


def compaction(revision: int, wait: bool) -> bytes:
    return wire.message((1, revision), (2, wait))


def alarms_request() -> bytes:
    return wire.message((1, _GET))


def disarm(alarm: Alarm) -> bytes:
    kind = next(number for number, name in ALARMS.items() if name == alarm.kind)
    return wire.message((1, _DISARM), (2, alarm.member), (3, kind))


def authenticate(user: str, password: str) -> bytes:
    return wire.message((1, user), (2, password))


def member_add(peer_urls: list[str], is_learner: bool) -> bytes:
    return b"".join(wire.nested(1, url.encode()) for url in peer_urls) + wire.message((2, is_learner))


def member_id(id: int) -> bytes:
    return wire.message((1, id))


def member_update(id: int, peer_urls: list[str]) -> bytes:
    return wire.message((1, id)) + b"".join(wire.nested(2, url.encode()) for url in peer_urls)


# Answers


def revision_of(raw: bytes) -> int:
    return _revision(wire.parsed(raw))


def ranged(raw: bytes) -> Ranged:
    found = wire.parsed(raw)
    kvs = [_key_value(kv) for kv in wire.blobs(found, 2)]
    return Ranged(kvs, bool(wire.number(found, 3)), _revision(found))


def transacted(raw: bytes) -> Transacted:
    found = wire.parsed(raw)
    answers = [wire.parsed(answer) for answer in wire.blobs(found, 3)]
    ranges = [ranged(wire.blob(answer, 1)) for answer in answers if 1 in answer]
    return Transacted(bool(wire.number(found, 2)), _revision(found), ranges)


def watched(raw: bytes) -> Watched:
    found = wire.parsed(raw)
    events = [wire.parsed(event) for event in wire.blobs(found, 11)]
    puts = [_key_value(wire.blob(event, 2)) for event in events if wire.number(event, 1) == _PUT]
    batch = Batch(_revision(found), puts)
    return Watched(batch, bool(wire.number(found, 4)), wire.number(found, 5), wire.text(found, 6))


def token(raw: bytes) -> str:
    return wire.text(wire.parsed(raw), 2)


def status(raw: bytes) -> Status:
    found = wire.parsed(raw)
    return Status(
        version=wire.text(found, 2),
        member=wire.unsigned(wire.parsed(wire.blob(found, 1)), 2),
        leader=wire.unsigned(found, 4),
        file_bytes=wire.number(found, 3),
        used_bytes=wire.number(found, 9),
        raft_index=wire.unsigned(found, 5),
        raft_applied=wire.unsigned(found, 7),
        is_learner=bool(wire.number(found, 10)),
        errors=[error.decode(errors="replace") for error in wire.blobs(found, 8)],
    )


def alarms(raw: bytes) -> list[Alarm]:
    rows = [wire.parsed(alarm) for alarm in wire.blobs(wire.parsed(raw), 2)]
    return [Alarm(wire.unsigned(row, 1), ALARMS.get(wire.number(row, 2), "unknown")) for row in rows]


def members(raw: bytes) -> list[EtcdMember]:
    """Of a list, an addition, a removal or an update."""
    found = wire.parsed(raw)
    return [_member(member) for member in wire.blobs(found, 2)]


def added(raw: bytes) -> EtcdMember:
    return _member(wire.blob(wire.parsed(raw), 2))


def _revision(found: wire.Fields) -> int:
    return wire.number(wire.parsed(wire.blob(found, 1)), 3)


def _key_value(raw: bytes) -> KeyValue:
    """Written out: a replica that catches up reads many of these."""
    key = value = b""
    revision = 0
    for field, content in wire.fields(raw):
        if isinstance(content, bytes):
            if field == 1:
                key = content
            elif field == 5:
                value = content
        elif field == 3:
            revision = content
    return KeyValue(key, value, revision)


def _member(raw: bytes) -> EtcdMember:
    found = wire.parsed(raw)
    return EtcdMember(
        id=wire.unsigned(found, 1),
        name=wire.text(found, 2),
        peer_urls=[url.decode() for url in wire.blobs(found, 3)],
        client_urls=[url.decode() for url in wire.blobs(found, 4)],
        is_learner=bool(wire.number(found, 5)),
    )
