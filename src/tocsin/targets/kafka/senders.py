"""The producers: one that is sent through, and those that are retired and whose last reports are waited for."""

from __future__ import annotations

from confluent_kafka import KafkaError

from tocsin.targets.kafka.hearing import Hearing
from tocsin.targets.kafka.properties import ACKNOWLEDGED_S_MAX
from tocsin.targets.kafka.sender import Config, Sender

RETIRE_S = 0.25
"""So long before authority ends a producer with events under way gets no more: others' shall not go with them."""
RETIRED_MAX = 3


class Senders:
    """At most four producers at a time."""

    def __init__(self, config: Config, hearing: Hearing) -> None:
        self._config = config
        self._hearing = hearing
        self.current: Sender | None = None
        self._retired: list[Sender] = []

    def ready(self) -> Sender:
        """The one to send through, made if there is none. Raises KafkaException if it cannot be."""
        if self.current is None:
            self.current = Sender(self._config, self._on_error)
        return self.current

    def retire(self, now_s: float, *, is_broken: bool = False) -> None:
        """It gets no more. ``is_broken``: nor does it send what it has."""
        sender, self.current = self.current, None
        if sender is None:
            return
        sender.retired_s = now_s
        self._retired.append(sender)
        self._hearing.forget()
        if is_broken:
            sender.throw_away()

    def listen(self, now_s: float, wait_s: float = 0.0) -> bool:
        """Serve reports, and wait for one if there is none. False: there is no producer to listen to."""
        for sender in self._retired:
            sender.listen(0.0)
        if self.current is not None:
            self.current.listen(wait_s)
        elif self._retired:
            self._retired[-1].listen(wait_s)
        else:
            return False
        if self.current is not None and self.current.is_broken:
            self.retire(now_s, is_broken=True)
        return True

    def tidy(self, now_s: float) -> list[Sender]:
        """Close retired ones that have nothing more to report, and those that take too long: these are returned."""
        given_up = []
        for sender in tuple(self._retired):
            is_old = now_s - (sender.retired_s or now_s) > ACKNOWLEDGED_S_MAX + 5
            if sender.count and (is_old or len(self._retired) > RETIRED_MAX):
                given_up.append(sender)
            elif sender.count:
                continue
            self._retired.remove(sender)
            sender.close()
        return given_up

    def close(self, wait_s: float) -> None:
        """Give what is under way a moment, then let go of everything."""
        for sender in (*self._retired, self.current):
            if sender is not None:
                sender.flush(wait_s if sender is self.current else 0.0)
                sender.throw_away()
                sender.flush(0.0)
                sender.close(wait=True)
        self._retired, self.current = [], None

    def _on_error(self, sender: Sender, error: KafkaError) -> None:
        self._hearing.told(error)
        if error.code() == KafkaError._FATAL:
            sender.is_broken = True
