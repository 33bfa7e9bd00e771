"""What came back from the targets, on its way into an entry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from tocsin.replica.flight import Flight
from tocsin.targets.contract import Outcome, Verdict

ENDS_AT_ONCE = 5_000
EXPIRED_AT_ONCE = 500
REASON_LENGTH_MAX = 500
REASON_BYTES_AT_ONCE = 192 * 1024
ROW_BYTES = 100
"""What an outcome takes in an entry beside its reason, at most."""


class Reports(msgspec.Struct):
    """What came back since the last look."""

    accepted: dict[int, Flight] = msgspec.field(default_factory=dict)
    ended: list[tuple[Flight, Outcome]] = msgspec.field(default_factory=list)
    withdrawn: list[Flight] = msgspec.field(default_factory=list)
    """Never called: there was no office any more."""
    expired: list[Flight] = msgspec.field(default_factory=list)
    """Never called: their deadline has passed."""
    is_plain: bool = False
    """All that ended did so well: a herd is not gone through again and again."""

    def __bool__(self) -> bool:
        return bool(self.accepted or self.ended or self.withdrawn or self.expired)

    def over(self) -> Iterator[int]:
        """Launches that are not under way any more."""
        yield from (flight.lid for flight, _ in self.ended)
        yield from (flight.lid for flight in self.withdrawn)
        yield from (flight.lid for flight in self.expired)

    def doubtful(self) -> Iterator[int]:
        """Those of them of which a call may still run."""
        for flight, outcome in () if self.is_plain else self.ended:
            if outcome.verdict is Verdict.UNKNOWN or (
                flight.doubted and outcome.verdict is not Verdict.SUCCEEDED
            ):
                yield flight.lid
        yield from (flight.lid for flight in self.withdrawn if flight.doubted)


def fitting(ended: Sequence[tuple[Flight, Outcome]]) -> int:
    """How many of them one entry takes: most have no reason, and those that have one may have a long one."""
    if not any(outcome.reason for _, outcome in ended):
        return len(ended)
    size = 0
    for count, (_, outcome) in enumerate(ended):
        size += ROW_BYTES + len(outcome.reason[:REASON_LENGTH_MAX].encode()) if outcome.reason else 0
        if size > REASON_BYTES_AT_ONCE:
            return max(count, 1)
    return len(ended)
