"""One event on its way, and the batch that waits for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tocsin.model.target import KafkaTarget as KafkaSpec
from tocsin.targets.contract import Order, Outcome, Verdict
from tocsin.targets.event import event_of, names_of

if TYPE_CHECKING:
    from tocsin.targets.kafka.lane import Lane
    from tocsin.targets.kafka.sender import Sender

NOT_TOLD = Outcome(Verdict.UNKNOWN, "not told yet")


class Batch:
    """Outcomes of several orders. Told to its event loop when the last of them is known."""

    def __init__(self, count: int, loop: asyncio.AbstractEventLoop) -> None:
        self.outcomes: list[Outcome] = [NOT_TOLD] * count
        self.told: asyncio.Future[Sequence[Outcome]] = loop.create_future()
        self.is_abandoned = False
        """Nobody waits for it any more: what has not been sent shall not be."""
        self.lock = threading.Lock()
        """Held by whoever gives one of its orders to the library, or takes it back."""
        self._left = count
        self._loop = loop

    def settle(self, index: int, outcome: Outcome) -> None:
        """The first word about an order counts. From any thread."""
        with self.lock:
            self.settle_locked(index, outcome)

    def settle_locked(self, index: int, outcome: Outcome) -> None:
        if self.outcomes[index] is not NOT_TOLD:
            return
        self.outcomes[index] = outcome
        self._left -= 1
        if not self._left:
            try:
                self._loop.call_soon_threadsafe(self._tell)
            except RuntimeError:
                """The loop is closed: nobody wants to know any more."""

    def is_settled(self, index: int) -> bool:
        return self.outcomes[index] is not NOT_TOLD

    def _tell(self) -> None:
        if not self.told.done():
            self.told.set_result(self.outcomes)


class Message(NamedTuple):
    """As it goes to the broker."""

    topic: str
    key: str
    value: bytes
    headers: list[tuple[str, str | bytes | None]]


class Parcel:
    """One order, from the moment it was handed over until nothing more can be heard of it."""

    __slots__ = ("batch", "handed_s", "index", "is_given", "lane", "order", "sender", "sent_alone", "sent_s")

    def __init__(self, batch: Batch, index: int, order: Order, handed_s: float) -> None:
        self.batch = batch
        self.index = index
        self.order = order
        self.handed_s = handed_s
        self.sent_s = 0.0
        """When it was given to the library, the last time if that was done again; zero: it was not yet."""
        self.is_given = False
        """It is with the library, or about to be."""
        self.sent_alone = False
        self.lane: Lane | None = None
        self.sender: Sender | None = None

    def settle(self, outcome: Outcome) -> None:
        self.batch.settle(self.index, outcome)

    @property
    def is_settled(self) -> bool:
        return self.batch.is_settled(self.index)

    def give(self) -> bool:
        """Before it is given to the library. False: it was settled or taken back before."""
        with self.batch.lock:
            self.is_given = not self.is_settled
        return self.is_given

    def not_given(self) -> None:
        """The library did not take it."""
        with self.batch.lock:
            self.is_given = False

    def revoke(self, outcome: Outcome) -> None:
        """Settle it unless it was given to the library. From any thread."""
        with self.batch.lock:
            if not self.is_given:
                self.batch.settle_locked(self.index, outcome)


def message_of(order: Order) -> Message:
    """The owner's headers, then ours: what names the launch cannot be overridden."""
    spec = order.target
    assert isinstance(spec, KafkaSpec)
    names = names_of(order)
    headers: list[tuple[str, str | bytes | None]] = []
    if spec.headers:
        ours = {name.lower() for name in names}
        headers = [(name, value) for name, value in spec.headers.items() if name.lower() not in ours]
    headers.extend(names.items())
    return Message(spec.topic, order.schedule if spec.key is None else spec.key, event_of(order), headers)
