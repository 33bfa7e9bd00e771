"""What is to come, kept for a while.

With millions of schedules a count takes seconds. A page on a wall asks for it every two of them: so it is answered from
what was counted last, and counting takes no more than a small part of the time, however many are watching.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple
from weakref import WeakKeyDictionary

import structlog

from tocsin.api.forecasting import Scope
from tocsin.api.service import Service
from tocsin.errors import TocsinError
from tocsin.model.forecast import ForecastView

log = structlog.get_logger()
REST_FACTOR = 60
"""So many times as long as a count took none is made again."""
REST_S_MIN = 3.0
USABLE_S = 3_600.0
"""A count that is older is not shown any more."""
KEPT_MAX = 32


class Wanted(NamedTuple):
    """A time to come, and whose schedules are counted in it. ``from_s`` 0: from now on."""

    length_s: int
    bucket_s: int
    worst: int
    within: tuple[str, ...] = ()
    from_s: int = 0


class Counted(NamedTuple):
    """A count, and when it was made."""

    view: ForecastView
    at_ms: int
    made_s: float
    rest_s: float


class Outlook:
    """Counts of one node. Of each kind one is made at a time."""

    def __init__(self, service: Service) -> None:
        self._forecaster = service.forecaster
        self._clock = service.replica.clock
        self._kept: dict[Wanted, Counted] = {}
        self._making: dict[Wanted, asyncio.Task[Counted]] = {}

    def known(self, wanted: Wanted) -> Counted | None:
        """The last count; if it is old, a newer one is on its way. None: there is none that could be shown."""
        found = self._kept.get(wanted)
        age_s = 0.0 if found is None else self._clock.elapsed_s() - found.made_s
        if found is None or age_s > found.rest_s:
            self._begin(wanted)
        return found if found is not None and age_s <= USABLE_S else None

    async def made(self, wanted: Wanted) -> Counted:
        """The same, waited for. Raises what kept it from being made."""
        found = self.known(wanted)
        return found if found is not None else await asyncio.shield(self._begin(wanted))

    def _begin(self, wanted: Wanted) -> asyncio.Task[Counted]:
        making = self._making.get(wanted)
        if making is None:
            making = self._making[wanted] = asyncio.create_task(self._count(wanted), name="outlook")
            making.add_done_callback(lambda task: self._done(wanted, task))
        return making

    async def _count(self, wanted: Wanted) -> Counted:
        began_s, now_ms = self._clock.elapsed_s(), self._clock.wall_ms()
        from_s = max(wanted.from_s, -(-now_ms // 1000))
        to_s = (wanted.from_s or from_s) + wanted.length_s
        view = await self._forecaster.forecast(
            from_s, max(to_s, from_s + 1), wanted.bucket_s, wanted.worst, Scope("", wanted.within)
        )
        made_s = self._clock.elapsed_s()
        return Counted(view, now_ms, made_s, max(REST_S_MIN, REST_FACTOR * (made_s - began_s)))

    def _done(self, wanted: Wanted, task: asyncio.Task[Counted]) -> None:
        self._making.pop(wanted, None)
        if task.cancelled():
            return
        wrong = task.exception()
        if isinstance(wrong, TocsinError):
            log.debug("what is to come was not counted", reason=str(wrong))
        elif wrong is not None:
            log.warning("what is to come could not be counted", reason=str(wrong))
        else:
            self._kept.pop(wanted, None)
            self._kept[wanted] = task.result()
            while len(self._kept) > KEPT_MAX:
                del self._kept[next(iter(self._kept))]


_of_services: WeakKeyDictionary[Service, Outlook] = WeakKeyDictionary()


def outlook_of(service: Service) -> Outlook:
    found = _of_services.get(service)
    if found is None:
        found = _of_services[service] = Outlook(service)
    return found
