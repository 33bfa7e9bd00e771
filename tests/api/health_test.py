"""What somebody should look at is told in words, with the command to look with; what is well is not told of."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.core.desk import START, Desk, at, put

from tocsin.api.resources import health
from tocsin.api.resources.health import Disk, Health
from tocsin.api.service import Service
from tocsin.cli.main import app
from tocsin.clock import SystemClock
from tocsin.config import Settings
from tocsin.decide.clock import Opinion, judge
from tocsin.decide.clock import Verdict as ClockVerdict
from tocsin.model.cluster import PeerStatus, Voters
from tocsin.node import compose
from tocsin.replica.rounds import MISSED_MAX, Seen
from tocsin.state.counts import Counts, counts
from tocsin.targets.contract import Outcome, Verdict

COMMANDS = typer.main.get_command(app)
MINUTE_S, DAY_S = 60, 86_400
ROOMY = Disk(size=10**12, free=10**11)


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk(START)
    yield desk
    desk.close()


def _counts(desk: Desk) -> Counts:
    return counts(desk.db, desk.now_ms)


def a_launch_without_a_time_out_stalls_after_a_day(desk: Desk) -> None:
    put(desk, id="s", cron=f"@at {START + 10}")
    at(desk, 10)
    desk.now_ms += (DAY_S - 1) * 1000
    assert _counts(desk).stalled == 0
    desk.now_ms += 2000
    assert _counts(desk).stalled == 1


def a_launch_stalls_when_its_time_out_should_have_ended_it(desk: Desk) -> None:
    put(desk, id="short", cron=f"@at {START + 10}", timeout="1m")
    put(desk, id="long", cron=f"@at {START + 10}", timeout="3d")
    at(desk, 10)
    desk.now_ms += 5 * MINUTE_S * 1000
    assert _counts(desk).stalled == 0
    desk.now_ms += 2 * MINUTE_S * 1000
    assert _counts(desk).stalled == 1, "the short one"
    desk.now_ms += 2 * DAY_S * 1000
    assert _counts(desk).stalled == 1, "the long one has another day"


def an_attempt_that_nobody_makes_stalls(desk: Desk) -> None:
    put(desk, id="s", cron=f"@at {START + 10}", retry={"limit": 3, "backoff": "10s"})
    at(desk, 10)
    (lid,) = desk.flights
    desk.end(lid, Outcome(Verdict.FAILED, reason="no"))
    assert _counts(desk).open_by_state == {"started": 0, "running": 0, "retrying": 1, "queued": 0}
    desk.now_ms += 2 * MINUTE_S * 1000
    assert _counts(desk).stalled == 0
    desk.now_ms += 6 * MINUTE_S * 1000
    assert _counts(desk).stalled == 1


def lag_is_what_the_earliest_occurrence_is_overdue(desk: Desk) -> None:
    put(desk, id="s", cron=f"@at {START + 60}")
    assert _counts(desk).lag_ms(desk.now_ms) == 0
    desk.now_ms += 75_000
    assert _counts(desk).lag_ms(desk.now_ms) == 15_000
    desk.turns()
    assert _counts(desk).lag_ms(desk.now_ms) == 0


@pytest.mark.parametrize(
    ("disk", "is_nearly_full"),
    [
        (Disk(10**12, 10**11), False),
        (Disk(10**12, 4 * 10**10), False),
        (Disk(10**12, 4 * 10**9), True),
        (Disk(10**11, 4 * 10**9), True),
        (Disk(10**10, 10**9), False),
        (Disk(10**9, 90 * 1024**2), True),
        (Disk(10**9, 200 * 1024**2), False),
    ],
)
def a_disk_is_nearly_full_by_its_part_or_by_its_bytes(disk: Disk, is_nearly_full: bool) -> None:
    assert disk.is_nearly_full == is_nearly_full


def a_disk_that_does_not_answer_is_no_issue(tmp_path: Path) -> None:
    assert health.disk_of(tmp_path / "gone") is None
    found = health.disk_of(tmp_path)
    assert found is not None
    assert 0 < found.free <= found.size


def _issues_of(data: Path, changed: Callable[[Service, Health], Health]) -> list[str]:
    """The issues of a real replica that is well but for what the test changes."""

    async def whole() -> list[str]:
        settings = Settings(data=data, name="one")
        replica = compose(settings).replica
        await replica.start()
        try:
            service = Service(replica, settings)
            found = (await health.look(service))._replace(disk=ROOMY)
            assert health.issues(service, found) == []
            return health.issues(service, changed(service, found))
        finally:
            await replica.stop()

    return asyncio.run(asyncio.wait_for(whole(), 30))


def _with_counts(**numbers: Any) -> Callable[[Service, Health], Health]:
    return lambda _, found: found._replace(counts=found.counts._replace(**numbers))


def _overdue(_: Service, found: Health) -> Health:
    return found._replace(counts=found.counts._replace(next_ms=found.now_ms - 90_000))


def _cannot_write(service: Service, found: Health) -> Health:
    service.replica.parts.proposer.problem = "no room on the disk"
    return found


def _no_quorum(service: Service, found: Health) -> Health:
    service.replica.parts.proposer.problem = "etcd does not answer"
    return found


def _own_etcd_is_broken(service: Service, found: Health) -> Health:
    service.replica.troubles = [lambda: "etcd ended: it was killed by signal 9"]
    return found


def _two_lost(service: Service, found: Health) -> Health:
    rounds = service.replica.parts.rounds
    rounds.seen = Seen({"b": None, "c": None}, {}, ClockVerdict.OPEN)
    for _ in range(MISSED_MAX):
        rounds._absences.note(rounds.seen.statuses)
    return found


def _added(names: str, needed: int) -> Callable[[Service, Health], Health]:
    """These have joined. Five are enlisted, and b, d and e do not answer."""

    def changed(service: Service, found: Health) -> Health:
        rounds = service.replica.parts.rounds
        there = PeerStatus(name="c", version="1", role="follower")
        rounds.seen = Seen({"b": None, "c": there, "d": None, "e": None}, {}, ClockVerdict.OPEN)
        rounds.joined = lambda: Voters(tuple(names), needed)
        for _ in range(MISSED_MAX):
            rounds._absences.note(rounds.seen.statuses)
        return found

    return changed


def _seen_clocks(*offsets_ms: int) -> Callable[[Service, Health], Health]:
    def changed(service: Service, found: Health) -> Health:
        there = PeerStatus(name="x", version="1", role="follower", wall_ms=1)
        clocks = {name: Opinion(ahead_ms) for name, ahead_ms in zip("bcd", offsets_ms, strict=False)}
        verdict = judge(Opinion(0), list(clocks.values()), len(clocks) + 1)
        service.replica.parts.rounds.seen = Seen(dict.fromkeys(clocks, there), clocks, verdict)
        return found

    return changed


def _silent(_: Service, found: Health) -> Health:
    return found._replace(now_ms=found.now_ms + 200_000)


def _leader_apart(service: Service, found: Health) -> Health:
    service.replica.clock.note_leader(60_000)
    return found


def _clock_stepped(service: Service, found: Health) -> Health:
    class Ahead(SystemClock):
        def wall_ms(self) -> int:
            return super().wall_ms() + 40 * DAY_S * 1000

    service.replica.clock._clock = Ahead()
    return found


def _put_back(service: Service, found: Health) -> Health:
    meta = service.replica.meta
    meta.ahead_until_ms, meta.is_due_ahead = found.now_ms + 40 * DAY_S * 1000, 1
    return found._replace(due_ahead=7)


def _long_without_a_snapshot(service: Service, found: Health) -> Health:
    service.started_s -= 3 * service.snapshot_interval_s + 1
    return found


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (_with_counts(in_doubt=1), "1 launch of the last 24 hours is in doubt"),
        (_with_counts(in_doubt=2), "2 launches of the last 24 hours are in doubt"),
        (_with_counts(failed=3), "3 launches of the last 24 hours failed"),
        (_with_counts(missed=1), "One stretch of occurrences was missed and given up"),
        (_with_counts(missed=4), "4 stretches of occurrences were missed and given up"),
        (_with_counts(stalled=1), "1 launch has been open for too long"),
        (_overdue, "overdue by 1m30s"),
        (_cannot_write, "nothing is launched: no room on the disk."),
        (_no_quorum, "etcd does not answer. 'tocsin cluster' and"),
        (
            _own_etcd_is_broken,
            "The etcd of this replica does not work, and only those of the others are left: etcd ended: it was killed",
        ),
        (_two_lost, "2 of 3 replicas do not answer (b, c); it takes the etcds of 2 to write and to launch."),
        (_seen_clocks(60_000, 60_000), "The clock here is not the one that is gone by (b +60s, c +60s)"),
        (_seen_clocks(0, -60_000), "differ from the one here (c -60s)"),
        (_silent, "The scheduling loop has finished no turn for 3m"),
        (_leader_apart, "The clocks of other replicas differ from the one here (the last leader +60s)"),
        (_clock_stepped, "The wall clock has stepped: it is 5w"),
        (_put_back, "ahead, and was put back: 7 schedules have their next instant after"),
        (_long_without_a_snapshot, "There was no snapshot"),
        (
            lambda _, found: found._replace(disk=Disk(10**12, 10**9)),
            "The disk is nearly full, 953 MB are left",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def an_issue_is_a_sentence_with_a_command(
    tmp_path: Path, changed: Callable[[Service, Health], Health], words: str
) -> None:
    (issue,) = _issues_of(tmp_path, changed)
    assert words in issue
    assert issue.endswith(".")
    quoted = re.findall(r"'([^']+)'", issue)
    assert quoted, "it names no command"
    for line in quoted:
        program, *rest = shlex.split(line)
        if program == "tocsin":
            COMMANDS.commands[rest[0]].make_context(rest[0], rest[1:], resilient_parsing=False)
        else:
            assert program in ("df", "du", "ls", "journalctl", "timedatectl", "chronyc")


def the_worst_comes_first(tmp_path: Path) -> None:
    def everything(service: Service, found: Health) -> Health:
        _cannot_write(service, found)
        return _with_counts(in_doubt=1, failed=1, missed=1, stalled=1)(service, _overdue(service, found))

    issues = _issues_of(tmp_path, everything)
    assert [re.search("written|overdue|doubt|too long|failed|given up", text)[0] for text in issues] == [
        "written",
        "overdue",
        "doubt",
        "too long",
        "failed",
        "given up",
    ]


@pytest.mark.parametrize(
    ("joined", "needed", "words"),
    [
        (
            "abc",
            2,
            [
                "1 of 3 replicas does not answer (b); it takes the etcds of 2 to write and to launch.",
                "2 of the replicas that may join have not done so (d, e), and nothing waits for them:",
            ],
        ),
        (
            "abc",
            1,
            [
                "1 of 3 replicas does not answer (b). 'tocsin cluster' shows",
                "2 of the replicas that may join have not done so (d, e), and nothing waits for them:",
            ],
        ),
        ("a", 1, ["3 of the replicas that may join have not done so (b, d, e), and nothing waits for them:"]),
    ],
    ids=["added", "with a journal elsewhere", "after a recovery"],
)
def a_replica_that_has_not_joined_is_not_counted(
    tmp_path: Path, joined: str, needed: int, words: list[str]
) -> None:
    issues = _issues_of(tmp_path, _added(joined, needed))
    assert len(issues) == len(words)
    for issue, begin in zip(issues, words, strict=True):
        assert issue.startswith(begin)
