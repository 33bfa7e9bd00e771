"""How fast is ``tocsin.cron`` beside cronsim, croniter and APScheduler 3?

Two measures, each per expression and zone, in nanoseconds:

- *successive next*: ask an expression that was parsed once for one occurrence after another;
- *parse + one next*: parse the text and ask for one occurrence. Tocsin remembers fields it has read, as it
  does in service; ``cold`` is the same with every memory but the zone's table emptied before each parse.

Contenders take turns in rounds and the best round of each counts, so that noise hits all alike.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger
from croniter import croniter
from cronsim import CronSim

from bench.context import Context
from tocsin.cron import Expression, fields, reading

EXPRESSIONS = ("*/5 * * * *", "0 0 * * *", "0 9 * * MON-FRI", "0 0 29 2 *")
ZONES = ("UTC", "America/New_York")
CONTENDERS = ("tocsin", "cronsim", "croniter", "apscheduler")
_START = datetime(2024, 1, 1, 0, 0, 30, tzinfo=UTC)

Contender = Callable[[int], None]
Table = dict[str, dict[str, float]]


ROUNDS, REPEATS = 15, 120


def run(context: Context) -> None:
    found = measured()
    for measure, title in (("successive", "successive next"), ("parse", "parse + one next")):
        _print_table(title, found[measure], found[f"{measure}_mean"])
    print(flush=True)
    context.report.further["cron"] = found
    goal = context.report.goal
    goal("successive instants beside cronsim", found["successive_mean"]["cronsim"], 5, "times")
    goal("parse and one instant beside cronsim", found["parse_mean"]["cronsim"], 2, "times")


def measured() -> dict[str, Any]:
    """Nanoseconds per operation, and the geometric means of the ratios to Tocsin."""
    result: dict[str, Any] = {}
    for measure, contenders in (("successive", _successive), ("parse", _parse)):
        table: Table = {}
        for zone in ZONES:
            for text in EXPRESSIONS:
                table[f"{text} {zone}"] = _best_rounds(contenders(text, zone), ROUNDS, REPEATS)
        result[measure] = table
        result[f"{measure}_mean"] = _means(table)
    return result


def _best_rounds(contenders: dict[str, Contender], rounds: int, repeats: int) -> dict[str, float]:
    best = dict.fromkeys(contenders, math.inf)
    for _ in range(rounds):
        for name, contender in contenders.items():
            # The two slow ones get fewer turns of the crank; a mean per turn stays comparable.
            turns = repeats if name in ("tocsin", "cronsim", "cold") else max(5, repeats // 8)
            began = time.perf_counter_ns()
            contender(turns)
            best[name] = min(best[name], (time.perf_counter_ns() - began) / turns)
    return best


def _means(table: Table) -> dict[str, float]:
    """How many times faster Tocsin is, as the geometric mean over all rows."""
    names = [name for name in next(iter(table.values())) if name != "tocsin"]
    return {name: _geometric_mean([row[name] / row["tocsin"] for row in table.values()]) for name in names}


def _geometric_mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def _tzinfo(zone: str) -> tzinfo:
    return UTC if zone == "UTC" else ZoneInfo(zone)


def _successive(text: str, zone: str) -> dict[str, Contender]:
    where = _tzinfo(zone)
    start = _START.astimezone(where)
    expression = Expression.parse(text, timezone=zone)
    trigger = CronTrigger.from_crontab(text, timezone=where)

    def tocsin(turns: int) -> None:
        instant: datetime | None = _START
        for _ in range(turns):
            assert instant is not None
            instant = expression.next_after(instant)

    def cronsim(turns: int) -> None:
        instants = CronSim(text, start)
        for _ in range(turns):
            next(instants)

    def croniter_(turns: int) -> None:
        instants = croniter(text, start, ret_type=datetime)
        for _ in range(turns):
            instants.get_next()

    def apscheduler(turns: int) -> None:
        instant = start
        for _ in range(turns):
            instant = trigger.get_next_fire_time(instant, instant)

    return dict(zip(CONTENDERS, (tocsin, cronsim, croniter_, apscheduler), strict=True))


def _parse(text: str, zone: str) -> dict[str, Contender]:
    where = _tzinfo(zone)
    start = _START.astimezone(where)

    def tocsin(turns: int) -> None:
        for _ in range(turns):
            Expression.parse(text, timezone=zone).next_after(_START)

    def cold(turns: int) -> None:
        for _ in range(turns):
            _forget()
            Expression.parse(text, timezone=zone).next_after(_START)

    def cronsim(turns: int) -> None:
        for _ in range(turns):
            next(CronSim(text, start))

    def croniter_(turns: int) -> None:
        for _ in range(turns):
            croniter(text, start, ret_type=datetime).get_next()

    def apscheduler(turns: int) -> None:
        for _ in range(turns):
            CronTrigger.from_crontab(text, timezone=where).get_next_fire_time(None, start)

    contenders = dict(zip(CONTENDERS, (tocsin, cronsim, croniter_, apscheduler), strict=True))
    return {**contenders, "cold": cold}


def _forget() -> None:
    for memory in (fields.field, reading._clock, reading._dates):
        memory.cache_clear()


def _print_table(title: str, table: Table, means: dict[str, float]) -> None:
    names = list(next(iter(table.values())))
    print(f"\n{title}, ns (times slower than tocsin)")
    print(f"{'':34}" + "".join(f"{name:>18}" for name in names))
    for label, row in table.items():
        cells = (f"{row[name]:,.0f} ({row[name] / row['tocsin']:.1f}x)" for name in names)
        print(f"{label:34}" + "".join(f"{cell:>18}" for cell in cells))
    print(f"{'geometric mean':34}{'':18}" + "".join(f"{means[name]:>17.1f}x" for name in names[1:]))
