"""A replica that follows: what it is ready for, and readers of events who know more than it does."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import pytest

from tocsin.api.resources import events, health
from tocsin.errors import InvalidInput, NoLeader
from tocsin.model.cluster import PeerStatus
from tocsin.model.event import Place
from tocsin.replica.notices import Applied


class _Meta(NamedTuple):
    seq: int
    time_ms: int = 0
    mark: str = "5f0c92ab"
    former_mark: str = "00000001"
    common_seq: int = 3


class _Follower:
    """As much of a replica as is looked at."""

    def __init__(self, seq: int, role: Any = "follower", time_ms: int = 0) -> None:
        self.applied = Applied(seq)
        self.role = role
        self.time_ms = self.told_ms = time_ms

    @property
    def meta(self) -> _Meta:
        return _Meta(self.applied.seq, self.time_ms)

    def status(self) -> PeerStatus:
        return PeerStatus(name="b", version="1", role=self.role)


class _Service(NamedTuple):
    replica: Any

    def now_ms(self) -> int:
        return 100_000


def _start(replica: Any, id: str) -> Any:
    return events._start(replica, id, None)


def an_event_of_another_replica_is_waited_for():
    async def whole() -> tuple[Place, str]:
        follower = _Follower(5)
        starting = asyncio.create_task(_start(follower, "7.3"))
        await asyncio.sleep(0)
        assert not starting.done()
        follower.applied.notice(6)
        await asyncio.sleep(0)
        assert not starting.done()
        follower.applied.notice(7)
        return await starting

    assert asyncio.run(whole()) == (Place(7, 4), "")


def what_it_has_is_not_waited_for():
    assert asyncio.run(_start(_Follower(7), "7.3")) == (Place(7, 4), "")
    assert asyncio.run(_start(_Follower(7), "7"))[0].seq == 8


def one_that_is_far_behind_sends_its_readers_elsewhere(monkeypatch):
    monkeypatch.setattr(events, "CATCH_UP_S", 0.01)
    with pytest.raises(NoLeader, match="at entry 5") as told:
        asyncio.run(_start(_Follower(5), "70.3"))
    assert told.value.retryable


def to_the_leader_an_event_that_nobody_wrote_is_a_mistake():
    with pytest.raises(InvalidInput):
        asyncio.run(_start(_Follower(5, "leader"), "70.3"))


def a_leader_that_applies_an_entry_after_the_others_is_waited_for(monkeypatch):
    """It appends first, and others read what it appended."""
    monkeypatch.setattr(events, "CATCH_UP_S", 0.01)
    with pytest.raises(NoLeader) as told:
        asyncio.run(_start(_Follower(5, "leader"), "6.0-5f0c92ab"))
    assert told.value.retryable


@pytest.mark.parametrize(
    ("id", "place", "is_lost"),
    [
        ("3.1-00000001", Place(3, 2), False),
        ("3-00000001", Place(4, 0), False),
        ("4.0-00000001", Place(4, 0), True),
        ("70.3-00000001", Place(4, 0), True),
        ("2.0-0000000f", Place(1, 0), True),
    ],
)
def behind_an_event_of_a_former_record_comes_what_is_not_common_to_both(id: str, place: Place, is_lost: bool):
    assert asyncio.run(_start(_Follower(7), id)) == (place, id if is_lost else "")


def a_follower_is_ready_while_it_keeps_up():
    def told(role: str, time_ms: int) -> str:
        return health.cannot_take_over(_Service(_Follower(5, role, time_ms)))  # type: ignore[arg-type]  # why: all that it asks

    assert told("follower", 99_000) == ""
    assert "40s" in told("follower", 60_000)
    assert told("leader", 0) == ""
    assert told("starting", 99_000) == "it is starting"
    assert told("former", 99_000) == "it is stopping"
