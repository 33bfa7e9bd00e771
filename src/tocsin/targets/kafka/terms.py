"""How long authority lasts, as far as orders have told."""

from __future__ import annotations

from tocsin.targets.contract import Order

_TERMS_MAX = 8


class Terms:
    """Authority is one and the same for all orders of a term, and grows while its leader is heard: so what a later
    order says of its end holds for those that were sent before it."""

    def __init__(self) -> None:
        self._ends: dict[int, float] = {}

    def learn(self, order: Order) -> None:
        if order.until_s is None:
            return
        self._ends[order.term] = max(order.until_s, self._ends.get(order.term, order.until_s))
        if len(self._ends) > _TERMS_MAX:
            del self._ends[min(self._ends)]

    def end_s(self, order: Order) -> float:
        """When the authority ends under which it was sent."""
        if order.until_s is None:
            return float("inf")
        return max(order.until_s, self._ends.get(order.term, order.until_s))
