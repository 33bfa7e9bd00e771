"""Who asked for something was told what became of it.

What was answered with "done" stands in the journal, written between the question and the answer. What was answered with
"nobody" does not, then or later. Only definitions of schedules are looked at: two of the same words, asked
for at about the same time, cannot be told apart and are left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import msgspec

from tocsin.model import change as c
from tocsin.model.command import PutSchedule
from tocsin.simulation.checkers.contract import Checker, Finding
from tocsin.simulation.history import History

_words = msgspec.msgpack.Encoder(order="deterministic").encode


def check(history: History) -> Iterator[Finding]:
    written: defaultdict[bytes, list[float]] = defaultdict(list)
    for landed in history.landed:
        for change in landed.entry.changes:
            if isinstance(change, c.SchedulePut):
                written[_words(change.schedule)].append(landed.at_ms)
    wanted: defaultdict[bytes, int] = defaultdict(int)
    for asked in history.asked:
        if isinstance(asked.command, PutSchedule):
            wanted[_words(asked.command.schedule)] += 1
    for asked in history.asked:
        if not isinstance(asked.command, PutSchedule) or asked.answered_ms is None:
            continue
        words, id = _words(asked.command.schedule), asked.command.schedule.id
        times = [at_ms for at_ms in written[words] if at_ms >= asked.at_ms]
        if asked.outcome == "done" and not any(at_ms <= asked.answered_ms for at_ms in times):
            yield Finding(
                asked.answered_ms, f"{id} was said to be written down, and is not in the journal", id
            )
        if asked.outcome == "nobody" and times and wanted[words] == 1:
            told = f"{id} was said not to be written down ({asked.told}), and is in the journal"
            yield Finding(asked.answered_ms, told, id)


CHECKER = Checker("answers", "Who asks for something is told what became of it", check)
