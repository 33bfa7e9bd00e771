"""How long authority lasts, as far as we were told."""

from __future__ import annotations

from tocsin.targets.contract import Order

_TERMS_MAX = 8


class Terms:
    """Authority is one and the same for all orders of a term, and grows while its leader is heard: so what is said
    later of its end holds for those that were sent before."""

    def __init__(self) -> None:
        self._ordered: dict[int, float] = {}
        self._renewed: dict[int, float] = {}

    def learn(self, order: Order) -> None:
        """An order says until when it may be sent."""
        if order.until_s is not None:
            _extend(self._ordered, order.term, order.until_s)

    def renew(self, term: int, until_s: float) -> None:
        """The leader of that term says how long it is in office. From any thread."""
        _extend(self._renewed, term, until_s)

    def may_be_sent_until_s(self, order: Order) -> float | None:
        """What has not been sent goes by its own word and the leader's. None: there is no end."""
        if order.until_s is None:
            return None
        return max(order.until_s, self._renewed.get(order.term, order.until_s))

    def end_s(self, order: Order) -> float:
        """When the authority ends under which it was sent."""
        until_s = self.may_be_sent_until_s(order)
        return float("inf") if until_s is None else max(until_s, self._ordered.get(order.term, until_s))


def _extend(ends: dict[int, float], term: int, until_s: float) -> None:
    ends[term] = max(until_s, ends.get(term, until_s))
    if len(ends) > _TERMS_MAX:
        ends.pop(min(ends), None)
