"""Lines that remember little, while schedules come, change and go: nobody is forgotten, and no limit is broken."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from tests.replica.limited_desk import START, LimitedDesk

from tocsin.model.command import DeleteSchedule
from tocsin.model.limit import Limit
from tocsin.replica import lines, lineup
from tocsin.targets.contract import SUCCEEDED, Outcome, Verdict

FAILED = Outcome(Verdict.FAILED, "no")
RETRY = {"limit": 2, "backoff": "1s", "max_backoff": "2s"}


@pytest.mark.parametrize("seed", range(8))
def nobody_is_forgotten_and_no_limit_is_broken(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(lines, "LINE_MAX", chance.choice([2, 5, 20]))
    monkeypatch.setattr(lines, "LINE_MIN", 2)
    monkeypatch.setattr(lines, "ALL_MAX", chance.choice([10, 50]))
    monkeypatch.setattr(lineup, "SLICE", chance.choice([3, 10]))
    monkeypatch.setattr(lineup, "PAGE_MIN", 5)
    monkeypatch.setattr(lineup, "SCANNED_MAX", 20)
    desk = LimitedDesk(
        Limit(target="null", rate="40/s", burst=chance.choice([1, 10])),
        Limit(label="team", concurrency=3),
        Limit(label="tier=low", rate="5/s", burst=1),
        lasts_ms=chance.choice([0, 50, 300]),
    )
    wanted: set[str] = set()
    for number in range(150):
        labels = {"team": chance.choice("abc")} if chance.random() < 0.7 else {}
        labels |= {"tier": "low"} if chance.random() < 0.2 else {}
        fields = {"retry": RETRY} if chance.random() < 0.3 else {}
        id = f"s{number:03d}"
        desk.put(id, f"@at {START + chance.randint(2, 12)}", labels=labels, **fields)
        wanted.add(id)
    for step in range(30):
        desk.outcome = chance.choice([SUCCEEDED, SUCCEEDED, FAILED])
        desk.run(chance.choice([0.1, 0.5, 1]))
        some = chance.choice(sorted(wanted))
        match chance.choice(["delete", "change", "late", "forget", "nothing"]):
            case "delete":
                desk.command(DeleteSchedule(some))
                wanted.discard(some)
            case "change" if some not in {launch.schedule for launch in desk.started}:
                moment = chance.choice([START + 3, START + chance.randint(2, 30)])
                desk.put(some, f"@at {moment}", labels={"team": chance.choice("abc")})
            case "late":
                desk.put(f"late{step}", f"@at {START + 1}", labels={"team": "a"})
                wanted.add(f"late{step}")
            case "forget":
                desk.outlook.forget()
            case _:
                pass
    desk.outcome = SUCCEEDED
    desk.run(60)
    first = Counter(launch.schedule for launch in desk.started if launch.attempt == 1)
    assert wanted <= first.keys()
    assert set(first.values()) == {1}
    assert desk.db.execute("SELECT count(*) FROM due").fetchone() == (0,)
    assert desk.db.execute("SELECT count(*) FROM launch WHERE state < 10").fetchone() == (0,)
    assert max(desk.at_once[1, team] for team in "abc") <= 3
    assert max(desk.seconds().values()) <= 51
    assert desk.limits.under_way == {}
    assert desk.limits.waits.by_limit == {}
    desk.close()


def who_is_created_late_is_counted_as_waiting() -> None:
    """Its place is before what was looked at: the round finds it, and counts it like everybody else."""
    desk = LimitedDesk(Limit(target="null", rate="1/d", burst=1))
    desk.put("first", f"@at {START + 1}")
    desk.put("waits", f"@at {START + 1}")
    desk.run(3)
    desk.put("late", f"@at {START + 2}")
    desk.run(5)
    assert desk.limits.waits.by_limit == {0: 2}
    assert list(desk.waits.values()) == [2]
    desk.run(60)
    assert list(desk.waits.values()) == [2], "each is counted once"
    desk.close()
