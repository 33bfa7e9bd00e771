"""What every term of a replica has in common."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

import msgspec

from tocsin.decide.clock import Verdict
from tocsin.model.cluster import Asked
from tocsin.observe.metrics import Metrics
from tocsin.replica.clock_guard import ClockGuard
from tocsin.replica.kept_answers import KeptAnswers
from tocsin.replica.limits import Limits
from tocsin.replica.liveness import Liveness
from tocsin.replica.office import Office
from tocsin.replica.terms import OwnTerms
from tocsin.state.store import Store


class Losses(Protocol):
    """Was a majority of the journal lost, so that entries which were written may be missing?"""

    @property
    def are_to_be_noted(self) -> bool: ...

    @property
    def may_leave_state_ahead(self) -> bool:
        """Is it explained by them, if the state has applied entries that the journal does not have?"""
        ...

    @property
    def may_leave_foreign_state(self) -> bool:
        """May the state here be of a history that the others went on without?"""
        ...

    def noted(self) -> None:
        """It stands in the journal now."""
        ...

    def state_begun(self) -> None:
        """There is a state that belongs to the journal."""
        ...


class NoLosses:
    are_to_be_noted = may_leave_state_ahead = may_leave_foreign_state = False

    def noted(self) -> None:
        return

    def state_begun(self) -> None:
        return


class Surroundings(msgspec.Struct, frozen=True):
    """Given to each leader anew."""

    name: str
    store: Store
    office: Office
    clock: ClockGuard
    metrics: Metrics
    on_state: Callable[..., Awaitable[Any]]
    checkpoint_every_s: Callable[[], float]
    checkpoint_seen_s: float
    """When the last one was, on the clock that counts through suspend."""
    born_after: int
    """The entry behind which the journal begins, if it goes on from a restored state; else 0."""
    own_terms: OwnTerms
    answers: KeptAnswers
    losses: Losses
    ask_clock: Callable[[], Awaitable[Verdict]]
    """What the other replicas, asked now, conclude about our wall clock."""
    seen_clock: Callable[[], Verdict]
    """What they said when they were last asked."""
    is_clock_off_to_all: Callable[[], Awaitable[bool]]
    """The same, having waited a little for those who do not answer yet."""
    cancel_elsewhere: Callable[[str, Asked, str], Coroutine[None, None, None]]
    limits: Limits
    liveness: Liveness

    @property
    def is_sole(self) -> bool:
        """Nobody else could be in office."""
        return self.office.renew_s is None

    def lost_since_ms(self) -> int | None:
        """Since when there is no record, if some was lost and the journal has not heard of it."""
        meta = self.store.meta
        is_restored = self.born_after > 0 and meta.seq == self.born_after
        # Each entry is offered behind the last one. Who is alone, and offered more than the journal has, lost some.
        is_behind = self.is_sole and self.own_terms.has_offered_behind(meta.seq)
        return meta.time_ms if is_restored or is_behind or self.losses.are_to_be_noted else None
