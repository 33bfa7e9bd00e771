"""The part of a schedule that timing decisions need, in numbers and small: it is read for every due row."""

from __future__ import annotations

import enum

import msgspec


class Missed(enum.IntEnum):
    """What becomes of occurrences that fell due while nobody was in office."""

    SKIP = 0
    LAST = 1
    ALL = 2


class Overlap(enum.IntEnum):
    """What becomes of an occurrence that falls due while an earlier launch is open."""

    ALLOW = 0
    FORBID = 1
    REPLACE = 2
    QUEUE = 3


class Rule(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Zero means "none" for every duration and moment."""

    missed: Missed = Missed.LAST
    overlap: Overlap = Overlap.ALLOW
    spread_ms: int = 0
    deadline_ms: int = 0
    jitter_ms: int = 0
    start_ms: int = 0
    end_ms: int = 0
    may_repeat: bool = False
    """When in doubt it is launched again: ``on_doubt`` says so, or its receiver recognises it by its name."""


DEFAULT = Rule()
_decoder = msgspec.msgpack.Decoder(Rule)


def encode_rule(rule: Rule) -> bytes | None:
    """None for the default rule, which most schedules have: it then costs nothing to keep."""
    return None if rule == DEFAULT else msgspec.msgpack.encode(rule)


def decode_rule(raw: bytes | None) -> Rule:
    return DEFAULT if raw is None else _decoder.decode(raw)
