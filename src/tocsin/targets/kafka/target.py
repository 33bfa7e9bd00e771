"""The target: orders go in, outcomes come out. The work is the courier's."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from tocsin.clock import Clock, SystemClock
from tocsin.model.target import KafkaTarget as KafkaSpec
from tocsin.model.target import TargetSpec
from tocsin.targets.batch_times import with_calls
from tocsin.targets.contract import TOO_LATE, Order, Outcome, Output, Verdict
from tocsin.targets.kafka.courier import Courier
from tocsin.targets.kafka.parcel import NOT_TOLD, Batch, Parcel
from tocsin.targets.kafka.properties import brokers_of, config_of, read_properties
from tocsin.targets.kafka.sender import check
from tocsin.targets.permissions import Names, against_name

_LET_GO = Outcome(Verdict.UNKNOWN, "the service stopped before kafka acknowledged it")


class KafkaTarget:
    """Puts events on topics."""

    kind: ClassVar[str] = "kafka"
    looks_up: ClassVar[bool] = False

    def __init__(
        self, brokers: str, config_file: str = "", *, topics: Names | None = None, clock: Clock | None = None
    ) -> None:
        """Raises InvalidInput for addresses or properties that cannot be right."""
        addresses = brokers_of(brokers)
        properties = read_properties(config_file) if config_file else {}
        config = config_of(addresses, properties)
        check(config, config_file, properties)
        self._topics = topics or Names()
        self._clock = clock or SystemClock()
        self._courier = Courier(config, self._clock)
        self._pending: dict[Batch, list[Parcel]] = {}
        """Batches that are under way."""

    def idempotent(self, spec: TargetSpec) -> bool:
        """A broker keeps whatever it is sent. Whether the consumer looks at ids the owner says, by ``on_doubt``."""
        return False

    async def start(self, last_entry_ms: int = 0) -> None:
        self._courier.start()

    async def stop(self) -> None:
        await asyncio.to_thread(self._courier.stop)

    async def launch(self, order: Order) -> Outcome:
        (outcome,) = await self.launch_batch([order])
        return outcome

    async def launch_batch(self, orders: Sequence[Order]) -> Sequence[Outcome]:
        if not orders:
            return []
        batch = Batch(len(orders), asyncio.get_running_loop())
        now_s = self._clock.elapsed_s()
        parcels = []
        for index, order in enumerate(orders):
            assert isinstance(order.target, KafkaSpec)
            refusal = against_name(self._topics, "kafka", "topic", order.target.topic)
            if refusal:
                batch.settle(index, Outcome(Verdict.NOT_STARTED, refusal, permanent=True))
            else:
                parcels.append(Parcel(batch, index, order, now_s))
        self._courier.take(parcels)
        self._pending[batch] = parcels
        try:
            outcomes = await batch.told
        except asyncio.CancelledError:
            batch.is_abandoned = True
            _revoke(parcels)
            outcomes = [_LET_GO if each is NOT_TOLD else each for each in batch.outcomes]
        finally:
            del self._pending[batch]
        sent_s: list[float | None] = [None] * len(orders)
        for parcel in parcels:
            sent_s[parcel.index] = parcel.sent_s or None
        return with_calls(outcomes, sent_s, self._clock)

    def revoke_unsent(self) -> None:
        for parcels in self._pending.values():
            _revoke(parcels)

    def in_office(self, term: int, until_s: float) -> None:
        self._courier.terms.renew(term, until_s)

    async def watch(self, order: Order) -> Outcome:
        return Outcome(
            Verdict.UNKNOWN, "an event has no end to wait for: its acknowledgement was the outcome"
        )

    async def lookup(self, order: Order) -> Outcome | None:
        return Outcome(Verdict.UNKNOWN, "an event on a topic cannot be looked up by its name")

    async def cancel(self, order: Order) -> None:
        """It is on the topic, or is about to be: nobody can call it back."""

    async def output(self, name: str, attempt: int) -> Output | None:
        return None

    async def prune(self, older_than_s: float) -> int:
        return 0


def _revoke(parcels: Sequence[Parcel]) -> None:
    """Those that the library was not given are not sent any more."""
    for parcel in parcels:
        parcel.revoke(TOO_LATE)
