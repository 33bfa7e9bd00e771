"""A launch on its way: the order for its target, and the policies that its outcome will need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from tocsin.cron import parse_duration
from tocsin.decide.due import DueRow
from tocsin.decide.outcome import RetryPolicy
from tocsin.decide.timeline import plan
from tocsin.errors import InvalidSchedule
from tocsin.model.ids import launch_name
from tocsin.model.launch import LaunchKind
from tocsin.model.rule import Rule, encode_rule
from tocsin.model.schedule import Retry
from tocsin.model.target import TargetSpec, kind_of
from tocsin.state.queries import OrderRow
from tocsin.targets.contract import Order

CALLED_AT_ONCE_MS = 100
"""A first call that was made within this time of its start's entry needs no time of its own in the record."""
_LONG_BEFORE_MS = 30_000
"""A wall clock may be set back by as much and is believed (``ClockWatch``)."""
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
    deadline: str | None = None
    jitter: str | None = None


_decode = msgspec.msgpack.Decoder(_LaunchSpec).decode


class Flight(msgspec.Struct, gc=False):
    """One attempt under way."""

    lid: int
    order: Order
    spec: _LaunchSpec
    cancel: str | None = None
    size: int = 1
    """Bytes of the schedule that it was made of."""
    deadline_ms: int | None = None
    """A first call later than this is not made. None: no such call is too late, or one was made before."""
    called_ms: int | None = None
    """When the call was made, by this machine's clock; None: it was not, or that is written down already."""
    doubted: bool = False
    """An earlier call of this launch may have gone out, and nobody knows."""
    is_relaunch: bool = False
    """A person wants it to be called all the same."""
    has_failed_before: bool = False
    """An attempt before this one was made, and failed."""
    began_ms: int | None = None
    """When the entry of this attempt was written; None: when the launch was started, ``order.generated_at_ms``."""
    is_before_loss: bool = False
    """A record was lost since it was called: further attempts may have been made in the lost time."""

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

    def is_late(self, now_ms: int) -> bool:
        return self.deadline_ms is not None and now_ms > self.deadline_ms

    def note_call(self, called_ms: int) -> None:
        """It may have been noted by a clock of less precision, or by another one: no call precedes its start."""
        self.called_ms = max(called_ms, self.start_ms)

    @property
    def start_ms(self) -> int:
        """The clock may have been put back between the launch's start and this attempt."""
        started_ms = self.order.generated_at_ms
        return started_ms if self.began_ms is None else min(started_ms, self.began_ms)

    def note_recorded_call(self, called_ms: int) -> None:
        """The same of a target's own record. What that tells of long before the start was done for an order that the
        journal has lost, and is told as it was."""
        self.note_call(called_ms)
        if called_ms < self.start_ms - _LONG_BEFORE_MS:
            self.called_ms = called_ms

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
    found = [
        _flight(lid, row.id, row.instant_s, False, 1, term, now_ms, None, row.spec)
        for lid, row in zip(lids, rows, strict=True)
    ]
    for flight, row in zip(found, rows, strict=True):
        if row.rule is not None:
            settled = plan(row.resolved, row.zone, row.rule)
            if settled.rule.deadline_ms:
                planned_ms = settled.slot(row.id, row.instant_s).planned_ms
                flight.deadline_ms = planned_ms + settled.rule.deadline_ms
    return found


def flight_of_row(row: OrderRow, term: int) -> Flight:
    """For a launch that was read back from the state."""
    manual = row.kind == LaunchKind.MANUAL
    found = _flight(
        row.lid,
        row.id,
        row.instant_s,
        manual,
        row.attempt,
        term,
        row.started_ms,
        row.cancel,
        row.spec,
    )
    if row.asked_ms is not None:
        found.order = msgspec.structs.replace(found.order, asked_lid=row.lid)
    found.began_ms = row.attempt_ms
    found.doubted = row.doubt is not None
    found.is_relaunch = row.relaunched is not None
    found.has_failed_before = bool(row.has_failed_before)
    found.is_before_loss = bool(row.is_before_loss)
    # To be too late is to be called for the first time. A person who asks for it knows that it is late.
    if row.attempt <= 1 and not manual and row.asked_ms is None and found.spec.deadline is not None:
        found.deadline_ms = _planned_ms(row, found.spec) + _duration_ms(found.spec.deadline, "deadline")
    return found


def _planned_ms(row: OrderRow, spec: _LaunchSpec) -> int:
    """Of what waited in line it is not recorded where jitter planned it."""
    if row.planned_ms is not None or spec.jitter is None:
        return row.instant_s * 1000 if row.planned_ms is None else row.planned_ms
    jitter = encode_rule(Rule(jitter_ms=_duration_ms(spec.jitter, "jitter")))
    try:
        return plan(row.resolved, row.zone, jitter).slot(row.id, row.instant_s).planned_ms
    except InvalidSchedule:  # this machine's time zones are others: rather late than never
        return row.instant_s * 1000 + _duration_ms(spec.jitter, "jitter")


def _duration_ms(text: str, field: str) -> int:
    return parse_duration(text, field=field) * 1000


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
    )
    if len(raw) > SMALL_BYTES:  # what is not read here is a part of it, and would keep all of it
        spec = msgspec.structs.replace(spec, payload=_NO_PAYLOAD)
    return Flight(lid, order, spec, cancel, len(raw))


def _as_json(payload: msgspec.Raw) -> bytes:
    if payload is _NO_PAYLOAD:
        return b"null"
    return msgspec.json.encode(msgspec.msgpack.decode(payload))
