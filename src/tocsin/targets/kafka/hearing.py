"""Whether a broker is there: when one was last heard, and what the library said if none was."""

from __future__ import annotations

import structlog
from confluent_kafka import KafkaError

from tocsin.targets.kafka.verdicts import NOT_LET_IN, shown

log = structlog.get_logger()

FRESH_S = 0.25
"""A broker that was heard so lately need not be asked whether it is there. In a herd one always was."""
ASK_S = 1.0
ASK_AGAIN_S = 0.1


class Hearing:
    """Asked before anything is sent, so that nothing is sent into the void."""

    def __init__(self) -> None:
        self.was_heard = False
        """An acknowledgement came, at this moment."""
        self._heard_s = float("-inf")
        self._ask_again_s = 0.0
        self._silent_since_s: float | None = None
        self._trouble: KafkaError | None = None

    def is_fresh(self, now_s: float) -> bool:
        return now_s - self._heard_s < FRESH_S

    def may_ask(self, now_s: float) -> bool:
        return now_s >= self._ask_again_s

    def ask_s(self, left_s: float) -> float:
        """How long to wait for an answer if in so long something else is to be done."""
        return min(ASK_S, max(left_s, 0.05))

    def silence_s(self, now_s: float) -> float:
        return 0.0 if self._silent_since_s is None else now_s - self._silent_since_s

    @property
    def is_refused(self) -> bool:
        """Does nobody let us in, so that waiting does not help?"""
        return self._trouble is not None and self._trouble.code() in NOT_LET_IN

    @property
    def why(self) -> str:
        """Why nobody is heard. Empty: it is not known, or somebody is."""
        return "" if self._trouble is None else shown(self._trouble)

    def forget(self) -> None:
        """Whoever was heard may be gone."""
        self._heard_s = float("-inf")

    def heard(self, now_s: float) -> None:
        self.was_heard = False
        self._heard_s = now_s
        if self._silent_since_s is not None:
            log.info("kafka answers again", silent_s=round(now_s - self._silent_since_s, 1))
        self._silent_since_s = self._trouble = None

    def told(self, error: KafkaError) -> None:
        """The library says that something is wrong. Why it is comes before that nobody is there."""
        self.forget()
        if self._trouble is None or error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._trouble = error

    def failed(self, now_s: float, error: KafkaError) -> None:
        """Somebody was asked, and nobody answered."""
        self._heard_s = float("-inf")
        self._ask_again_s = now_s + ASK_AGAIN_S
        self._trouble = self._trouble or error
        if self._silent_since_s is None:
            self._silent_since_s = now_s
            log.warning("kafka does not answer", reason=self.why)
