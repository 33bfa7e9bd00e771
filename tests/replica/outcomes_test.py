"""What others tell, late, of launches that were in doubt."""

from __future__ import annotations

import msgspec
import pytest

from tocsin.model import change as c
from tocsin.model.launch import LaunchState
from tocsin.model.target import NullTarget
from tocsin.replica.flight import Flight, _LaunchSpec, flight_of_row
from tocsin.replica.outcomes import changes_of, resolutions, settlement_of
from tocsin.replica.reports import Reports
from tocsin.state.queries import OrderRow
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


def an_attempt_behind_a_clock_that_was_put_back_is_told_with_the_time_of_its_call() -> None:
    spec = msgspec.msgpack.encode({"target": {"kind": "null"}})
    row = OrderRow(1, "s", 60, 0, 1, 2, 100_000, None, spec, 1, "a", attempt_ms=5_000)
    flight = flight_of_row(row, 1)
    flight.note_call(5_100)
    outcome = Outcome(Verdict.FAILED, "told", ended_ms=5_300)
    (change,) = changes_of(Reports(ended=[(flight, outcome)]), {"null": Nowhere()}, 5_400)
    assert isinstance(change, c.LaunchesEnded)
    assert (change.called_ms, change.ended_ms) == ([5_100], [5_300])
