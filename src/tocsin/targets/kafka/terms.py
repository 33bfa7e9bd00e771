"""How long authority lasts, as far as we were told."""

from __future__ import annotations

from tocsin.targets.contract import Order

_TERMS_MAX = 8


class Terms:
    """Authority is one and the same for all orders of a term, and grows while its leader is heard: so what is said
    later of its end holds for those that were sent before."""

    def __init__(self) -> None:
        self._ends: dict[int, float] = {}

    def learn(self, term: int, until_s: float | None) -> None:
        """From any thread: two that come at the same time may leave the lesser of both, until the next one comes."""
        if until_s is None:
            return
        self._ends[term] = max(until_s, self._ends.get(term, until_s))
        if len(self._ends) > _TERMS_MAX:
            self._ends.pop(min(self._ends), None)

    def end_s(self, order: Order) -> float:
        """When the authority ends under which it was sent."""
        if order.until_s is None:
            return float("inf")
        return max(order.until_s, self._ends.get(order.term, order.until_s))
