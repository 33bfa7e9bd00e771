"""What happened in a turn, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from tocsin.model import change as c
from tocsin.model.launch import LaunchState
from tocsin.model.target import kind_of
from tocsin.observe.metrics import OTHER, SKIPPED_FOR, Metrics
from tocsin.replica.lanes import kind_of_spec
from tocsin.replica.outcomes import settlement_of
from tocsin.replica.reports import Reports
from tocsin.replica.scheduler import Agenda
from tocsin.state.queries import OrderRow
from tocsin.targets.contract import Target, Verdict

AHEAD_MS = 60_000
"""An outcome may be told of a moment that is a little later than that of the entry that it is in."""


def count(metrics: Metrics, plan: Agenda, reports: Reports, targets: dict[str, Target], now_ms: int) -> None:
    _count_starts(metrics, plan, now_ms)
    _count_skips(metrics, plan)
    if reports.expired:
        metrics.skipped.labels("deadline").inc(len(reports.expired))
    count_ends(metrics, reports, targets, now_ms)


class DoubtTally:
    """Which launches in doubt have been counted, and as ended when: each is counted once, whoever tells of it."""

    def __init__(self) -> None:
        self._counted: set[tuple[int, int]] = set()

    def reported(self, outcomes: Sequence[c.Change], at_ms: int) -> None:
        """Launches that were counted because reports of this moment have put them in doubt."""
        self._counted = {pair for pair in self._counted if at_ms <= pair[1] <= at_ms + AHEAD_MS}
        for change in outcomes:
            if isinstance(change, c.LaunchesEnded):
                for lid, state, ended_ms in zip(change.lids, change.states, change.ended_ms, strict=True):
                    if state == LaunchState.IN_DOUBT:
                        self._counted |= {(lid, at_ms), (lid, ended_ms)}

    def uncounted(self, lids: Sequence[int], at_ms: int) -> list[int]:
        """Those of these launches, in doubt since that moment, that are to be counted now."""
        found = [lid for lid in lids if (lid, at_ms) not in self._counted]
        self._counted.update((lid, at_ms) for lid in found)
        return found


def resolved(changes: Sequence[c.Change], results: Sequence[object]) -> Iterator[int]:
    """Launches whose doubt has ended."""
    for change, result in zip(changes, results, strict=True):
        if isinstance(change, c.LaunchResolved) and change.state is not None and isinstance(result, int):
            yield result


def cancelled(changes: Sequence[c.Change], results: Sequence[object]) -> Iterator[int]:
    """Launches that may have ended by this: those that were waiting for another attempt, or were not called yet."""
    for change, result in zip(changes, results, strict=True):
        if isinstance(change, c.CancelRequested) and isinstance(result, int):
            yield result
        elif isinstance(change, c.CancelsOrdered | c.HandOversWithdrawn):
            yield from change.lids


def count_cancelled(metrics: Metrics, rows: Sequence[OrderRow]) -> None:
    """Those of them that have. What is running is counted when its target tells, and what was never called is none."""
    count_unreported(metrics, [row for row in rows if row.state == LaunchState.CANCELLED and row.attempt])


def count_unreported(metrics: Metrics, rows: Sequence[OrderRow]) -> None:
    """Launches of which no target has told here how they ended."""
    for row in rows:
        state, kind = LaunchState(row.state), kind_of_spec(row.spec)
        if state is LaunchState.RETRYING:
            metrics.retries.labels(kind).inc()
        elif state is not LaunchState.SKIPPED:
            metrics.launches.labels(kind, state.name.lower()).inc()


def _count_starts(metrics: Metrics, plan: Agenda, now_ms: int) -> None:
    """Every one, and none on its own: a herd costs a few passes over a column."""
    decision = plan.decision
    if not decision.sids:
        return
    if any(decision.planned_ms):
        columns = zip(decision.planned_ms, decision.instants_s, strict=True)
        metrics.lateness_seconds.observe(
            [instant_s * 1000 if planned is None else planned for planned, instant_s in columns], now_ms
        )
    else:
        metrics.lateness_seconds.observe([instant_s * 1000 for instant_s in decision.instants_s], now_ms)


def _count_skips(metrics: Metrics, plan: Agenda) -> None:
    skipped = Counter(map(_kind_of_skip, plan.decision.skipped.reasons))
    skipped.update(map(_kind_of_skip, plan.expired.reasons))
    # One occurrence given up is a stretch of one.
    missed = skipped.pop("missed", 0) + len(plan.decision.missed.sids)
    if missed:
        metrics.missed_stretches.inc(missed)
    for reason, number in skipped.items():
        metrics.skipped.labels(reason if reason in SKIPPED_FOR else OTHER).inc(number)


def _kind_of_skip(reason: str) -> str:
    """Reasons begin with the policy that gave them; what waited for a schedule that is gone says so in words."""
    kind, colon, _ = reason.partition(":")
    if colon:
        return kind
    return "deleted" if "was deleted" in reason else OTHER


def count_ends(metrics: Metrics, reports: Reports, targets: dict[str, Target], now_ms: int) -> None:
    good = [flight.order.target for flight, outcome in reports.ended if outcome.verdict is Verdict.SUCCEEDED]
    ended: Counter[tuple[str, str]] = Counter()
    for spec, number in Counter(map(type, good)).items():
        ended[kind_of(spec), "succeeded"] += number
    for flight, outcome in reports.ended if len(good) < len(reports.ended) else ():
        if outcome.verdict is Verdict.SUCCEEDED:
            continue
        state = settlement_of(flight, outcome, targets[flight.kind], now_ms).state
        if state is LaunchState.RETRYING:
            metrics.retries.labels(flight.kind).inc()
        else:
            ended[flight.kind, state.name.lower()] += 1
    for (kind, outcome_name), number in ended.items():
        metrics.launches.labels(kind, outcome_name).inc(number)
