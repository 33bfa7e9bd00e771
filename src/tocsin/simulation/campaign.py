"""Many seeds, one after another or several at the same time."""

from __future__ import annotations

import multiprocessing
import secrets
import signal
import time
import traceback
from collections.abc import Generator, Iterable, Iterator
from multiprocessing.connection import Connection, wait

from tocsin.simulation.plan import Plan
from tocsin.simulation.run import Outcome, Progress, simulate


def fresh_seeds() -> Iterator[int]:
    """Seeds that nobody has tried yet."""
    while True:
        yield secrets.randbelow(1 << 32)


def campaign(
    plans: Iterable[Plan], jobs: int = 1, for_s: float | None = None, progress: Progress | None = None
) -> Generator[Outcome, None, None]:
    """Play all of them, or as many as can be begun in that time. At least one is."""
    until_s = None if for_s is None else time.monotonic() + for_s
    begun = _in_time(plans, until_s)
    if jobs == 1:
        for plan in begun:
            yield simulate(plan, progress)
        return
    workers = [_Worker() for _ in range(jobs)]
    try:
        idle, busy = workers, list[_Worker]()
        while True:
            for worker in idle:
                if (upcoming := next(begun, None)) is not None:
                    worker.play(upcoming)
                    busy.append(worker)
            if not busy:
                return
            heard = wait([worker.pipe for worker in busy])
            idle = [worker for worker in busy if worker.pipe in heard]
            busy = [worker for worker in busy if worker.pipe not in heard]
            for worker in idle:
                yield worker.outcome()
    finally:
        # Nobody waits for the worlds that are still being played.
        for worker in workers:
            worker.end()


class _Worker:
    """A process that plays one plan after another. Not forked: a world begins with nothing, in each of them alike."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()

    def play(self, plan: Plan) -> None:
        self.pipe.send(plan)

    def outcome(self) -> Outcome:
        try:
            found = self.pipe.recv()
        except EOFError:
            raise RuntimeError("a process that played a seed was killed") from None
        if isinstance(found, Outcome):
            return found
        raise RuntimeError(found)

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self.pipe.close()


def _work(pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it ends it
    while True:
        try:
            plan = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(simulate(plan))
        except Exception:  # noqa: BLE001  # why: it is raised where somebody sees it
            pipe.send(traceback.format_exc())


def _in_time(plans: Iterable[Plan], until_s: float | None) -> Iterator[Plan]:
    for number, plan in enumerate(plans):
        if number and until_s is not None and time.monotonic() >= until_s:
            return
        yield plan
