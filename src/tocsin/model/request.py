"""What callers send, beside schedules themselves. The server decodes these and the client encodes them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

NOTE_LENGTH_MAX = 2000
Note = Annotated[str, msgspec.Meta(max_length=NOTE_LENGTH_MAX)]
Moment = Annotated[str, msgspec.Meta(max_length=40, description="RFC 3339 with an offset, or unix seconds")]
BulkAction = Literal["pause", "resume", "run", "delete", "label"]
NAMED_MAX = 1_000


class RestoreRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which version to bring back. None: the last one of a schedule that was deleted."""

    version: Annotated[int, msgspec.Meta(ge=1, le=2**53)] | None = None


class BackfillRequest(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename={"from_": "from"}
):
    """Launch what was left out in ``[from, until)``. ``until`` is by default now."""

    from_: Moment
    until: Moment | None = None
    preview: bool = False
    """Only tell what would be launched."""
    unrecorded: bool = False
    """Also what may have been launched and is no longer recorded."""


class ResolveRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What became of a launch that is in doubt; ``relaunch``: it is called again, under the same name."""

    outcome: Literal["succeeded", "failed", "skipped", "relaunch"]
    note: Note = ""


class Selector(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which schedules are meant. All that is said must hold."""

    prefix: Annotated[str, msgspec.Meta(max_length=200)] = ""
    labels: dict[str, str] = {}
    enabled: bool | None = None
    target: Literal["exec", "http", "kafka", "nats", "null"] | None = None
    everything: bool = False
    """Must be said when nothing else narrows it down."""
    ids: Annotated[
        list[Annotated[str, msgspec.Meta(max_length=200)]], msgspec.Meta(max_length=NAMED_MAX)
    ] = []
    """Only these."""


class BulkRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Do the same to many schedules."""

    action: BulkAction
    selector: Selector
    note: Note = ""
    preview: bool = False
    """Only tell which ones it would be."""
    labels: dict[str, str | None] = {}
    """For ``label``: what each is to have; null removes one."""


ReplicaName = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$")]


class AddReplicaRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A replica that is to join the cluster."""

    name: ReplicaName
    peer: Annotated[str, msgspec.Meta(min_length=1, max_length=260)]
    """``HOST:PORT`` at which the other replicas reach it."""


class RemoveReplicaRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A replica that is to leave the cluster."""

    name: ReplicaName


class TokenRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A token to be made."""

    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@+-]{0,62}$")]
    scopes: Annotated[
        list[Literal["read", "write", "exec", "operate", "admin"]], msgspec.Meta(min_length=1, max_length=5)
    ]
    prefixes: Annotated[list[str], msgspec.Meta(max_length=32)] = []
    """Of ids, in whole parts. None: it reaches everything."""
    expires_in: Annotated[str, msgspec.Meta(max_length=20)] | None = None
    """A duration such as 30d. None: it does not expire."""
    targets: Annotated[list[str], msgspec.Meta(max_length=32)] = []
    """Patterns of targets that it may write into schedules. None: any."""
