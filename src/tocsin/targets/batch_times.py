"""When the events of a batch were sent."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tocsin.clock import Clock
from tocsin.targets.contract import SUCCEEDED, Outcome, Verdict

TOGETHER_S = 0.01
"""Events that were sent so soon after another one of their batch count as sent with it: one time for all of them is
recorded sooner than a time for each."""


def with_calls(outcomes: Sequence[Outcome], sent_s: Sequence[float | None], clock: Clock) -> list[Outcome]:
    """The outcomes of a batch, with the times of the calls. ``sent_s``: by ``elapsed_s``; None: it was not sent."""
    found: list[Outcome] = []
    now_ms, now_s = clock.wall_ms(), clock.elapsed_s()
    since_s, called_ms, succeeded = float("-inf"), now_ms, SUCCEEDED
    for outcome, at_s in zip(outcomes, sent_s, strict=True):
        if at_s is None or outcome.verdict is Verdict.NOT_STARTED:
            found.append(outcome)
            continue
        if not 0 <= at_s - since_s <= TOGETHER_S:
            since_s, called_ms = at_s, now_ms - round((now_s - at_s) * 1000)
            succeeded = msgspec.structs.replace(SUCCEEDED, called_ms=called_ms)
        is_plain = outcome is SUCCEEDED
        found.append(succeeded if is_plain else msgspec.structs.replace(outcome, called_ms=called_ms))
    return found
