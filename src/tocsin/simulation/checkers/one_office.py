"""There is one office, and one replica at a time is in it.

A term has one author: the process whose entry began it, by ``TookOffice``, and every entry that is applied under it
comes from that process. And in true time no two replicas hold themselves provably in office at the same moment.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tocsin.model import change as c
from tocsin.simulation.checkers.contract import Checker, Finding
from tocsin.simulation.checkers.reading import InForce, in_force
from tocsin.simulation.history import Authority, History


def check(history: History) -> Iterator[Finding]:
    yield from _authors(history)
    yield from _authorities(history)


def _authors(history: History) -> Iterator[Finding]:
    begun: dict[tuple[str, int], tuple[str, int]] = {}
    for each in in_force(history):
        if each.is_void:
            continue
        landed = each.landed
        term, author = landed.entry.term, (landed.author, landed.process)
        if term > each.term:
            begun[landed.incarnation, term] = author
            if wrong := _wrong_beginning(each):
                yield Finding(landed.at_ms, wrong)
        elif begun.get((landed.incarnation, term), author) != author:
            owner, process = begun[landed.incarnation, term]
            text = (
                f"entry {landed.seq} of term {term} was written by {landed.author} (process {landed.process}), "
                f"and that term is {owner}'s (process {process})"
            )
            yield Finding(landed.at_ms, text)
        elif (landed.incarnation, term) not in begun and history.lost:
            text = f"entry {landed.seq} goes on with term {term} of the journal that was lost"
            yield Finding(landed.at_ms, text)


def _wrong_beginning(each: InForce) -> str:
    landed = each.landed
    took = [change for change in landed.entry.changes if isinstance(change, c.TookOffice)]
    term = landed.entry.term
    if not took:
        return f"entry {landed.seq} is of term {term}, which nobody had begun"
    if any((change.term, change.replica) != (term, landed.author) for change in took):
        return f"entry {landed.seq} of {landed.author} in term {term} begins another's: {took}"
    return ""


def _authorities(history: History) -> Iterator[Finding]:
    longest: dict[str, Authority] = {}  # by replica: the one that lasts longest of those that have begun
    for held in sorted(_held(history), key=lambda held: (held.from_ms, held.until_ms)):
        if held.until_ms <= held.from_ms:
            continue
        for replica, other in sorted(longest.items()):
            if replica != held.replica and other.until_ms > held.from_ms:
                both_ms = min(other.until_ms, held.until_ms) - held.from_ms
                text = (
                    f"{held.replica} (term {held.term}) and {replica} (term {other.term}) were both in office "
                    f"for {both_ms:.1f} ms"
                )
                yield Finding(held.from_ms, text)
        own = longest.get(held.replica)
        if own is None or own.until_ms < held.until_ms:
            longest[held.replica] = held


def _held(history: History) -> Iterator[Authority]:
    """Each until its end, or until its holder had resigned."""
    resigned = {
        (landed.author, landed.process, landed.entry.term): landed.at_ms
        for landed in history.landed
        if any(isinstance(change, c.Resigned) for change in landed.entry.changes)
    }
    for held in history.authorities:
        left_ms = resigned.get((held.replica, held.process, held.term), held.until_ms)
        yield msgspec.structs.replace(held, until_ms=min(held.until_ms, left_ms))


CHECKER = Checker("one office", "One author a term, and one replica in office at a time", check)
