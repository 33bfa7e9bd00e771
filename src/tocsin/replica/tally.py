"""What happened in a turn, counted."""

from __future__ import annotations

from collections import Counter

from tocsin.model.launch import LaunchState
from tocsin.model.target import kind_of
from tocsin.observe.metrics import OTHER, SKIPPED_FOR, Metrics
from tocsin.replica.outcomes import settlement_of
from tocsin.replica.reports import Reports
from tocsin.replica.scheduler import Agenda
from tocsin.targets.contract import Target, Verdict


def count(metrics: Metrics, plan: Agenda, reports: Reports, targets: dict[str, Target], now_ms: int) -> None:
    _count_starts(metrics, plan, now_ms)
    _count_skips(metrics, plan)
    if reports.expired:
        metrics.skipped.labels("deadline").inc(len(reports.expired))
    _count_ends(metrics, reports, targets, now_ms)


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


def _count_ends(metrics: Metrics, reports: Reports, targets: dict[str, Target], now_ms: int) -> None:
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
