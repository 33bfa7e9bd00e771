"""A schedule's instants: its text, within its window, with its jitter."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence, Set
from functools import lru_cache
from typing import NamedTuple

from tocsin.cron import Expression
from tocsin.model.ids import launch_name
from tocsin.model.rule import DEFAULT, Rule, decode_rule


class Slot(NamedTuple):
    """An occurrence: its nominal instant, and how long after it the launch is planned."""

    instant_s: int
    delay_ms: int

    @property
    def planned_ms(self) -> int:
        return self.instant_s * 1000 + self.delay_ms


class Plan:
    """A parsed text with its rule. Shared by all schedules that have the same ones, so it knows no id."""

    __slots__ = ("_next", "expression", "once", "plain", "rule")

    def __init__(self, expression: Expression, rule: Rule) -> None:
        self.expression = expression
        self.rule = rule
        self.plain = rule == DEFAULT
        self.once = expression.is_once
        self._next: dict[int, int | None] = {}

    def next_instant(self, instant_s: int) -> int | None:
        """The instant after this one, within the window. A herd asks the same question thousands of times."""
        if self.once:
            return self.next_beside(instant_s)
        try:
            return self._next[instant_s]
        except KeyError:
            if len(self._next) > 64:
                self._next.clear()
            found = self._next[instant_s] = self.next_beside(instant_s)
            return found

    def next_beside(self, instant_s: int) -> int | None:
        """The same, beside what a herd keeps."""
        rule = self.rule
        if rule.start_ms:
            # The first whole second of the window is allowed itself, so ask from the one before it.
            instant_s = max(instant_s, -(-rule.start_ms // 1000) - 1)
        following = self.expression.next_unix(instant_s)
        if following is not None and rule.end_ms and following * 1000 > rule.end_ms:
            return None
        return following

    def instants(self, after_s: int, upto_s: int) -> Iterator[int]:
        """The occurrences in (after, upto], within the window, beside what a herd keeps."""
        following = self.next_beside(after_s)
        if self.rule.end_ms:
            upto_s = min(upto_s, self.rule.end_ms // 1000)
        while following is not None and following <= upto_s:
            yield following
            following = self.expression.next_unix(following)

    def slot(self, schedule: str, instant_s: int) -> Slot:
        """The occurrence at that instant with its own jitter: from its name, and never past the next one."""
        jitter_ms = self.rule.jitter_ms
        if not jitter_ms:
            return Slot(instant_s, 0)
        following = self.expression.next_unix(instant_s)
        if following is not None:
            jitter_ms = min(jitter_ms, (following - instant_s) * 1000 - 1)
        return Slot(instant_s, chosen(launch_name(schedule, instant_s), jitter_ms + 1))

    def slot_after(self, schedule: str, instant_s: int) -> Slot | None:
        following = self.next_instant(instant_s)
        return None if following is None else self.slot(schedule, following)

    def last_instant(self, after_s: int, upto_s: int) -> int | None:
        """The last occurrence in (after, upto], found without walking through all of them."""
        if self.rule.end_ms:
            upto_s = min(upto_s, self.rule.end_ms // 1000)
        return self.expression.last_unix(after_s, upto_s)


@lru_cache(maxsize=16_384)
def plan(resolved: str, zone: str, rule: bytes | None) -> Plan:
    """The plan for a schedule row. The text was settled at write, so no id is needed to read it."""
    return Plan(Expression.parse(resolved, timezone=zone), decode_rule(rule))


def first_slot(
    settled: Plan,
    schedule: str,
    now_s: int,
    decided_upto_s: int,
    forgotten_upto_s: int = -1,
    taken: Set[int] = frozenset(),
    deleted: Sequence[tuple[int, int]] = (),
) -> Slot | None:
    """Where a new or changed schedule begins: after now and after what was decided, with an instant that is not taken
    and does not lie where records of launches are deleted.

    ``@at`` alone may lie in the past: it then counts as missed, and its policy decides; unless it was launched,
    which ``apply`` knows, or may have been and is forgotten.
    """
    if settled.once:
        instant = settled.next_beside(forgotten_upto_s)
    else:
        instant = settled.next_beside(max(now_s, decided_upto_s))
    while instant is not None:
        if covering := [last for first, last in deleted if first <= instant <= last]:
            instant = settled.next_beside(max(covering))
        elif instant in taken and not settled.once:
            instant = settled.next_beside(instant)
        else:
            break
    return None if instant is None else settled.slot(schedule, instant)


def chosen(text: str, span: int) -> int:
    """A number in [0, span) that depends on the text alone."""
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % span
