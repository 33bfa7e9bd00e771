"""What goes on for a while is told when it begins, when its reason changes, and now and then: not every second."""

from __future__ import annotations

import re

from tocsin.clock import Clock

AGAIN_S = 30.0
_WORD = re.compile(r"[^\W\d]+")


class Nag:
    """One kind of trouble, and when it was last told of."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since_s: float | None = None
        self._is_told = False
        self._said: dict[frozenset[str], float] = {}
        """By reason: two that take turns are no news, nor is one with other numbers or in another order."""

    def began(self, at_s: float) -> None:
        """It was noticed only later. What goes on already began before."""
        if self._since_s is None:
            self._since_s = at_s

    def is_due(self, reason: str, *, after_s: float = 0.0) -> bool:
        """It goes on: is it to be told of now? Not before it has lasted so long."""
        now_s = self._clock.elapsed_s()
        self.began(now_s)
        self._said = {known: at_s for known, at_s in self._said.items() if now_s - at_s < AGAIN_S}
        words = frozenset(_WORD.findall(reason))
        if self.lasted_s < after_s or words in self._said:
            return False
        self._said[words] = now_s
        self._is_told = True
        return True

    @property
    def lasted_s(self) -> int:
        return 0 if self._since_s is None else int(self._clock.elapsed_s() - self._since_s)

    def over(self) -> int | None:
        """How long it has lasted, if anybody was told of it; None: then its end is no news either."""
        lasted_s = self.lasted_s if self._is_told else None
        self._since_s, self._is_told = None, False
        self._said.clear()
        return lasted_s
