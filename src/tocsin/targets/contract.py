"""What every target promises.

A call ends in one of five ways. The difference between ``not_started`` and ``unknown`` is what keeps a launch
from happening twice, so a target says ``not_started`` only when it is *certain* that nothing went out:

=============  ======================================================================================
succeeded      done
accepted       running; ``watch`` tells the end
failed         the target itself says so; ``permanent`` when trying again cannot help
not_started    certain: refused connection, no address, no such command
unknown        the order may have gone out. A time-out is unknown, never failed
=============  ======================================================================================

A target whose receiver deduplicates by name is *idempotent* for that order. One that ``looks_up`` can find an
order by name after everything else was lost **and** refuses a second launch of the same name and attempt; a
look-up alone would not be enough, because a paused former leader may still call after it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from tocsin.model.target import TargetSpec
from tocsin.targets.authority import AUTHORITY_ENDED


class Verdict(enum.IntEnum):
    """How a call ended."""

    SUCCEEDED = 1
    ACCEPTED = 2
    FAILED = 3
    NOT_STARTED = 4
    UNKNOWN = 5
    CANCELLED = 6
    """The order was stopped because ``cancel`` asked for it."""


class Order(msgspec.Struct, frozen=True, gc=False):
    """One attempt of one launch, with all that a target needs to make the call."""

    name: str
    schedule: str
    scheduled_at_s: int
    attempt: int
    term: int
    generated_at_ms: int
    target: TargetSpec
    payload: bytes = b"null"
    """JSON, as the owner wrote it."""
    timeout_s: float | None = None
    until_s: float | None = None
    """When the leader's authority ends, on this machine's boot clock (``CLOCK_BOOTTIME``). What has not reached its
    target by then must not: it is ``TOO_LATE``. None: no end."""
    deadline_s: float | None = None
    """When its schedule's deadline passes, on the same clock: a first call later than that is not made, ``TOO_LATE``.
    Only a ``PatientTarget`` has to look at it: for the others ``until_s`` is never later."""
    is_repeat: bool = False
    """An earlier call may have gone out, and this one is made only because the receiver recognises a repeat. One that
    would not any more must not be called: that is ``unknown``."""
    asked_lid: int = 0
    """The number of the launch, if a person asked for it after the fact; 0: nobody did. A launch of the same name may
    have been made before, and forgotten: what a target remembers of that one is nothing of this one."""
    is_uncounted: bool = False
    """Nobody has counted all the time since ``generated_at_ms``: its age is not known, whatever the clock shows."""


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """How a call ended, in a form that goes into the journal."""

    verdict: Verdict
    reason: str = ""
    exit_code: int | None = None
    permanent: bool = False
    ended_ms: int | None = None
    called_ms: int | None = None
    """When the call was made: when its first byte left, when the command began. None: it was not made, or it was made
    as soon as the target was asked to."""
    is_uncalled: bool = False
    """Certain that it was stopped before the call: the attempt was none. Only with ``cancelled``."""

    @property
    def is_too_late(self) -> bool:
        return self.verdict is Verdict.NOT_STARTED and self.reason == AUTHORITY_ENDED


SUCCEEDED = Outcome(Verdict.SUCCEEDED)
ACCEPTED = Outcome(Verdict.ACCEPTED)
TOO_LATE = Outcome(Verdict.NOT_STARTED, AUTHORITY_ENDED)
"""Certain that nothing went out. It is no failure: whoever is in office makes the same attempt again."""
"""The leader's authority ended first. The same attempt may be launched again."""


class Output(msgspec.Struct, frozen=True):
    """What a launch printed: its beginning, its end, and how many bytes between them were let go."""

    head: bytes
    tail: bytes = b""
    dropped: int = 0
    complete: bool = True


class Target(Protocol):
    """A place that launches go to."""

    @property
    def kind(self) -> str: ...

    @property
    def looks_up(self) -> bool:
        """Can it find an order by name?"""
        ...

    def idempotent(self, spec: TargetSpec) -> bool:
        """Does the receiver deduplicate by the launch's name?"""
        ...

    async def start(self, last_entry_ms: int = 0) -> None:
        """Get ready. Called once, before anything else. ``last_entry_ms``: the time of the last entry that is there:
        what it ordered, a process before this one may have begun."""
        ...

    async def stop(self) -> None:
        """Let go of everything without ending what runs."""
        ...

    async def launch(self, order: Order) -> Outcome:
        """Make the call. Never raises for what can go wrong with a call: that is an Outcome."""
        ...

    async def watch(self, order: Order) -> Outcome:
        """Wait for the end of an accepted order. Never ``accepted``."""
        ...

    async def lookup(self, order: Order) -> Outcome | None:
        """What became of this attempt, asked by name. None: certain that it never started, and the same
        attempt may be launched. ``unknown``: it cannot be told. ``accepted`` without ``called_ms``: somebody has it,
        and may be about to make the call."""
        ...

    async def cancel(self, order: Order) -> None:
        """Stop it if it runs; ``watch`` (or the pending ``launch``) then ends as ``cancelled``."""
        ...

    async def output(self, name: str, attempt: int) -> Output | None:
        """What that attempt printed, if this target captures output."""
        ...

    async def prune(self, older_than_s: float) -> int:
        """Let go of records of what ended longer ago than that. Returns how many there were."""
        ...


@runtime_checkable
class BatchTarget(Protocol):
    """A target that takes many orders in one call, for a herd."""

    async def launch_batch(self, orders: Sequence[Order]) -> Sequence[Outcome]:
        """One outcome an order, in order."""
        ...


@runtime_checkable
class RevocableTarget(Protocol):
    """One that knows of each call under way whether anything has gone out."""

    def revoke_unsent(self) -> None:
        """Calls of which nothing has gone out are not made: they end ``TOO_LATE``."""
        ...


@runtime_checkable
class ForgetfulTarget(Protocol):
    """One whose receiver recognises a repeat only for a while."""

    def remembers_s(self, spec: TargetSpec) -> float:
        """For how long after a launch began, to be safe. Zero if that is not known."""
        ...

    async def recall(self, specs: Iterable[TargetSpec]) -> None:
        """Find that out, in a moment at most. Never raises for what can go wrong with it."""
        ...


@runtime_checkable
class PatientTarget(Protocol):
    """One that holds on to orders for longer than authority lasts at a time."""

    def in_office(self, term: int, until_s: float) -> None:
        """The authority under which orders of this term were made lasts until then, at least. Told again and again
        while it does; from the event loop, and it must not wait for anything."""
        ...


def recognises(target: Target, order: Order, now_ms: int) -> bool:
    """Would the receiver recognise a repeat of this order at that moment? Its age is that of the whole launch, as the
    first of several calls may have been the one that arrived. One whose age is not known is not recognised: the clock
    may have been set back, or the machine was off."""
    if not target.idempotent(order.target):
        return False
    if not isinstance(target, ForgetfulTarget):
        return True
    age_ms = now_ms - order.generated_at_ms
    return not order.is_uncounted and 0 <= age_ms < target.remembers_s(order.target) * 1000
