"""Many seeds, one after another or several at the same time."""

from __future__ import annotations

import itertools
import multiprocessing
import secrets
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait

from tocsin.simulation.plan import Plan
from tocsin.simulation.run import Outcome, Progress, simulate


def fresh_seeds() -> Iterator[int]:
    """Seeds that nobody has tried yet."""
    while True:
        yield secrets.randbelow(1 << 32)


def campaign(
    plans: Iterable[Plan], jobs: int = 1, for_s: float | None = None, progress: Progress | None = None
) -> Iterator[Outcome]:
    """Play all of them, or as many as can be begun in that time. At least one is."""
    until_s = None if for_s is None else time.monotonic() + for_s
    begun = _in_time(plans, until_s)
    if jobs == 1:
        for plan in begun:
            yield simulate(plan, progress)
        return
    # Not forked: a world begins with nothing, in each of them alike.
    pool = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"))
    try:
        waiting: list[Future[Outcome]] = [
            pool.submit(simulate, plan) for plan in itertools.islice(begun, jobs)
        ]
        while waiting:
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in [each for each in waiting if each in done]:
                waiting.remove(future)
                waiting += [pool.submit(simulate, plan) for plan in itertools.islice(begun, 1)]
                yield future.result()
    except BaseException:
        # Nobody waits for the worlds that are still being played.
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _in_time(plans: Iterable[Plan], until_s: float | None) -> Iterator[Plan]:
    for number, plan in enumerate(plans):
        if number and until_s is not None and time.monotonic() >= until_s:
            return
        yield plan
