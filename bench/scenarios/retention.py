"""Retention under load: every schedule has as many launches as are kept of it, and each of them launches every minute.

Goals: no absence, no leader change, no API write above half a second, and as many rows are deleted as come.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import uvloop

from bench import cluster, load, past
from bench.context import Context
from bench.service import Running, Service
from bench.table import CLUSTER, OURS

DELETED = "launches deleted while as many come"
UNIT = "/s"
KEPT = ("--history-total", "1000000000")
"""Only the limit of each schedule is to be met."""


class Found(NamedTuple):
    launched: int
    deleted: int
    kept: int
    """On the replica that keeps most."""
    seconds: float
    leader_changes: float
    absences: float
    missed: int
    slowest_write_s: float


def run(context: Context) -> None:
    asked = context.asked
    found: dict[str, Found | None] = {OURS: _alone(context), CLUSTER: _three(context)}
    for who, words in ((OURS, "embedded"), (CLUSTER, "three replicas")):
        each = found[who]
        if each is not None:
            note = (
                f"{each.launched:,} launched, {each.deleted:,} deleted of {each.kept + each.deleted:,}, "
                f"leader changes {each.leader_changes:g}, absences {each.absences:g}, missed {each.missed}, "
                f"slowest write {each.slowest_write_s * 1000:.0f} ms"
            )
            context.report.add(
                DELETED,
                who,
                each.deleted / each.seconds,
                UNIT,
                size=asked.retention_schedules,
                note=note,
                more=each._asdict(),
            )
        goal = context.report.goal
        changes = None if each is None else each.leader_changes + each.absences + each.missed
        goal(
            f"leader changes, absences and missed launches with retention, {words}", changes, 0, "", less=True
        )
        goal(
            f"slowest API write with retention, {words}",
            None if each is None else each.slowest_write_s * 1000,
            500,
            "ms",
            less=True,
        )
        share = None if each is None or not each.launched else each.deleted / each.launched
        goal(f"rows deleted for each that came, {words}", share, 0.5, "")


def _alone(context: Context) -> Found:
    asked = context.asked
    service = Service(context.place("data"), "--history-each", str(asked.retention_each), *KEPT)
    try:
        service.start()
        start_s = _put_schedules(context, service.url)
        service.stop()
        _write_past(context, [service.state], start_s)
        service.start()
        _wait_for(start_s)
        found = _measured(context, OURS, service.running(), [service.running()])
        context.note_longest(OURS, [service.running()])
        return found
    finally:
        service.stop()


def _three(context: Context) -> Found | None:
    asked = context.asked
    if asked.without_cluster:
        return None
    if not cluster.is_possible():
        context.report.note(f"three replicas were not measured: {cluster.MISSING}")
        return None
    with cluster.three(context.place("cluster"), "--history-each", str(asked.retention_each), *KEPT) as three:
        start_s = _put_schedules(context, three.until_leader().url)
        three.until_healthy()
        for replica in three:
            replica.kill()
        _write_past(context, [replica.data / "state.db" for replica in three], start_s)
        three.until_healthy(600)
        _wait_for(start_s)
        leader = three.until_leader()
        everybody = [cluster.running(replica) for replica in (leader, *three.followers())]
        found = _measured(context, CLUSTER, everybody[0], everybody)
        context.note_longest(CLUSTER, everybody)
        return found


def _put_schedules(context: Context, url: str) -> int:
    """Every minute, each at a second of its own, from a moment on by which the past has begun to be written."""
    count = context.asked.retention_schedules
    start_s = int(time.time()) + 15 + count // 1_000
    begin = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(start_s))

    def line(number: int) -> str:
        return (
            f'{{"id":"kept/{number:06d}","cron":"{number % 60} * * * * *","start":"{begin}","missed":"skip",'
            '"target":{"kind":"null"}}'
        )

    load.import_over_http(url, line, count)
    return start_s


def _write_past(context: Context, states: Sequence[Path], start_s: int) -> None:
    each = context.asked.retention_each
    began = time.monotonic()
    for state in states:
        launches = past.write(state, each, start_s)
    context.report.say(f"wrote a past of {launches:,} launches in {time.monotonic() - began:.0f} s")


def _wait_for(start_s: int) -> None:
    """Until they launch, and what passed while the past was written has been given up."""
    time.sleep(max(5.0, start_s + 1 - time.time()))


def _measured(context: Context, who: str, leader: Running, everybody: Sequence[Running]) -> Found:
    seconds = context.asked.retention_seconds
    context.report.say(
        f"{who}: {context.asked.retention_schedules:,} schedules at their limit for {seconds} s"
    )
    term, absences = leader.term(), [each.absences() for each in everybody]
    before = [past.launches_in(each.state) for each in everybody]
    since_ms = int(time.time() * 1000)
    slowest_s = uvloop.run(_slowest_write(leader.url, seconds))
    after = [past.launches_in(each.state) for each in everybody]
    launched = min(now[1] - then[1] for then, now in zip(before, after, strict=True))
    kept = [now[0] for now in after]
    deleted = min(then[0] + now[1] - then[1] - now[0] for then, now in zip(before, after, strict=True))
    return Found(
        launched=launched,
        deleted=deleted,
        kept=max(kept),
        seconds=seconds,
        leader_changes=leader.term() - term,
        absences=sum(each.absences() for each in everybody) - sum(absences),
        missed=max(past.missed_in(each.state, since_ms) for each in everybody),
        slowest_write_s=slowest_s,
    )


async def _slowest_write(url: str, seconds: float) -> float:
    """Of questions that come at a steady pace: the longest that a create or an edit took."""
    asking, over = load.Asking(url), asyncio.Event()
    await asking.prepare()
    asyncio.get_running_loop().call_later(seconds, over.set)
    await asking.until(over)
    if asking.wrong:
        first, last = asking.wrong[0], asking.wrong[-1]
        raise RuntimeError(f"{len(asking.wrong)} requests were refused: {first}, and at last {last}")
    return max(asking.times_s["create"] + asking.times_s["edit"], default=0.0)
