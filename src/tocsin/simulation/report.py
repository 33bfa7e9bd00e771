"""What became of a simulation, in words."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import Any

from tocsin.simulation.checkers import ALL
from tocsin.simulation.plan import FAMILIES, Plan, make_plan
from tocsin.simulation.run import Outcome
from tocsin.simulation.trace import Line

_ALWAYS = (
    "FAULT",
    "mended",
    "took office",
    "starts",
    "is killed",
    "ends by itself",
    "has stopped",
    "CALM",
    "paused",
)
LINES_MAX = 60
FINDINGS_MAX = 5


def headline(outcome: Outcome) -> str:
    """One line a seed."""
    history, plan = outcome.history, outcome.plan
    pace = outcome.hours / max(outcome.seconds, 1e-9) * 60
    broken = Counter(verdict.checker for verdict in outcome.verdicts)
    verdict = (
        f"ok      {len(ALL)} claims kept"
        if outcome.is_well
        else "FAILED  " + ", ".join(f"{name} ({count})" for name, count in broken.items())
    )
    return (
        f"seed {plan.seed:<10} {verdict}  {outcome.hours:.1f} h of {plan.replicas} replicas in {outcome.seconds:.1f} s "
        f"({pace:,.0f} h/min): {len(history.faults)} faults, {len(history.asked)} commands, {len(history.landed):,} "
        f"entries, {len(history.calls):,} calls; trace {outcome.trace.digest()}"
    )


def findings(outcome: Outcome) -> list[str]:
    """The claims that were broken, and how one sees it."""
    found: list[str] = []
    for claim in dict.fromkeys((verdict.checker, verdict.claim) for verdict in outcome.verdicts):
        found.append(f"{claim[0]}: {claim[1]}. Not so:")
        broken = [each.finding for each in outcome.verdicts if each.checker == claim[0]]
        found += [f"  {Line(finding.at_ms, finding.text)}" for finding in broken[:FINDINGS_MAX]]
        if len(broken) > FINDINGS_MAX:
            found.append(f"  and {len(broken) - FINDINGS_MAX} more")
    return found


def story(outcome: Outcome) -> list[str]:
    """The actions of the plan, and the lines of the trace that belong to the first finding."""
    finding = outcome.verdicts[0].finding
    words = [word for word in (finding.about, *_ALWAYS) if word]
    lines = outcome.trace.about(words, finding.at_ms + 1_000)
    left_out = len(lines) - LINES_MAX
    shown = [str(line) for line in lines[-LINES_MAX:]]
    if left_out > 0:
        shown.insert(0, f"({left_out} earlier lines; --trace FILE writes all)")
    return shown


def replay_command(plan: Plan) -> str:
    """What shows it again."""
    hours = plan.drawn_hours or plan.hours
    whole = make_plan(plan.seed, hours, plan.replicas, plan.faults, plan.replay, plan.epoch_s)
    words = ["tocsin", "sim", "--seed", str(plan.seed), "--hours", f"{hours:.12g}"]
    if plan.replay:
        words += ["--replay", plan.replay]
    if plan.replicas != 3:
        words += ["--replicas", str(plan.replicas)]
    if plan.faults != FAMILIES:
        words += ["--faults", ",".join(plan.faults) or "none"]
    if plan.hours != hours:
        words += ["--until", repr(plan.hours)]
    if plan.actions != whole.upto(plan.hours).actions:
        words += ["--only", ",".join(str(action.number) for action in plan.actions) or "none"]
    return shlex.join(words)


def as_json(outcome: Outcome, reduced: Outcome | None) -> dict[str, Any]:
    """For programs."""
    history = outcome.history
    return {
        "seed": outcome.plan.seed,
        "ok": outcome.is_well,
        "hours": round(outcome.hours, 3),
        "seconds": round(outcome.seconds, 3),
        "replicas": outcome.plan.replicas,
        "faults": len(history.faults),
        "commands": len(history.asked),
        "entries": len(history.landed),
        "calls": len(history.calls),
        "trace": outcome.trace.digest(),
        "findings": [
            {
                "checker": each.checker,
                "claim": each.claim,
                "text": each.finding.text,
                "about": each.finding.about,
            }
            for each in outcome.verdicts
        ],
        "replay": None if reduced is None else replay_command(reduced.plan),
    }
