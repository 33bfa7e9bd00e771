"""Replicas that have applied the same entries hold the same state.

Compared are the running digests of what was applied, the full ones over all rows, and what every replica says in the
end. A journal that was put back holds other entries from there on: those before and after are not compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tocsin.simulation.checkers.contract import Checker, Finding
from tocsin.simulation.checkers.reading import epoch
from tocsin.simulation.history import Applied, Final, History, Snapped

_PARTS = ("term", "leader", "versions", "launches", "missed", "absences", "due")


def check(history: History) -> Iterator[Finding]:
    yield from _compared(history, history.applied, "the digest of what was applied")
    yield from _compared(history, history.snapped, "the digest of all rows")
    yield from _finals(history)


def _compared(history: History, seen: Sequence[Applied | Snapped], what: str) -> Iterator[Finding]:
    first: dict[tuple[str, int, int], Applied | Snapped] = {}
    differing: set[tuple[str, str]] = set()
    for each in sorted(seen, key=lambda each: each.at_ms):
        key = each.incarnation, each.seq, epoch(history, each.incarnation, each.seq, each.at_ms)
        other = first.setdefault(key, each)
        pair = other.replica, each.replica
        if other.digest != each.digest and pair not in differing:
            differing.add(pair)  # all that follows differs as well
            text = f"at entry {each.seq} {what} on {each.replica} is not that on {other.replica}"
            yield Finding(each.at_ms, text)


def _finals(history: History) -> Iterator[Finding]:
    by_seq: dict[int, tuple[str, Final]] = {}
    for replica, final in sorted(history.finals.items()):
        other, first = by_seq.setdefault(final.seq, (replica, final))
        for part in _PARTS:
            if getattr(first, part) != getattr(final, part):
                about = _difference(getattr(first, part), getattr(final, part))
                text = f"at entry {final.seq} {replica} and {other} differ in their {part}: {about}"
                yield Finding(history.ended_ms, text)


def _difference(one: object, other: object) -> str:
    if isinstance(one, list) and isinstance(other, list):
        for left, right in zip(one, other, strict=False):
            if left != right:
                return f"{right} and {left}"[:400]
        return f"{len(other)} and {len(one)} of them"
    return f"{other} and {one}"[:400]


CHECKER = Checker("replicas agree", "Replicas that applied the same entries hold the same state", check)
