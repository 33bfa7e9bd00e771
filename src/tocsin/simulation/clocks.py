"""Each machine's own idea of time. True time is the loop's, and nobody in the world knows it."""

from __future__ import annotations

import asyncio

from tocsin.simulation.virtual import VirtualLoop


class MachineClock:
    """The port ``Clock``. Durations are measured at the machine's own rate. The wall clock is kept near the truth, as a
    time service does, until it is put elsewhere or stopped."""

    def __init__(
        self, loop: VirtualLoop, epoch_ms: float, rate: float, ahead_ms: float, booted_s: float
    ) -> None:
        self._loop = loop
        self._epoch_ms = epoch_ms
        self._true_s = loop.time()
        self._local_s = booted_s
        self._ahead_ms = ahead_ms
        self._stopped_ms: float | None = None
        self.rate = rate

    def elapsed_s(self) -> float:
        return self._local_s + (self._loop.time() - self._true_s) * self.rate

    def wall_ms(self) -> int:
        return int(self._running_ms() if self._stopped_ms is None else self._stopped_ms)

    async def wait(self, event: asyncio.Event, timeout_s: float) -> bool:
        if event.is_set():
            return True
        try:
            # A little longer: durations that are computed and those that are measured differ in the last digit.
            async with asyncio.timeout(timeout_s / self.rate + 1e-6):
                await event.wait()
        except TimeoutError:
            return False
        return True

    def run_at(self, rate: float) -> None:
        """From now on it runs at this rate."""
        self._local_s, self._true_s, self.rate = self.elapsed_s(), self._loop.time(), rate

    def step(self, by_ms: float) -> None:
        self._ahead_ms += by_ms

    def stop(self) -> None:
        """The wall clock stands still; durations are measured as ever."""
        self._stopped_ms = self._running_ms()

    def go_on(self) -> None:
        """From where it stood."""
        if self._stopped_ms is not None:
            self._ahead_ms += self._stopped_ms - self._running_ms()
            self._stopped_ms = None

    def set_right(self, ahead_ms: float = 0.0) -> None:
        """As somebody with a true clock would."""
        self._stopped_ms = None
        self._ahead_ms += ahead_ms - self.off_ms()

    def off_ms(self) -> float:
        """How far it is ahead of the truth."""
        return self.wall_ms() - self.true_ms()

    def true_ms(self) -> float:
        return self._epoch_ms + self._loop.time() * 1000

    def true_of_wall_ms(self, wall_ms: float) -> float:
        """When, in truth, this clock will show that, if nobody touches it."""
        return self.true_ms() + wall_ms - self.wall_ms()

    def true_of_elapsed_ms(self, elapsed_s: float) -> float:
        return self.true_ms() + (elapsed_s - self.elapsed_s()) / self.rate * 1000

    def _running_ms(self) -> float:
        return self.true_ms() + self._ahead_ms
