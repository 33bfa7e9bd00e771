"""Limits: how fast, and how many at once, launches of a kind may start.

A limit is about a target, a label, or both together. One whose label has no value (``team``) is a limit for each
value on its own. Pure: a bucket is told what time it is.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

import msgspec

from tocsin.errors import InvalidInput
from tocsin.model.target import KINDS

LIMITS_MAX = 1_000
CONCURRENCY_MAX = 1_000_000
BURST_MAX = 1_000_000
RATE_MAX = 1_000_000
BURST_S = 0.25
"""Where no burst is given: what the rate allows in so many seconds, at least one. The loop that starts launches comes
by some times a second, and what it did not take meanwhile must not be lost."""

_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_RATE = re.compile(r"([0-9]{1,9})\s*/\s*([smhd])")
_LABEL = re.compile(r"([A-Za-z0-9][A-Za-z0-9._/-]{0,62})(=(.{1,200}))?")
_ORIGIN = re.compile(r"(https?)://[^/?#\\@\s]+/?", re.IGNORECASE)
_DETAILED = {"http": "an origin, https://HOST[:PORT]", "kafka": "a topic", "nats": "a subject"}
_RATE_ALLOWED = "a number of launches a second, minute, hour or day: 100/s, 600/m"
_TARGET_ALLOWED = f"{', '.join(KINDS)}, http https://HOST, kafka TOPIC or nats SUBJECT"


class Limit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One limit, in the words of its file."""

    target: str = ""
    """``kafka``, ``http https://api.example.org``, ``kafka reminders``. Empty: any."""
    label: str = ""
    """``team=payroll``, or ``team``: each of its values on its own. Empty: any."""
    rate: str = ""
    burst: int | None = None
    concurrency: int | None = None

    @property
    def name(self) -> str:
        """What it is about: ``team=payroll``, ``exec, team``."""
        return ", ".join(word for word in (self.target, self.label) if word)

    @property
    def text(self) -> str:
        """With its numbers: ``team=payroll 100/s``, ``exec 4 at once``."""
        at_once = "" if self.concurrency is None else f"{self.concurrency} at once"
        return f"{self.name} {', '.join(part for part in (self.rate, at_once) if part)}"

    @property
    def kind(self) -> str:
        return self.target.partition(" ")[0]

    @property
    def detail(self) -> str:
        """The origin, topic or subject; empty: any of that kind."""
        return self.target.partition(" ")[2]

    @property
    def label_key(self) -> str:
        return self.label.partition("=")[0]

    @property
    def label_value(self) -> str:
        """Empty: each on its own."""
        return self.label.partition("=")[2]

    @property
    def is_for_each(self) -> bool:
        return bool(self.label) and not self.label_value

    def bucket(self) -> Bucket | None:
        """None: it may be as fast as it likes."""
        if not self.rate:
            return None
        count, unit_s = _parse_rate(self.rate)
        burst = max(1, math.floor(count / unit_s * BURST_S)) if self.burst is None else self.burst
        return Bucket(unit_s / count, burst)

    def check(self) -> None:
        """Raises for what cannot be a limit, naming the field."""
        if not self.target and not self.label:
            raise _wrong(
                "target", "it says neither which target nor which label it is about", "", "one of them"
            )
        if self.target:
            _check_target(self)
        if self.label:
            _check_label(self.label)
        if not self.rate and self.concurrency is None:
            raise _wrong("rate", "it limits nothing", "", f"a rate ({_RATE_ALLOWED}), a concurrency, or both")
        if self.rate:
            _parse_rate(self.rate)
        elif self.burst is not None:
            raise _wrong("burst", "a burst belongs to a rate, and there is none", self.burst, "with a rate")
        _check_number("burst", self.burst, BURST_MAX)
        _check_number("concurrency", self.concurrency, CONCURRENCY_MAX)


class Bucket(NamedTuple):
    """A token bucket, kept as one number: the moment at which it will be full again (``full_s``; the past: it is)."""

    interval_s: float
    burst: int

    def holds(self, full_s: float, now_s: float) -> int:
        """How many may start now. Below zero: others were started without being asked about."""
        lacking = max(0.0, full_s - now_s) / self.interval_s
        # What is a whole number but for the last bits of it is meant as one.
        return self.burst - math.ceil(lacking - 1e-6)

    def take(self, full_s: float, now_s: float, number: int = 1) -> float:
        """The same afterwards."""
        return max(full_s, now_s) + number * self.interval_s

    def has_s(self, full_s: float, number: int = 1) -> float:
        """When so many may start at once."""
        return full_s - (self.burst - min(number, self.burst)) * self.interval_s

    def handful(self, over_s: float) -> int:
        """What it lets through in a while: worth waking up for."""
        return max(1, min(self.burst, math.floor(over_s / self.interval_s)))


class LimitValueView(msgspec.Struct, frozen=True, kw_only=True):
    """Of a limit for each value of a label: one of the values."""

    value: str
    under_way: int
    waiting: int


class LimitView(msgspec.Struct, frozen=True, kw_only=True):
    """A limit, and how it stands."""

    limit: str
    """What it is about: ``team=payroll``."""
    target: str
    label: str
    rate: str
    """Empty: any."""
    burst: int | None
    concurrency: int | None
    started_per_s: float
    """Of the last ten seconds."""
    under_way: int
    waiting: int
    """Launches that are due and wait for it, as far as was looked."""
    values: list[LimitValueView] = []
    """Of a label without a value: the busiest ones."""


class LimitsView(msgspec.Struct, frozen=True, kw_only=True):
    """All limits, as the leader counts them."""

    leader: str
    """Who counts. Empty: nobody is known to lead, and the numbers are not known."""
    items: list[LimitView]


def _parse_rate(text: str) -> tuple[int, int]:
    found = _RATE.fullmatch(text)
    if found is None or int(found[1]) < 1:
        raise _wrong("rate", f"{text[:60]!r} is not a rate", text, _RATE_ALLOWED)
    count, unit_s = int(found[1]), _UNITS_S[found[2]]
    if count / unit_s > RATE_MAX:
        raise _wrong("rate", f"{text!r} is more than can be started", text, f"up to {RATE_MAX}/s")
    return count, unit_s


def _check_target(limit: Limit) -> None:
    kind, detail = limit.kind, limit.detail
    if kind not in KINDS or limit.target != f"{kind} {detail}".rstrip() or any(map(str.isspace, detail)):
        raise _wrong("target", f"{limit.target[:200]!r} is not a target", limit.target, _TARGET_ALLOWED)
    if detail and kind not in _DETAILED:
        raise _wrong("target", f"{kind} is limited as a whole", limit.target, kind)
    if kind == "http" and detail and not _ORIGIN.fullmatch(detail):
        allowed = f"http, or http and {_DETAILED['http']} without a path"
        raise _wrong("target", f"{detail[:200]!r} is not an origin", limit.target, allowed)


def _check_label(label: str) -> None:
    found = _LABEL.fullmatch(label)
    if found is None or not label.isprintable():
        raise _wrong(
            "label",
            f"{label[:60]!r} is not a label",
            label,
            "KEY=VALUE, or KEY: each of its values on its own",
        )


def _check_number(field: str, number: int | None, most: int) -> None:
    if number is not None and not 1 <= number <= most:
        raise _wrong(field, f"{number} is out of range", number, f"1 to {most}")


def _wrong(field: str, message: str, value: object, allowed: str) -> InvalidInput:
    return InvalidInput(message, field=field, value=value, allowed=allowed)
