"""Counting what is to come, beside all that has to be done now.

Portions are added up by SQLite on a reader's thread, and laid out on a thread of its own, one forecast at a time: who
launches meets one of them at most, and who only reads gets a turn between two portions.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import chain, islice, pairwise
from typing import Any, NamedTuple, TypeVar

from tocsin.cron import format_duration
from tocsin.decide import forecast
from tocsin.decide.forecast import AnyText, Company, Tally
from tocsin.errors import TooMany
from tocsin.model.forecast import Bucket, Cause, ForecastView, Remedy, WorstSecond
from tocsin.replica.replica import Replica
from tocsin.state import outlooks
from tocsin.state.outlooks import Columns, Row

_T = TypeVar("_T")
_one_at_a_time = ThreadPoolExecutor(max_workers=1, thread_name_prefix="forecast")
WAITING_MAX = 8
WAITING_OF_ONE_MAX = 2
"""Of one token; the console has its own."""
NAMED_MAX = 5
"""So many causes of each kind are named, and so many schedules."""
TEXTS_MAX = 2_000
ONCE_MAX = 20_000
ROWS_MAX = 200_000
"""So many schedules of the worst seconds are looked at one by one."""
IGNORED = "counted as planned: what is missed, skipped by overlap or deadline, retried or launched by hand is left out"


class Scope(NamedTuple):
    """Whose schedules are counted."""

    prefix: str = ""
    within: Sequence[str] = ()


EVERYTHING = Scope()


async def tallied(replica: Replica, from_s: int, to_s: int, scope: Scope = EVERYTHING) -> Tally:
    """All enabled schedules of a scope, counted."""
    tally = Tally(from_s, to_s)
    for portion in await replica.read(outlooks.portions, scope.prefix, scope.within):
        found = await replica.read(outlooks.columns, portion, from_s, to_s)
        await aside(_add, tally, found)
    await aside(tally.counted)
    return tally


async def aside(work: Callable[..., _T], *args: Any) -> _T:
    """On the one thread for such work."""
    return await asyncio.get_running_loop().run_in_executor(_one_at_a_time, lambda: work(*args))


def _add(tally: Tally, found: Columns) -> None:
    tally.add_crons(found.crons)
    tally.add_intervals(found.intervals)
    tally.add_moments(found.moments)


class Forecaster:
    """Answers who asks what is to come, one after the other."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._turn = asyncio.Lock()
        self._waiting: Counter[str] = Counter()

    async def forecast(
        self, from_s: int, to_s: int, bucket_s: int, worst: int, scope: Scope, who: str = ""
    ) -> ForecastView:
        """``who`` is asking."""
        if self._waiting.total() >= WAITING_MAX or self._waiting[who] >= WAITING_OF_ONE_MAX:
            raise TooMany(
                "many are asking for a forecast at this moment", hint="try again in a while", wait_s=5
            )
        self._waiting[who] += 1
        try:
            async with self._turn:
                return await self._counted(from_s, to_s, bucket_s, worst, scope)
        finally:
            self._waiting[who] -= 1
            if not self._waiting[who]:
                del self._waiting[who]

    async def _counted(self, from_s: int, to_s: int, bucket_s: int, worst: int, scope: Scope) -> ForecastView:
        tally = await tallied(self._replica, from_s, to_s, scope)
        seconds = await aside(_fullest, tally, worst)
        met = await aside(forecast.hits, tally.texts, seconds)
        hot: dict[AnyText, int] = {}
        for texts in met.values():
            hot |= texts
        companies = await self._companies(tally, hot, scope)
        told = [await self._worst(tally, at_s, met[at_s], companies, scope) for at_s in seconds]
        ids = {text: company.ids for text, company in companies.items()}
        outcomes = await aside(forecast.outcomes, tally, hot, ids)
        is_whole = all(len(ids.get(text, ())) == count for text, count in hot.items())
        buckets = await aside(_buckets, tally, bucket_s)
        return ForecastView(
            since=_moment(from_s),
            until=_moment(to_s),
            bucket_s=bucket_s,
            schedules=tally.schedules,
            launches=sum(bucket.launches for bucket in buckets),
            buckets=buckets,
            worst=told,
            remedies=[
                Remedy(
                    change=outcome.change,
                    schedules=outcome.schedules,
                    before=round(outcome.before),
                    after=round(outcome.after),
                    at=_moment(outcome.after_at_s),
                )
                for outcome in outcomes
            ],
            notes=_notes(tally, is_whole),
        )

    async def _companies(self, tally: Tally, hot: dict[AnyText, int], scope: Scope) -> dict[AnyText, Company]:
        """The schedules that have these texts, or so many of them that it is known who they are."""
        texts = sorted(hot, key=hot.__getitem__, reverse=True)[:TEXTS_MAX]
        companies = {text: Company() for text in texts}
        names, room = sorted({text[0] for text in texts}), ROWS_MAX
        portions = await self._replica.read(outlooks.portions, scope.prefix, scope.within) if texts else []
        for portion in portions:
            if room <= 0:
                break
            rows = await self._replica.read(outlooks.rows, portion, names, room)
            room -= len(rows)
            await aside(_join, tally, companies, rows)
        return companies

    async def _worst(
        self,
        tally: Tally,
        at_s: int,
        texts: dict[AnyText, int],
        companies: dict[AnyText, Company],
        scope: Scope,
    ) -> WorstSecond:
        """Cron texts by what they say, single launches by what is due then."""
        once = await self._replica.read(outlooks.planned, at_s, scope.prefix, scope.within, ONCE_MAX)
        return await aside(_told, tally, at_s, texts, companies, once)


def _join(tally: Tally, companies: dict[AnyText, Company], rows: list[Row]) -> None:
    for id, resolved, zone, rule, labels in rows:
        company = companies.get((resolved, zone, tally.kept_rule(rule)))
        if company is not None:
            company.join(id, labels)


def _told(
    tally: Tally, at_s: int, texts: dict[AnyText, int], companies: dict[AnyText, Company], once: list[Row]
) -> WorstSecond:
    launches = round(tally.counted()[at_s - tally.from_s])
    intervals = tally.intervals_at(at_s)
    by_text: dict[str, float] = {}
    for (resolved, zone, _), count in texts.items():
        by_text[f"{resolved} ({zone})"] = by_text.get(f"{resolved} ({zone})", 0) + count
    by_text |= {f"@every {format_duration(period_s)}": count for period_s, count in intervals.items()}
    singles = len(once)
    if singles == ONCE_MAX:
        singles = max(singles, launches - sum(texts.values()) - sum(intervals.values()))
    by_text |= {"@at": singles} if once else {}
    alone = Company()
    for row in once:
        alone.join(row.id, row.labels)
    # Of very many only a part was looked at, and stands for all of them.
    most = sorted(texts, key=texts.__getitem__, reverse=True)
    there = [(companies[text], texts[text]) for text in most if text in companies]
    weighed = [
        (company, count / len(company.ids)) for company, count in [*there, (alone, singles)] if company.ids
    ]
    return WorstSecond(
        at=_moment(at_s),
        launches=launches,
        texts=_causes(by_text),
        prefixes=_causes(forecast.together((company.prefixes, weight) for company, weight in weighed)),
        labels=_causes(forecast.together((company.labels, weight) for company, weight in weighed)),
        schedules=list(islice(chain.from_iterable(company.ids for company, _ in weighed), NAMED_MAX)),
    )


def _causes(counted: Mapping[str, float]) -> list[Cause]:
    return [Cause(name=name, launches=round(count)) for name, count in forecast.top(counted, NAMED_MAX)]


def _fullest(tally: Tally, most: int) -> list[int]:
    """The fullest seconds, the earlier of equals first."""
    counts = tally.counted()
    places = heapq.nlargest(most, range(len(counts)), key=lambda at: (counts[at], -at))
    return [tally.from_s + at for at in places if counts[at] >= 0.5]


def _buckets(tally: Tally, bucket_s: int) -> list[Bucket]:
    """They begin where the clock is round, so the first one may be short."""
    counts = tally.counted()
    cuts = [0, *range(-tally.from_s % bucket_s or bucket_s, len(counts), bucket_s), len(counts)]
    found = []
    for first, end in pairwise(cuts):
        part = counts[first:end]
        at = _moment(tally.from_s + first)
        found.append(Bucket(at=at, launches=round(sum(part)), worst=round(max(part))))
    return found


def _notes(tally: Tally, is_whole: bool) -> list[str]:
    notes = [IGNORED]
    if tally.jittered:
        notes.append("jitter is counted as an expectation: each second has its share of the launches")
    if tally.unspread:
        notes.append(f"{tally.unspread} schedules are counted without their jitter: they are too many")
    if not is_whole:
        notes.append(
            "prefixes and labels are reckoned from a part of the schedules that meet in the worst seconds"
        )
    if tally.texts_dropped:
        notes.append("there are very many different texts: the rarest of them are not among the causes")
    if tally.unreadable:
        notes.append(
            f"{tally.unreadable} schedules have a text or zone that cannot be read here, and are left out"
        )
    return notes


def _moment(unix: int) -> datetime:
    return datetime.fromtimestamp(unix, UTC)
