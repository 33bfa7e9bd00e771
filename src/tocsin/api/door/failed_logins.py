"""Wrong tokens are counted, and logged by address: one line a minute each, however many were tried."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import structlog

from tocsin.clock import Clock
from tocsin.observe.metrics import Metrics

log = structlog.get_logger()

LOGGED_EVERY_S = 60.0
ADDRESSES_MAX = 1_000
"""The others are logged as one."""
OTHERS = "others"


class _Noted(NamedTuple):
    logged_s: float
    unlogged: int
    """Failures since then."""


class FailedLogins:
    """Those of one node."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        self._by_address: dict[str, _Noted] = {}

    def note(self, address: str, reason: str) -> None:
        """Count a token from this address that is not valid, and log it unless that was done a moment ago."""
        self._metrics.failed_logins.inc()
        now_s = self._clock.elapsed_s()
        if address not in self._by_address and len(self._by_address) >= ADDRESSES_MAX:
            self._forget(now_s)
            if len(self._by_address) >= ADDRESSES_MAX:
                address = OTHERS
        noted = self._by_address.get(address)
        if noted is not None and now_s - noted.logged_s < LOGGED_EVERY_S:
            if not noted.unlogged:
                left_s = LOGGED_EVERY_S - (now_s - noted.logged_s)
                asyncio.get_running_loop().call_later(left_s, self._log_rest, address, reason)
            self._by_address[address] = noted._replace(unlogged=noted.unlogged + 1)
            return
        self._log(address, reason, 1 if noted is None else noted.unlogged + 1)

    def _log_rest(self, address: str, reason: str) -> None:
        """The minute is over: tell how many came in it, also if no other one comes."""
        noted = self._by_address.get(address)
        if noted is not None and noted.unlogged:
            self._log(address, reason, noted.unlogged)

    def _log(self, address: str, reason: str, times: int) -> None:
        log.warning("authentication failed", address=address, reason=reason, times=times)
        self._by_address[address] = _Noted(self._clock.elapsed_s(), 0)

    def _forget(self, now_s: float) -> None:
        recent = {
            a: noted for a, noted in self._by_address.items() if now_s - noted.logged_s < LOGGED_EVERY_S
        }
        self._by_address = recent
