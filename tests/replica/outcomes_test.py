"""What others tell, late, of launches that were in doubt."""

from __future__ import annotations

import msgspec
import pytest

from tocsin.model import change as c
from tocsin.model.launch import LaunchState
from tocsin.model.target import NullTarget
from tocsin.replica.flight import Flight, _LaunchSpec
from tocsin.replica.outcomes import resolutions, settlement_of
from tocsin.targets.contract import Order, Outcome, Verdict
from tocsin.targets.null import NullTarget as Nowhere


@pytest.mark.parametrize(
    ("verdict", "state"),
    [
        (Verdict.SUCCEEDED, LaunchState.SUCCEEDED),
        (Verdict.FAILED, LaunchState.FAILED),
        (Verdict.NOT_STARTED, LaunchState.SKIPPED),
        (Verdict.CANCELLED, LaunchState.CANCELLED),
    ],
)
def a_doubt_is_resolved_as_what_was_told(verdict: Verdict, state: LaunchState) -> None:
    order = Order("s-60", "s", 60, 1, 1, 60_000, NullTarget())
    flight = Flight(1, order, _LaunchSpec(NullTarget(), msgspec.Raw(b"\xc0")))
    (change,) = resolutions([(flight, Outcome(verdict, "told"), "a")], {"null": Nowhere()}, 90_000)
    assert isinstance(change, c.LaunchResolved)
    assert change.state == state


@pytest.mark.parametrize(
    ("is_doubted", "attempt", "state"),
    [
        (False, 1, LaunchState.FAILED),
        (True, 2, LaunchState.RETRYING),
        (True, 9, LaunchState.IN_DOUBT),
    ],
)
def that_a_repeat_did_not_go_out_does_not_make_the_call_before_it_a_failure(
    is_doubted: bool, attempt: int, state: LaunchState
) -> None:
    order = Order("s-60", "s", 60, attempt, 1, 60_000, NullTarget())
    flight = Flight(1, order, _LaunchSpec(NullTarget(), msgspec.Raw(b"\xc0")), doubted=is_doubted)
    refused = Outcome(Verdict.NOT_STARTED, "connection refused")
    assert settlement_of(flight, refused, Nowhere(), 60_000).state is state
