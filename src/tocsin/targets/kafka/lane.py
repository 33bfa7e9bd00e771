"""The events of one topic: those that wait, which is certain, and those under way, which is not.

How many are under way is bounded by a window, as in TCP: it is wide while acknowledgements come, one after trouble, and
grows by one with each acknowledgement. So what is in doubt when a broker dies is a window and no more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from tocsin.targets.contract import Outcome
from tocsin.targets.kafka.parcel import Parcel

WINDOW_MAX = 2_000
STALLED_S = 0.5
"""Nothing more is sent behind an event that has waited so long for its acknowledgement."""
_MORE_EACH = 0.02
"""What an acknowledgement adds to a window that was narrowed because batches were too large for the topic."""


class Lane:
    """One topic."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.waiting: deque[Parcel] = deque()
        self.returned: deque[Parcel] = deque()
        """Refused only because of the others in their batch: they come first."""
        self.under_way: dict[Parcel, None] = {}
        """In the order in which they were sent."""
        self.known_until_s = 0.0
        """Until then the topic is taken to exist."""
        self.missing_since_s: float | None = None
        self.ask_again_s = 0.0
        self._window = 1.0 * WINDOW_MAX
        self._window_max = 1.0 * WINDOW_MAX

    @property
    def is_idle(self) -> bool:
        return not self.waiting and not self.returned and not self.under_way

    @property
    def has_waiting(self) -> bool:
        return bool(self.waiting or self.returned)

    def weed(self, end_of: Callable[[Parcel], Outcome | None]) -> None:
        """Those that wait and for which there is an end are settled, and wait no more."""
        for line in (self.returned, self.waiting):
            ends = [(parcel, end_of(parcel)) for parcel in line]
            if any(end is not None for _, end in ends):
                line.clear()
                line.extend(parcel for parcel, end in ends if end is None)
            for parcel, end in ends:
                if end is not None:
                    parcel.settle(end)

    def misses(self, now_s: float) -> float:
        """For how long it has missed its topic, or a part of it."""
        if self.missing_since_s is None:
            self.missing_since_s = now_s
        return now_s - self.missing_since_s

    def take(self) -> Parcel | None:
        """The next one to be sent."""
        line = self.returned or self.waiting
        return line.popleft() if line else None

    def room(self, now_s: float) -> int:
        """How many more may be sent."""
        if self.under_way and now_s - next(iter(self.under_way)).sent_s > STALLED_S:
            return 0
        return int(self._window) - len(self.under_way)

    def send(self, parcel: Parcel, now_s: float) -> None:
        parcel.lane, parcel.sent_s, parcel.sent_alone = self, now_s, int(self._window) == 1
        self.under_way[parcel] = None

    def acknowledged(self, parcel: Parcel) -> None:
        self.under_way.pop(parcel, None)
        if self._window < WINDOW_MAX:
            self._window_max = min(self._window_max + _MORE_EACH, WINDOW_MAX)
            self._window = min(self._window + 1, self._window_max)

    def ended(self, parcel: Parcel) -> None:
        """It was refused."""
        self.under_way.pop(parcel, None)

    def lost(self, parcel: Parcel) -> None:
        """No acknowledgement will come."""
        self.under_way.pop(parcel, None)
        self._window = 1

    def split(self, parcel: Parcel) -> bool:
        """The batch that it was in was too large for the topic. False: it was alone in it."""
        together = len(self.under_way)
        self.under_way.pop(parcel, None)
        if parcel.sent_alone:
            return False
        if self._window > 1:
            self._window_max = max(1.0, min(self._window_max, together) / 4)
        self._window = 1
        self.returned.append(parcel)
        return True
