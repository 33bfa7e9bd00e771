"""Targets that a token may write into schedules.

Without any pattern: all kinds, commands only with the scope ``exec``. Otherwise one of the patterns must fit::

    http                 any http target
    http:*.example.org   one whose host is this, or ends so
    kafka:reminders.*    one whose topic fits
    nats:team-a.*        one whose subject fits
    exec:backup          a command that is run as this user (and the scope ``exec``)
    null

It is looked at whenever somebody writes a schedule. What may be called at its launches, the settings say.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from tocsin.errors import InvalidInput
from tocsin.model.hosts import hosts_of
from tocsin.model.target import (
    KINDS,
    ExecTarget,
    HttpTarget,
    KafkaTarget,
    NatsTarget,
    TargetSpec,
    kind_of,
)

TARGETS_MAX = 32
_LENGTH_MAX = 250


def check_patterns(patterns: Sequence[str]) -> None:
    """Raise if these cannot be patterns."""
    if len(patterns) > TARGETS_MAX:
        raise InvalidInput(
            f"{len(patterns)} are too many",
            field="targets",
            value=len(patterns),
            allowed=f"up to {TARGETS_MAX}",
        )
    for pattern in patterns:
        kind, colon, rest = pattern.partition(":")
        is_usable = len(pattern) <= _LENGTH_MAX and pattern.isprintable() and " " not in pattern
        if kind not in KINDS or (colon and (not rest or kind == "null")) or not is_usable:
            raise InvalidInput(
                f"{pattern[:100]!r} is not a pattern of targets",
                field="targets",
                value=pattern[:_LENGTH_MAX],
                allowed=f"one of {', '.join(KINDS)}, or with what it may reach: http:*.example.org, kafka:TOPIC, "
                "nats:SUBJECT, exec:USER",
            )


def permit(patterns: Iterable[str], spec: TargetSpec) -> bool:
    """May such a target be written with one of these patterns?"""
    kind, names = kind_of(spec), _reached(spec)
    for pattern in patterns:
        of_kind, colon, rest = pattern.partition(":")
        if of_kind == kind and (not colon or all(fnmatchcase(name, _cased(kind, rest)) for name in names)):
            return True
    return False


def _cased(kind: str, pattern: str) -> str:
    return pattern.lower() if kind == "http" else pattern


def _reached(spec: TargetSpec) -> list[str]:
    """The hosts, topics, subjects or users that a target reaches. A pattern must fit all of them."""
    match spec:
        case HttpTarget():
            return [host.lower() for host in hosts_of(spec)]
        case KafkaTarget():
            return [spec.topic]
        case NatsTarget():
            return [spec.subject]
        case ExecTarget():
            return [spec.user or ""]
        case _:
            return []
