"""What happened in a turn, counted."""

from __future__ import annotations

from collections import Counter

from tocsin.model.launch import LaunchState
from tocsin.observe.metrics import Metrics
from tocsin.replica.launcher import Reports
from tocsin.replica.outcomes import settlement_of
from tocsin.replica.scheduler import Agenda
from tocsin.targets.contract import Target, Verdict

_OBSERVED_MAX = 100
"""Lateness of so many starts a turn is recorded one by one; a herd's tail is as late as its last ones."""


def count(metrics: Metrics, plan: Agenda, reports: Reports, targets: dict[str, Target], now_ms: int) -> None:
    _count_starts(metrics, plan, now_ms)
    _count_skips(metrics, plan)
    ended: Counter[tuple[str, str]] = Counter()
    for flight, outcome in reports.ended:
        if outcome.verdict is Verdict.SUCCEEDED:
            ended[flight.kind, "succeeded"] += 1
            continue
        state = settlement_of(flight, outcome, targets[flight.kind], now_ms).state
        if state is LaunchState.RETRYING:
            metrics.attempts_retried.labels(flight.kind).inc()
        else:
            ended[flight.kind, state.name.lower()] += 1
    for (kind, outcome_name), number in ended.items():
        metrics.launches.labels(kind, outcome_name).inc(number)


def _count_starts(metrics: Metrics, plan: Agenda, now_ms: int) -> None:
    rows = plan.decision.started_rows
    step = max(1, len(rows) // _OBSERVED_MAX)
    for row in rows[::step]:
        metrics.lateness_seconds.observe(max(0, now_ms - row.at_ms) / 1000)


def _count_skips(metrics: Metrics, plan: Agenda) -> None:
    reasons = Counter(reason.partition(":")[0] for reason in plan.decision.skipped.reasons)
    reasons.update(reason.partition(":")[0] for reason in plan.decision.missed.reasons)
    for reason, number in reasons.items():
        metrics.skipped.labels(reason).inc(number)
