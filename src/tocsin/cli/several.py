"""Many questions to the service: a few at once, the answers in the order of the questions."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from typing import TypeVar

from tocsin.errors import TocsinError, TooMany, Unreachable

_T = TypeVar("_T")
_R = TypeVar("_R")

AT_ONCE = 16
_TRIES_MAX = 10
_MANY = 20
"""From so many on a person would like to see how far it is."""


async def in_order(
    items: Sequence[_T], work: Callable[[_T], Awaitable[_R]]
) -> AsyncGenerator[tuple[_T, _R | TocsinError], None]:
    """Each item with its result, or with the reason why it was refused.

    When the service cannot be reached nothing more is begun, but what was begun is told before that is raised: no
    more may have happened than was said.
    """
    unreachable: Unreachable | None = None
    waiting: deque[tuple[_T, asyncio.Future[_R]]] = deque()
    rest = iter(items)
    try:
        while True:
            while unreachable is None and len(waiting) < AT_ONCE:
                for item in rest:
                    waiting.append((item, asyncio.ensure_future(_patiently(work, item))))
                    break
                else:
                    break
            if not waiting:
                break
            item, begun = waiting.popleft()
            try:
                yield item, await begun
            except Unreachable as wrong:
                unreachable = unreachable or wrong
            except TocsinError as refused:
                yield item, refused
    finally:
        for _, begun in waiting:
            begun.cancel()
    if unreachable is not None:
        raise unreachable


async def _patiently(work: Callable[[_T], Awaitable[_R]], item: _T) -> _R:
    """Who was held back was not served: to ask again is safe, and nobody wants half of their files applied."""
    for _ in range(_TRIES_MAX - 1):
        try:
            return await work(item)
        except TooMany as held_back:
            await asyncio.sleep(held_back.wait_s or 1)
    return await work(item)


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[], None]]:
    """A bar on stderr while a person looks at many of them; call what it gives once for each."""
    if total < _MANY or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    # What goes to a terminal is put above the bar; what goes into a file must get there.
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        redirect_stdout=sys.stdout.isatty(),
        transient=True,
    ) as bar:
        task = bar.add_task(title, total=total)
        yield lambda: bar.advance(task)


async def told(
    title: str,
    items: Sequence[_T],
    work: Callable[[_T], Awaitable[_R]],
    tell: Callable[[_T, _R | TocsinError], None],
) -> None:
    """``in_order``, each told as it comes, below a bar where there are many."""
    with progress(title, len(items)) as advance:
        async with aclosing(in_order(items, work)) as results:
            async for item, result in results:
                tell(item, result)
                advance()
