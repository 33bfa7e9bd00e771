"""Nothing reaches a target before the quorum has acknowledged the start.

The start must have been written in the call's own term, by the process that makes the call, and that process must
have been told that it stands before the order left. Starts are: an occurrence that starts, an attempt that starts (a
queued launch, a retry, a call made again), a run-now, and a doubt that a person ends by having it called again.

Attempts are written by number. Where the history does not tell which launch had the number, an attempt of the same
count by the same process in the same term is accepted.
"""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.model import change as c
from tocsin.model.ids import launch_name
from tocsin.simulation.checkers.contract import Checker, Finding
from tocsin.simulation.checkers.reading import formers, in_force
from tocsin.simulation.history import Call, History, Landed

_Start = tuple[str, int]
"""A launch's name and the attempt; 0: whichever is next. No name: it is not known."""
_By = tuple[int, str, int]
"""The term, the replica and its process."""


def check(history: History) -> Iterator[Finding]:
    told = _told(history)
    for call in sorted(history.calls, key=lambda call: call.sent_ms):
        acknowledged = _acknowledged(told, call)
        if acknowledged is None:
            text = (
                f"{call.name} attempt {call.attempt} was called by {call.replica} in term {call.term}, and no entry "
                "of that process and term that starts it was acknowledged"
            )
            yield Finding(call.at_ms, text, call.name)
        elif acknowledged > call.sent_ms:
            text = (
                f"{call.name} attempt {call.attempt} was called by {call.replica} in term {call.term} "
                f"{acknowledged - call.sent_ms:.0f} ms before its start was acknowledged"
            )
            yield Finding(call.at_ms, text, call.name)


def _acknowledged(told: dict[tuple[_Start, _By], float], call: Call) -> float | None:
    by = call.term, call.replica, call.process
    starts = ((call.name, call.attempt), (call.name, 0), ("", call.attempt))
    return min((told[start, by] for start in starts if (start, by) in told), default=None)


def _told(history: History) -> dict[tuple[_Start, _By], float]:
    """When whoever wrote a start was first told that it stands."""
    acknowledged: dict[tuple[str, int, bytes, str, int], float] = {}
    for ack in history.acknowledged:
        key = ack.incarnation, ack.seq, ack.id, ack.replica, ack.process
        acknowledged[key] = min(ack.at_ms, acknowledged.get(key, ack.at_ms))
    found: dict[tuple[_Start, _By], float] = {}
    numbers = _Numbers(history)
    for each in in_force(history):
        landed = each.landed
        key = landed.incarnation, landed.seq, landed.entry.id, landed.author, landed.process
        if each.is_void or key not in acknowledged:
            continue
        by = landed.entry.term, landed.author, landed.process
        for start in numbers.starts(landed):
            found[start, by] = min(acknowledged[key], found.get((start, by), acknowledged[key]))
    return found


class _Numbers:
    """Names of what the journal knows by number."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._formers = formers(history)

    def starts(self, landed: Landed) -> Iterator[_Start]:
        for change in landed.entry.changes:
            match change:
                case c.LaunchesStarted():
                    for sid, instant_s in zip(change.sids, change.instants_s, strict=True):
                        ids = self._found(self._history.schedule_ids, landed, sid)
                        yield from ((launch_name(id, instant_s), 1) for id in ids)
                        if not ids:
                            yield "", 1
                case c.AttemptsStarted():
                    for lid, attempt in zip(change.lids, change.attempts, strict=True):
                        names = self._found(self._history.launch_names, landed, lid)
                        yield from ((name, attempt) for name in names)
                        if not names:
                            yield "", attempt
                case c.LaunchRequested():
                    yield launch_name(change.id, change.instant_s, manual=True), 1
                case c.LaunchResolved() if change.state is None:
                    yield launch_name(change.schedule, change.instant_s, change.manual), 0

    def _found(self, known: dict[tuple[str, int], set[str]], landed: Landed, number: int) -> list[str]:
        for incarnation in self._formers[landed.incarnation]:
            if (incarnation, number) in known:
                return sorted(known[incarnation, number])
        return []


CHECKER = Checker("started first", "No launch without an acknowledged start", check)
