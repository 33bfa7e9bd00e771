"""A plan that shows a fault, made shorter until nothing can be left out of it."""

from __future__ import annotations

import time
from collections.abc import Callable

from tocsin.simulation.plan import Plan
from tocsin.simulation.run import Outcome, simulate

Tell = Callable[[str], None]


def shrink(outcome: Outcome, budget_s: float, tell: Tell = lambda text: None) -> Outcome:
    """The shortest that was found in that time and breaks the same claim."""
    return _Shrinking(outcome, budget_s, tell).run()


class _Shrinking:
    """Halves first, then single actions, as long as there is time."""

    def __init__(self, outcome: Outcome, budget_s: float, tell: Tell) -> None:
        self._best = outcome
        self._checker = outcome.verdicts[0].checker
        self._until_s = time.monotonic() + budget_s
        self._tell = tell

    def run(self) -> Outcome:
        self._cut_the_end()
        chunk = max(1, len(self._best.plan.actions) // 2)
        while chunk and not self._is_over():
            if not self._leave_out(chunk):
                chunk //= 2
        return self._best

    def _cut_the_end(self) -> None:
        plan = self._best.plan
        finding = self._best.verdicts[0].finding
        hours = max(0.02, (finding.at_ms / 1000 - plan.epoch_s) / 3600)
        for spare in (0.0, 0.05, 1.0):
            if hours + spare < plan.hours and self._still_fails(plan.upto(hours + spare)):
                return

    def _leave_out(self, size: int) -> bool:
        """Once through, leaving out so many at a time. True: some were."""
        found = False
        start = 0
        while start < len(self._best.plan.actions) and not self._is_over():
            plan = self._best.plan
            numbers = [action.number for action in plan.actions]
            if self._still_fails(plan.only(numbers[:start] + numbers[start + size :])):
                found = True
            else:
                start += size
        return found

    def _still_fails(self, plan: Plan) -> bool:
        outcome = simulate(plan)
        same = [verdict for verdict in outcome.verdicts if verdict.checker == self._checker]
        if not same:
            return False
        outcome.verdicts = same
        self._best = outcome
        self._tell(f"{len(plan.actions)} actions, {plan.hours:.2f} h still show it")
        return True

    def _is_over(self) -> bool:
        return time.monotonic() >= self._until_s
