"""Timelines stay what they are, whatever happens to whoever follows them."""

from __future__ import annotations

import random

from tests.core.desk import START, Desk, put

from tocsin.targets.contract import SUCCEEDED


def an_interval_keeps_its_timeline_for_an_hour_also_after_a_stall() -> None:
    """A second is a second: whatever held the leader up, no instant is moved, and none is launched twice."""
    desk = Desk(START)
    put(desk, id="tick", cron="@every 1s", missed="all")
    chance = random.Random(1)
    until_ms = desk.now_ms + 3_600_000
    while desk.now_ms < until_ms:
        late_ms = chance.choice([3, 5, 9, 40, 800, 4_000]) if chance.random() < 0.2 else 2
        desk.now_ms = min(until_ms, desk.now_ms + 1_000 + late_ms)
        desk.turns()
        for lid in list(desk.flights):
            desk.end(lid, SUCCEEDED)
    instants = [instant_s for _, instant_s, _, _ in desk.launches()]
    assert instants == list(range(START + 1, START + 3_601))
    desk.close()
