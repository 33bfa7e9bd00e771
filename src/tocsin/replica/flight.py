"""A launch on its way: the order for its target, and the policies that its outcome will need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from tocsin.cron import parse_duration
from tocsin.decide.due import DueRow
from tocsin.decide.outcome import RetryPolicy
from tocsin.model.ids import launch_name
from tocsin.model.launch import LaunchKind
from tocsin.model.schedule import Retry
from tocsin.model.target import TargetSpec, kind_of
from tocsin.state.queries import OrderRow
from tocsin.targets.contract import Order

_NO_PAYLOAD = msgspec.Raw(b"\xc0")
SMALL_BYTES = 2_048
_DROPPED = bytes(bytearray(b"null"))
"""An object of its own, so that it can be told from a payload."""


class _LaunchSpec(msgspec.Struct, frozen=True, gc=False):
    """The part of a schedule that a launch needs: the rest is not even decoded."""

    target: TargetSpec
    payload: msgspec.Raw = _NO_PAYLOAD
    on_doubt: Literal["skip", "relaunch"] = "skip"
    retry: Retry | None = None
    timeout: str | None = None


_decode = msgspec.msgpack.Decoder(_LaunchSpec).decode


class Flight(msgspec.Struct, gc=False):
    """One attempt under way."""

    lid: int
    order: Order
    spec: _LaunchSpec
    cancel: str | None = None
    size: int = 1
    """Bytes of the schedule that it was made of."""

    def drop_payload(self) -> None:
        """It is not called, or not any more: what may wait or run for hours need not keep it."""
        if self.size > SMALL_BYTES:
            self.order = msgspec.structs.replace(self.order, payload=_DROPPED)

    @property
    def is_without_payload(self) -> bool:
        return self.order.payload is _DROPPED

    def restore_payload(self, raw: bytes) -> None:
        """Out of its schedule: it is called after all."""
        self.order = msgspec.structs.replace(self.order, payload=_as_json(_decode(raw).payload))

    @property
    def kind(self) -> str:
        return kind_of(self.order.target)

    def retry_policy(self) -> RetryPolicy:
        retry = self.spec.retry
        if retry is None:
            return RetryPolicy()
        return RetryPolicy(
            retry.limit,
            parse_duration(retry.backoff, field="retry.backoff") * 1000,
            parse_duration(retry.max_backoff, field="retry.max_backoff") * 1000,
            retry.jitter,
        )


class Again(NamedTuple):
    """A launch of a former term to be called (again). ``doubtful``: it may have been called before."""

    flight: Flight
    doubtful: bool


def flights_of_starts(rows: Sequence[DueRow], lids: Sequence[int], term: int, now_ms: int) -> list[Flight]:
    """For occurrences that were just started: the due rows hold all that is needed."""
    return [
        _flight(lid, row.id, row.instant_s, False, 1, term, now_ms, None, row.spec)
        for lid, row in zip(lids, rows, strict=True)
    ]


def flight_of_row(row: OrderRow, term: int) -> Flight:
    """For a launch that was read back from the state."""
    manual = row.kind == LaunchKind.MANUAL
    return _flight(
        row.lid,
        row.id,
        row.instant_s,
        manual,
        row.attempt,
        term,
        row.started_ms,
        row.cancel,
        row.spec,
        bool(row.was_doubted),
    )


def _flight(
    lid: int,
    schedule: str,
    instant_s: int,
    manual: bool,
    attempt: int,
    term: int,
    generated_at_ms: int,
    cancel: str | None,
    raw: bytes,
    was_doubted: bool = False,
) -> Flight:
    spec = _decode(raw)
    order = Order(
        name=launch_name(schedule, instant_s, manual),
        schedule=schedule,
        scheduled_at_s=instant_s,
        attempt=attempt,
        term=term,
        generated_at_ms=generated_at_ms,
        target=spec.target,
        payload=_as_json(spec.payload),
        timeout_s=None if spec.timeout is None else float(parse_duration(spec.timeout, field="timeout")),
        is_repeat=was_doubted and spec.on_doubt == "skip",
    )
    if len(raw) > SMALL_BYTES:  # what is not read here is a part of it, and would keep all of it
        spec = msgspec.structs.replace(spec, payload=_NO_PAYLOAD)
    return Flight(lid, order, spec, cancel, len(raw))


def _as_json(payload: msgspec.Raw) -> bytes:
    if payload is _NO_PAYLOAD:
        return b"null"
    return msgspec.json.encode(msgspec.msgpack.decode(payload))
