"""What others tell, late, of launches that were in doubt."""

from __future__ import annotations

import msgspec
import pytest

from tocsin.model import change as c
from tocsin.model.launch import LaunchState
from tocsin.model.target import NullTarget
from tocsin.replica.flight import Flight, _LaunchSpec
from tocsin.replica.outcomes import resolutions
from tocsin.targets.contract import Order, Outcome, Verdict


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
    (change,) = resolutions([(flight, Outcome(verdict, "told"), "a")])
    assert isinstance(change, c.LaunchResolved)
    assert change.state == state
