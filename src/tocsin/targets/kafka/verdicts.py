"""What the client library's words mean for a launch."""

from __future__ import annotations

from confluent_kafka import KafkaError

from tocsin.targets.contract import Outcome, Verdict

TOO_LARGE = KafkaError.MSG_SIZE_TOO_LARGE
NO_TOPIC = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
)
NOT_LET_IN = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED})
"""No connection comes about, and waiting does not help."""

_FOR_GOOD = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.POLICY_VIOLATION,
    }
)
"""The broker refuses the event itself, and would refuse it again."""

_SHOWN_MAX = 300


def refusal_of(error: KafkaError) -> Outcome | None:
    """What a broker, or the library before anything was sent, says of an event that it does not take. None: that is not
    what it says."""
    if error.code() in _FOR_GOOD:
        return Outcome(Verdict.FAILED, f"kafka refuses it: {shown(error)}", permanent=True)
    if error.code() in NO_TOPIC:
        # Somebody may make that topic: another try can help.
        return Outcome(Verdict.FAILED, f"kafka has no such topic: {shown(error)}")
    return None


def outcome_of(error: KafkaError, partition: int | None) -> Outcome:
    """Of an event that was given to the library, and that ends without acknowledgement."""
    is_local_word = error.code() < 0
    has_no_partition = partition is None or partition < 0
    if not is_local_word or has_no_partition:
        refusal = refusal_of(error)
        if refusal is not None:
            return refusal
    if is_local_word and has_no_partition:
        # No partition was ever chosen for it, so there was no broker to send it to.
        return Outcome(Verdict.NOT_STARTED, f"kafka was not reached: {shown(error)}")
    return Outcome(Verdict.UNKNOWN, f"no acknowledgement from kafka: {shown(error)}")


def shown(error: KafkaError) -> str:
    words = " ".join(str(error.str()).split())
    return "".join(c for c in words if c.isprintable())[:_SHOWN_MAX]
