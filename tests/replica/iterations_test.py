"""Portions follow the time that they take."""

from __future__ import annotations

from tocsin.clock import SystemClock
from tocsin.observe.metrics import Metrics
from tocsin.replica.iterations import SHARE_MIN, Iterations


class _Clock(SystemClock):
    now_s = 100.0

    def elapsed_s(self) -> float:
        return self.now_s


class _Loop:
    """Iterations that take as long as a test says."""

    def __init__(self) -> None:
        self.clock, self.metrics = _Clock(), Metrics()
        self.iterations = Iterations(self.clock, self.metrics)
        for _ in range(10):
            self.run(0.01)

    def run(
        self,
        took_s: float,
        *,
        is_full: bool = True,
        is_shared: bool = False,
        appended_s: float = 0.0,
        paused_s: float = 0.0,
    ) -> int:
        """The portion of the next one."""
        self.iterations.begin()
        self.clock.now_s += took_s
        self.iterations.appended(appended_s)
        self.iterations.step("decide")
        self.clock.now_s += paused_s
        if paused_s:
            self.iterations.paused()
        self.iterations.end(is_full=is_full, is_shared=is_shared)
        return self.iterations.portion(1000)


def a_portion_that_took_too_long_is_followed_by_a_smaller_one() -> None:
    assert _Loop().run(0.125) == 800
    assert _Loop().run(10.0) == 500


def an_import_that_takes_its_time_leaves_the_portion_of_launches_as_it_is() -> None:
    """Otherwise launches would nearly stand still beside it."""
    loop = _Loop()
    for _ in range(20):
        assert loop.run(0.5, is_shared=True) == 1000
    loop.run(10.0)
    assert loop.run(0.01, is_shared=True) == 500


def the_first_portions_of_a_new_leader_are_smaller() -> None:
    """Its caches are cold."""
    assert Iterations(_Clock(), Metrics()).portion(1000) == 250


def a_portion_grows_again_while_iterations_are_quick() -> None:
    loop = _Loop()
    for _ in range(20):
        loop.run(1.0)
    assert loop.run(1.0) == int(1000 * SHARE_MIN)
    sizes = [loop.run(0.02) for _ in range(30)]
    assert sizes == sorted(sizes)
    assert sizes[-1] == 1000


def an_iteration_that_was_long_for_another_reason_than_its_rows_changes_no_portion() -> None:
    assert _Loop().run(1.0, is_full=False) == 1000


def a_journal_that_answers_slowly_does_not_make_portions_smaller() -> None:
    """Throughput must not depend on latency: the slower the journal, the more goes into one entry."""
    loop = _Loop()
    assert loop.run(0.55, appended_s=0.5) == 1000
    assert loop.metrics.longest_iteration.seconds > 0.5, "it is told all the same"


def a_pause_is_not_counted() -> None:
    loop = _Loop()
    loop.run(0.01, paused_s=0.4)
    assert loop.metrics.longest_iteration.seconds < 0.02


def the_longest_iteration_of_all_terms_is_told() -> None:
    loop = _Loop()
    loop.run(0.5)
    Iterations(loop.clock, loop.metrics).end(is_full=False)
    assert "tocsin_loop_longest_iteration_seconds 0.5" in loop.metrics.text().decode()


def the_longest_work_is_told_apart_from_waiting_for_the_journal() -> None:
    loop = _Loop()
    loop.run(0.5, appended_s=0.375)
    loop.run(0.25)
    assert loop.metrics.longest_iteration.seconds == 0.5
    assert "tocsin_loop_longest_work_seconds 0.25" in loop.metrics.text().decode()
