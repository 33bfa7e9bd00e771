"""Who read what commands printed: outputs hold what their owners let into them.

It is logged and not recorded in the journal. A read costs no write, and a follower without a leader answers it too.
"""

from __future__ import annotations

import structlog

from tocsin.clock import Clock
from tocsin.model.token import Caller

log = structlog.get_logger()

LOGGED_EVERY_S = 600.0
"""Whoever follows an output, or looks again, is logged once in this time."""
KEPT_MAX = 10_000


class ReadLog:
    """Of one node."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._logged_s: dict[tuple[str, str, int, str], float] = {}
        """In the order in which they were logged."""

    def output_read(self, caller: Caller, address: str, launch: str, attempt: int) -> None:
        """Log that this caller was given the output of an attempt."""
        key = (caller.token or caller.name, launch, attempt, address)
        now_s = self._clock.elapsed_s()
        if now_s - self._logged_s.get(key, -LOGGED_EVERY_S) < LOGGED_EVERY_S:
            return
        self._logged_s.pop(key, None)
        self._logged_s[key] = now_s
        if len(self._logged_s) > KEPT_MAX:
            del self._logged_s[next(iter(self._logged_s))]
        log.info(
            "output read",
            launch=launch,
            attempt=attempt,
            by=caller.name,
            token=caller.account,
            address=address,
        )
