"""What the last leader left open is concluded.

==================================  ============================================================
the call was to be made             what is done
==================================  ============================================================
by another replica                  it is asked (``elsewhere``); if it stays silent, as below, for nobody can look up
by this one, in a former term       it knows, as long as it is the same process
by this one, before it was started  an answer that it kept, or the target's own records, if it keeps any
==================================  ============================================================

==================================  ============================================================
the target                          what is done when nobody knows
==================================  ============================================================
idempotent by name                  launched again under the same name, as long as its receiver remembers names
looks up by name, refuses a second  adopted if it is there, launched only if it is certainly not
neither                             unknown: the owner's ``on_doubt`` decides
==================================  ============================================================

Before anything is called again, the journal hears that it is this replica that calls it now. It costs in
proportion to open launches, not to schedules, and new occurrences do not wait for the answers of others.
"""

from __future__ import annotations

from collections.abc import Sequence

from tocsin.observe.metrics import Metrics
from tocsin.replica.elsewhere import Elsewhere
from tocsin.replica.flight import Again, Flight, flight_of_row
from tocsin.replica.kept_answers import KeptAnswers
from tocsin.replica.launcher import Launcher
from tocsin.replica.terms import OwnTerms
from tocsin.state.queries import OrderRow
from tocsin.targets.contract import Outcome, Verdict

_LOST = Outcome(
    Verdict.UNKNOWN, reason="the leader ended during the call: it cannot be known whether it went out"
)


class Concluder:
    """Takes care of what is open when a term begins."""

    def __init__(
        self,
        name: str,
        launcher: Launcher,
        elsewhere: Elsewhere,
        metrics: Metrics,
        own_terms: OwnTerms,
        answers: KeptAnswers,
    ) -> None:
        self.counts: dict[str, int] = {}
        """What was done, and how often."""
        self._own_terms = own_terms
        self._answers = answers
        self._name = name
        self._launcher = launcher
        self._elsewhere = elsewhere
        self._metrics = metrics

    async def conclude(self, rows: Sequence[OrderRow], term: int, former_terms: set[int]) -> list[Again]:
        """Take care of every open launch. ``former_terms``: those in which this very process led. Returns what is to be
        called now."""
        again: list[Again] = []
        flights = [flight_of_row(row, term) for row in rows]
        await self._launcher.recall(flights)
        for row, flight in zip(rows, flights, strict=True):
            # A disk that led in that term is asked under whatever name it has now.
            is_here = row.replica == self._name or row.term in self._own_terms
            if not is_here or row.term in former_terms:
                self._elsewhere.add(flight, row.replica, row.term)
                how = "asked"
            else:
                how = await self._conclude_here(flight, row.term, again)
            self.counts[how] = self.counts.get(how, 0) + 1
            self._metrics.concluded.labels(how).inc()
        return again

    async def _conclude_here(self, flight: Flight, term: int, again: list[Again]) -> str:
        answer = self._answers.of(flight.order.name, flight.order.attempt, term)
        if answer is not None:
            return self._adopt(flight, None if answer.is_too_late else answer, again)
        target = self._launcher.target(flight.kind)
        if target.looks_up:
            found = await target.lookup(flight.order)
            if found is not None or self._own_terms.proves(term):
                return self._adopt(flight, found, again)
        if flight.cancel is None and self._launcher.may_repeat(flight):
            again.append(Again(flight, doubtful=True))
            return "repeated"
        self._launcher.report(flight, _LOST)
        return "unknown"

    def _adopt(self, flight: Flight, found: Outcome | None, again: list[Again]) -> str:
        if found is None and flight.cancel is not None:
            self._launcher.withdraw([flight])
            return "withdrawn"
        if found is None:
            again.append(Again(flight, doubtful=False))
            return "launched"
        if found.verdict is Verdict.ACCEPTED:
            if found.called_ms is not None:
                self._launcher.note_call(flight, found.called_ms)
            self._launcher.adopt(flight)
            return "adopted"
        self._launcher.report(flight, found)
        return "unknown" if found.verdict is Verdict.UNKNOWN else "found"
