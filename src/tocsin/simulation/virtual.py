"""Virtual time: an event loop that never waits, and processes in it that can be killed and paused at any step.

When nothing is ready to run, time jumps to the next timer. When there is no timer either, nobody would ever do
anything again: that is a deadlock, and is told as one.

Every piece of work belongs to the process in whose context it was begun. A process that was killed is never given
another step, not even to clean up; one that is paused gets its steps when it goes on. Work on "other threads" is
done in a step of its own, in the order in which it was asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import heapq
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

_T = TypeVar("_T")
PROCESS: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)
ASIDE: contextvars.ContextVar[bool] = contextvars.ContextVar("aside", default=False)
"""Set in what runs on a thread of its own, beside the event loop of its process."""
STEPS_AT_ONE_MOMENT_MAX = 1_000_000


class Deadlock(Exception):
    """Nothing is ready, and no timer is set."""


class Livelock(Exception):
    """Somebody is busy for ever at one moment."""


class Process:
    """One run of one program: a killed one does not come back, another takes its place."""

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.is_dead = False
        self.steps = 0
        self.dies_at_step: int | None = None
        """A killing that waits for its step, so that every await is a place to die."""
        self.on_death: Callable[[], None] | None = None
        self.slow_s: Callable[[], float] | None = None
        """How long work on other threads takes: a disk may be slow."""
        self._tasks: list[asyncio.Task[Any]] = []
        self._swept_at = 64
        self._paused = self._wedged = False
        self._held: list[asyncio.Handle] = []
        self.context = contextvars.copy_context()
        self.context.run(PROCESS.set, self)

    def __repr__(self) -> str:
        return f"{self.name}#{self.number}"

    @property
    def is_paused(self) -> bool:
        return self._paused or self._wedged

    def adopt(self, task: asyncio.Task[Any]) -> None:
        self._tasks.append(task)
        if len(self._tasks) > self._swept_at:
            self._tasks = [each for each in self._tasks if not each.done()]
            self._swept_at = 2 * len(self._tasks) + 64

    def holds_back(self, handle: asyncio.Handle) -> bool:
        """Is this step not to be taken now?"""
        if self.is_dead:
            return True
        if self._paused or (self._wedged and not handle._context.get(ASIDE)):  # type: ignore[attr-defined]  # why: a handle does not tell otherwise whose it is
            self._held.append(handle)
            return True
        self.steps += 1
        if self.dies_at_step is not None and self.steps >= self.dies_at_step:
            self.dies_at_step = None
            if self.on_death is not None:
                self.on_death()
            return self.is_dead
        return False

    def pause(self) -> None:
        self._paused = True

    def wedge(self) -> None:
        """Its event loop stands still. What runs on other threads goes on."""
        self._wedged = True

    def resume(self, loop: VirtualLoop) -> None:
        if self._paused or self._wedged:
            self._paused = self._wedged = False
            held, self._held = self._held, []
            loop.run_later(held)

    def kill(self) -> None:
        """No more steps. What it held in memory is gone."""
        self.is_dead = True
        self._held = []
        for task in self._tasks:
            bury(task)
        self._tasks = []


def bury(task: asyncio.Task[Any]) -> None:
    """Let go of a task that will never go on, without a word."""
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # why: the only way to say that this is meant
    coroutine = task.get_coro()
    # Whatever it would still like to do is done by a dead process: nobody outside hears of it.
    with contextlib.suppress(BaseException):
        coroutine.close()


class _NoSockets:
    """What the loop's base class asks for files that are ready. There are none."""

    def select(self, timeout: float | None) -> list[Any]:
        return []

    def close(self) -> None:
        return


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop whose time is not ours."""

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 0.0
        self._selector = _NoSockets()
        self._busy_until_s: dict[int, float] = {}
        self._steps_here = 0
        self.steps = 0
        """All that were taken."""
        self.idle: Callable[[], None] | None = None
        """Asked when nothing is ready: there may be a chance to leap over a quiet time."""
        self.world = contextvars.copy_context()
        """The context of what belongs to nobody: messages under way, receivers, faults."""
        self.world.run(PROCESS.set, None)
        self.set_task_factory(self._make_task)
        self.set_exception_handler(self._broken)
        self._error: BaseException | None = None

    # Time

    def time(self) -> float:
        return self._now_s

    def timers(self) -> Iterator[asyncio.TimerHandle]:
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]  # why: its own heap
        return (timer for timer in scheduled if not timer.cancelled())

    def leap(self, by_s: float, moves: Callable[[asyncio.TimerHandle], bool]) -> None:
        """Time goes on at once. Timers for which ``moves`` is true go along with it."""
        self._now_s += by_s
        kept = list(self.timers())
        for timer in kept:
            if moves(timer):
                timer._when += by_s  # type: ignore[attr-defined]  # why: moving a timer is what a leap is
        heapq.heapify(kept)
        self._scheduled[:] = kept  # type: ignore[attr-defined]  # why: the same

    # Work

    def spawn(self, process: Process | None, work: Any, name: str = "") -> asyncio.Task[Any]:
        """Start something in a process, or in nobody's."""
        context = (self.world if process is None else process.context).copy()
        return self.create_task(work, name=name or None, context=context)

    def outside(self, delay_s: float, work: Callable[..., object], *args: Any) -> asyncio.TimerHandle:
        """Later, whatever becomes of whoever asks for it."""
        return self.call_at(self._now_s + delay_s, work, *args, context=self.world)

    def run_later(self, handles: list[asyncio.Handle]) -> None:
        self._ready.extend(handles)  # type: ignore[attr-defined]  # why: the base class's own queue

    def _make_task(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **options)
        context: contextvars.Context | None = options.get("context")
        process = PROCESS.get() if context is None else context.get(PROCESS)
        if process is not None:
            process.adopt(task)
        return task

    def run_in_executor(  # type: ignore[override]  # why: the base class says "async", and returns a future too
        self, executor: Any, func: Callable[..., _T], *args: Any
    ) -> asyncio.Future[_T]:
        future: asyncio.Future[_T] = self.create_future()
        process = PROCESS.get()
        slow_s = 0.0 if process is None or process.slow_s is None else process.slow_s()
        free_s = self._busy_until_s.get(id(executor), 0.0)
        at_s = max(self._now_s, free_s) + slow_s
        if at_s > self._now_s:
            self._busy_until_s[id(executor)] = at_s
            self.call_at(at_s, self._work, future, func, args)
        else:
            self.call_soon(self._work, future, func, args)
        return future

    def occupy(self, executor: Any, for_s: float) -> None:
        """Whatever is asked of this thread waits until then."""
        self._busy_until_s[id(executor)] = max(self._busy_until_s.get(id(executor), 0.0), self._now_s + for_s)

    def _work(self, future: asyncio.Future[Any], func: Callable[..., Any], args: Any) -> None:
        try:
            result = func(*args)
        except BaseException as wrong:  # noqa: BLE001  # why: it is raised where it is waited for
            if not future.done():
                future.set_exception(wrong)
            return
        if not future.done():
            future.set_result(result)

    def call_soon_threadsafe(  # type: ignore[override]  # why: there are no other threads
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    # The loop itself

    def _broken(self, loop: asyncio.AbstractEventLoop, told: dict[str, Any]) -> None:
        """A callback raised, which none may do: that is a defect, of the simulation or of what it runs. That
        nobody asks for what the dead left behind is none."""
        if "handle" in told:
            self._error = self._error or told.get("exception") or RuntimeError(told.get("message"))

    def _run_once(self) -> None:
        if self._error is not None:
            raise self._error
        ready = self._ready  # type: ignore[attr-defined]  # why: the base class's own queue
        if not ready and not self._stopping:  # type: ignore[attr-defined]  # why: the same
            if self.idle is not None:
                self.idle()
            self._next_timers()
        self.steps += len(ready)
        self._steps_here += len(ready)
        if self._steps_here > STEPS_AT_ONE_MOMENT_MAX:
            raise Livelock(f"more than {STEPS_AT_ONE_MOMENT_MAX} steps and time stands still")
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            process = handle._context.get(PROCESS)
            if process is None or not process.holds_back(handle):
                handle._run()

    def _next_timers(self) -> None:
        """All that are due at the next moment at which any is."""
        scheduled = self._scheduled  # type: ignore[attr-defined]  # why: the base class's own heap
        moved = False
        while scheduled:
            timer = scheduled[0]
            if timer._cancelled:
                heapq.heappop(scheduled)
                timer._scheduled = False
                continue
            if moved and timer._when > self._now_s:
                return
            if timer._when > self._now_s:
                self._now_s = timer._when
                self._steps_here = 0
            moved = True
            heapq.heappop(scheduled)
            timer._scheduled = False
            self._ready.append(timer)  # type: ignore[attr-defined]  # why: the base class's own queue
        if not moved:
            raise Deadlock("nothing is ready and no timer is set: nobody would ever do anything again")

    def _asyncgen_finalizer_hook(self, agen: Any) -> None:
        """Whoever left a generator unfinished was killed: nobody finishes it."""

    def _process_events(self, events: Any) -> None:
        return

    def _write_to_self(self) -> None:
        return


@contextlib.contextmanager
def virtual() -> Iterator[VirtualLoop]:
    """A loop to run one world in."""
    loop = VirtualLoop()
    try:
        yield loop
    finally:
        for task in asyncio.all_tasks(loop):
            bury(task)
        loop.close()
