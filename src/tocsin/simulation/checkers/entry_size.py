"""No entry is larger than every journal takes.

Many commands with large payloads, and decisions with long reasons, may come together. What does not fit into one entry
is left for the next one.
"""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.journal.codec import ENTRY_BYTES_MAX
from tocsin.simulation.checkers.contract import Checker, Finding
from tocsin.simulation.history import History


def check(history: History) -> Iterator[Finding]:
    for landed in history.landed:
        if landed.size > ENTRY_BYTES_MAX:
            text = f"entry {landed.seq} of {landed.author} has {landed.size} bytes, {ENTRY_BYTES_MAX} are allowed"
            yield Finding(landed.at_ms, text)


CHECKER = Checker("entry size", "No entry is larger than a journal takes", check)
