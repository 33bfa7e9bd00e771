"""What was acknowledged stands in the journal for ever.

An acknowledged entry is the one that landed at its place, and it had landed before anybody was told so. No place is
given out twice and no entry stands twice; there is no gap. Only what was behind the point at which a journal was cut
(``lost``) may be gone, and its places may be given out anew after that.
"""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.simulation.checkers.contract import Checker, Finding
from tocsin.simulation.checkers.reading import epoch
from tocsin.simulation.history import History, Landed

_Place = tuple[str, int, int]


def check(history: History) -> Iterator[Finding]:
    standing: dict[_Place, Landed] = {}
    for landed in sorted(history.landed, key=lambda landed: landed.at_ms):
        place = _place(history, landed.incarnation, landed.seq, landed.at_ms)
        former = standing.setdefault(place, landed)
        if former is not landed:
            text = (
                f"entry {landed.seq} landed a second time, written by {landed.author} over {former.author}'s"
            )
            yield Finding(landed.at_ms, text)
    yield from _same_entry_twice(standing)
    yield from _gaps(history, standing)
    yield from _acknowledged(history, standing)
    yield from _left_behind(history)


def _place(history: History, incarnation: str, seq: int, at_ms: float) -> _Place:
    return incarnation, epoch(history, incarnation, seq, at_ms), seq


def _same_entry_twice(standing: dict[_Place, Landed]) -> Iterator[Finding]:
    seen: dict[tuple[str, bytes], int] = {}
    for landed in standing.values():
        seq = seen.setdefault((landed.incarnation, landed.entry.id), landed.seq)
        if seq != landed.seq:
            yield Finding(landed.at_ms, f"the same entry stands at {seq} and at {landed.seq}")


def _gaps(history: History, standing: dict[_Place, Landed]) -> Iterator[Finding]:
    begins = dict(history.begun_after)
    begins |= {lost.incarnation: lost.after for lost in history.lost if lost.incarnation != lost.former}
    known: dict[str, set[int]] = {}
    for landed in standing.values():
        known.setdefault(landed.incarnation, set()).add(landed.seq)
    for incarnation, seqs in known.items():
        first, last = begins.get(incarnation, 0) + 1, max(seqs)
        if min(seqs) != first or len(seqs) != last - first + 1:
            missing = next((seq for seq in range(first, last) if seq not in seqs), first)
            yield Finding(history.ended_ms, f"the journal {incarnation} has a gap at {missing}")


def _acknowledged(history: History, standing: dict[_Place, Landed]) -> Iterator[Finding]:
    for ack in history.acknowledged:
        told = f"{ack.replica} was told that its entry stands at {ack.seq}"
        later = _place(history, ack.incarnation, ack.seq, ack.at_ms)
        landed = standing.get(later)
        if landed is not None and landed.entry.id != ack.id and later[1]:
            # It may have landed before the journal was put back, and the answer have come after.
            before = standing.get((later[0], later[1] - 1, later[2]))
            landed = before if before is not None and before.entry.id == ack.id else landed
        if landed is None:
            yield Finding(ack.at_ms, f"{told}, and nothing does")
        elif landed.entry.id != ack.id:
            yield Finding(ack.at_ms, f"{told}, and another one of {landed.author} does")
        elif landed.at_ms > ack.at_ms:
            yield Finding(ack.at_ms, f"{told} before it did")


def _left_behind(history: History) -> Iterator[Finding]:
    """In the end somebody has applied all that was acknowledged."""
    if not history.finals or not history.landed:
        return
    incarnation = max(history.landed, key=lambda landed: landed.at_ms).incarnation
    cuts = [(lost.at_ms, lost.after) for lost in history.lost if lost.incarnation == incarnation]
    acknowledged = max(
        (
            ack.seq
            for ack in history.acknowledged
            if ack.incarnation == incarnation
            and not any(ack.at_ms <= at_ms and ack.seq > after for at_ms, after in cuts)
        ),
        default=0,
    )
    heard = max(final.seq for final in history.finals.values())
    if heard < acknowledged:
        yield Finding(
            history.ended_ms,
            f"entry {acknowledged} was acknowledged, and nobody knows of it: {heard} is last",
        )


CHECKER = Checker("acknowledged stay", "Acknowledged entries stay, each at its place", check)
