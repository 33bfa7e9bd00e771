"""Which launches stand in line together, and how many of them may be under way.

A lane is a kind of target, or one host of the kind that calls hosts. Lanes are counted apart, so that a receiver that
never answers holds up its own launches and nobody else's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from tocsin.cron import parse_duration
from tocsin.model.target import HTTP_TIMEOUT_S_MAX, HttpTarget, TargetSpec
from tocsin.targets.contract import Order
from tocsin.targets.slots import Shares

CALLS_OUTSTANDING_MAX = 2_000
BATCHED_OUTSTANDING_MAX = 20_000
"""Nothing new that is due is started while so many calls of its kind wait for an answer: a herd must not fill the
memory, and what has not been called when the process is killed is doubt for a target that cannot look up."""
WAITING_MAX = 20_000
"""The same for what cannot stay due (retries, launches by hand): beyond it they end as not started."""

SHARED = frozenset({"http"})
"""Kinds with a lane for each host."""

_ORIGIN = re.compile(r"[A-Za-z]+://[^/?#\\]*")


class _Where(msgspec.Struct, frozen=True, gc=False):
    kind: str
    url: str = ""


class _Peek(msgspec.Struct, frozen=True, gc=False):
    """The few bytes of a schedule that tell its lane: the rest is not even decoded."""

    target: _Where


_peek = msgspec.msgpack.Decoder(_Peek).decode


def lane_of(kind: str, url: str = "") -> str:
    """``exec``, or ``http http://host:port``."""
    if not url:
        return kind
    origin = _ORIGIN.match(url)
    return f"{kind} {origin.group().lower() if origin else ''}"


def lane_of_target(kind: str, spec: TargetSpec) -> str:
    return lane_of(kind, spec.url if isinstance(spec, HttpTarget) else "")


def lane_of_spec(spec: bytes) -> str:
    """Of a schedule as it is kept."""
    where = _peek(spec).target
    return lane_of(where.kind, where.url)


def patience_s(order: Order) -> float | None:
    """How long an order may wait until its call is made: as long as the call itself may take. It is not taken off
    the call's own time, because a call that is cut short is doubt, and one that was never made is not."""
    limits = [] if order.timeout_s is None else [order.timeout_s]
    if isinstance(order.target, HttpTarget):
        own_s = parse_duration(order.target.timeout, field="target.timeout")
        limits.append(float(min(own_s, HTTP_TIMEOUT_S_MAX)))
    return min(limits, default=None)


class Room:
    """How many more launches each lane takes, for one look at what is due."""

    def __init__(self, shares: Mapping[str, Shares], in_batches: frozenset[str]) -> None:
        self._shares = shares
        # A herd in batches must not be slowed down by counting.
        one_by_one = shares.keys() - in_batches
        self._words = tuple(kind.encode() for kind in sorted(one_by_one))
        self._batches_full = any(not shares[kind].has_room(kind) for kind in in_batches)

    def takes_all(self, specs: Iterable[bytes]) -> bool:
        """Is there room for all of these for sure? Found by one look at a whole herd: there is where none of them so
        much as mentions a kind that is counted."""
        if self._batches_full:
            return False
        together = b" ".join(specs)
        return not any(word in together for word in self._words)

    def takes(self, spec: bytes) -> bool:
        """Is there room for this schedule's launch? Then it is counted."""
        where = _peek(spec).target
        shares = self._shares.get(where.kind)
        if shares is None:
            return True
        lane = lane_of(where.kind, where.url)
        if not shares.has_room(lane):
            return False
        shares.take(lane)
        return True

    def has_in_lane(self, lane: str) -> bool:
        """Is there room for one more in this lane?"""
        shares = self._shares.get(lane.partition(" ")[0])
        return shares is None or shares.has_room(lane)

    def count_in_lane(self, lane: str) -> None:
        """One more is taken."""
        if (shares := self._shares.get(lane.partition(" ")[0])) is not None:
            shares.take(lane)

    def limit_of(self, spec: bytes) -> str:
        """The limit that leaves no room for this schedule's launch; empty: none does."""
        return ""


ROOM_FOR_ALL = Room({}, frozenset())
