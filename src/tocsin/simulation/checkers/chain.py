"""A replica that has seen more than a restored journal holds stops, and says why."""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.simulation.checkers.contract import Checker, Finding
from tocsin.simulation.history import History


def check(history: History) -> Iterator[Finding]:
    for back in history.put_back:
        stopped = {
            replica
            for at_ms, replica, why in history.ended_badly
            if back.at_ms <= at_ms <= back.until_ms and "ChainBroken" in why
        }
        for replica, seq in sorted(back.seen.items()):
            if seq > back.after and replica not in stopped:
                text = f"{replica} has seen entry {seq}, and went on with a journal that was put back to {back.after}"
                yield Finding(back.at_ms, text)


CHECKER = Checker("chain", "Whoever has seen more than a restored journal holds stops", check)
