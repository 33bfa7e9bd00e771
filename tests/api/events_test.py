"""Server-sent events: live, resumed, filtered, and ended in time."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.api.access_test import token
from tests.api.logins import log_in, log_out
from tests.cli.conftest import Command
from tests.ports import own_port

from tocsin.client import Client
from tocsin.errors import InvalidInput, Unreachable
from tocsin.model.event import Event
from tocsin.model.schedule import convert


class Frame(NamedTuple):
    id: str
    name: str
    data: Any


class Reader:
    """A stream as it comes over the wire."""

    def __init__(self, service: Any, query: str = "", **headers: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=20)
        self._connection.request("GET", f"/v1/events{query}", headers=headers)
        self.response = self._connection.getresponse()

    def frames(self) -> Iterator[Frame]:
        """Until the stream ends. A frame without data is passed on too."""
        fields: dict[str, str] = {}
        for line in iter(self.response.readline, b""):
            if line == b"\n":
                data = fields.get("data")
                yield Frame(
                    fields.get("id", ""), fields.get("event", ""), None if data is None else json.loads(data)
                )
                fields = {}
            else:
                key, _, value = line.decode().rstrip("\n").partition(": ")
                fields[key] = value

    def events(self) -> Iterator[dict[str, Any]]:
        return (frame.data for frame in self.frames() if frame.data is not None)

    def close(self) -> None:
        self.response.close()
        self._connection.close()


def _all(service: Any, after: str = "0", query: str = "") -> list[dict[str, Any]]:
    """Everything up to now. The end is not told of."""
    found = list(Reader(service, f"?after={after}&follow=false{query}").events())
    assert found.pop()["kind"] == "end"
    return found


def _without_gaps(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in found if event["kind"] != "gap"]


def _sequence(id: str) -> int:
    return int(id.partition("-")[0].partition(".")[0])


def _about(found: list[dict[str, Any]]) -> list[tuple[str, str | None]]:
    return [(event["kind"], event.get("schedule")) for event in found]


def a_stream_without_an_id_begins_with_what_comes_next(service):
    service.create("live/before")
    reader = Reader(service)
    frames = reader.frames()
    first = next(frames)
    assert (first.data, _sequence(first.id) > 0) == (None, True), "where to go on, should it be cut off now"
    assert reader.response.getheader("content-type").startswith("text/event-stream")
    assert reader.response.getheader("cache-control") == "no-store"
    service.create("live/after")
    frame = next(frames)
    assert (frame.data["kind"], frame.data["schedule"]) == ("schedule.created", "live/after")
    assert frame.id == frame.data["id"]
    reader.close()
    again = Reader(service, **{"Last-Event-ID": first.id})
    assert next(again.events()) == frame.data
    again.close()


def behind_each_event_comes_exactly_the_rest(service, wait):
    for number in range(3):
        service.create(f"rest/{number}")
        service.ask("POST", f"/v1/schedules/rest/{number}:run")
    wait(lambda: sum(e["kind"] == "launch.succeeded" for e in _all(service, query="&prefix=rest/")) == 3)
    whole = _all(service)
    for place, event in enumerate(whole):
        assert _all(service, event["id"]) == whole[place + 1 :]
    number, _, journal = whole[-1]["id"].partition("-")
    for same in (number, number.partition(".")[0], f"{number.partition('.')[0]}-{journal}"):
        assert _all(service, same) == [], "a sequence alone is the whole entry"


def the_header_of_a_browser_counts_for_more_than_the_address(service):
    service.create("header/one")
    whole = _all(service)
    reader = Reader(service, "?after=0&follow=false", **{"Last-Event-ID": whole[-2]["id"]})
    assert next(reader.events()) == whole[-1]
    reader.close()


def filters_hold_back_what_is_not_asked_for(service, wait):
    service.create("filter/a/one")
    service.create("filter/b")
    service.ask("POST", "/v1/schedules/filter/b:run")
    wait(lambda: _all(service, query="&schedule=filter/b&kind=launch.succeeded"))
    assert _about(_all(service, query="&prefix=filter/a/")) == [("schedule.created", "filter/a/one")]
    assert _about(_all(service, query="&schedule=filter/b")) == [
        ("schedule.created", "filter/b"),
        ("launch.started", "filter/b"),
        ("launch.succeeded", "filter/b"),
    ]
    assert _about(_all(service, query="&schedule=filter/b&kind=launch.*")) == [
        ("launch.started", "filter/b"),
        ("launch.succeeded", "filter/b"),
    ]
    both = _all(service, query="&prefix=filter/&kind=launch.started,schedule.paused&kind=launch.succeeded")
    assert [event["kind"] for event in both] == ["launch.started", "launch.succeeded"]
    assert _about(_all(service, query="&kind=office.*")) == [("office.taken", None)]
    unfiltered = {event["id"]: event for event in _all(service)}
    assert all(unfiltered[event["id"]] == event for event in both), "an id is the same for everybody"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("?after=x", "after"),
        ("?after=1.2.3", "after"),
        ("?after=-1", "after"),
        ("?after=999999999", "after"),
        ("?after=999999999.1", "after"),
        ("?kind=launch", "kind"),
        ("?kind=launch.exploded", "kind"),
    ],
)
def what_cannot_be_told_is_a_400(service, query, field):
    answer = service.ask("GET", f"/v1/events{query}")
    assert (answer.status, answer.json["field"]) == (400, field)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json["allowed"]


def what_was_refused_is_not_told(service, sample):
    service.create("refused/one")
    before = _all(service)
    assert service.ask("POST", "/v1/schedules", sample("refused/one", description="d")).status == 409
    assert service.ask("PUT", "/v1/schedules/refused/one", sample("refused/one")).status == 200
    stale = {"If-Match": '"7"'}
    assert service.ask("DELETE", "/v1/schedules/refused/one", headers=stale).status == 412
    assert _all(service) == before


def there_is_a_limit_to_streams_and_one_that_is_closed_makes_room(service, wait):
    readers = [Reader(service) for _ in range(100)]
    assert {reader.response.status for reader in readers} == {200}
    refused = service.ask("GET", "/v1/events")
    assert (refused.status, "100 streams" in refused.json["detail"]) == (503, True)
    assert refused.headers["retry-after"] == "1"
    service.create("limit/one")
    assert {next(reader.events())["schedule"] for reader in readers} == {"limit/one"}
    readers.pop().close()
    wait(lambda: Reader(service).response.status == 200)
    for reader in readers:
        reader.close()


def entries_that_were_trimmed_away_are_a_gap(start, wait, tmp_path):
    service = start(tmp_path / "data", "--snapshot-interval", "1s")
    service.create("gap/one")
    first = _all(service)[0]["id"]

    def trimmed() -> list[Frame]:
        service.ask("POST", "/v1/schedules/gap/one:pause")
        service.ask("POST", "/v1/schedules/gap/one:resume")
        frames = list(Reader(service, f"?after={first}&follow=false").frames())
        return frames if frames[1].name == "gap" else []

    _, gap, *rest = wait(trimmed, within_s=20)
    assert gap.data["kind"] == "gap"
    assert gap.data["first_sequence"] == _sequence(first)
    sequences = [_sequence(frame.data["id"]) for frame in rest]
    assert sequences[0] > gap.data["last_sequence"]
    assert _all(service, gap.id)[0]["id"] == rest[0].id, "the gap's own id goes on behind it"
    assert service.stop() == 0


def behind_an_event_that_was_lost_comes_all_that_happened_since_the_loss(start, tmp_path):
    """A reader was told more than the backup knows, and comes back when the new journal has passed that number."""
    common, lost = "", []
    for number, name in enumerate(("first", "second", "third")):
        data, backups = tmp_path / name / "data", str(tmp_path / "backups")
        data.parent.mkdir()
        if number:
            assert Command(None)("restore", backups, "--data", str(data)).status == 0
        service = start(data, "--backup", backups)
        for each in range(10 * number + 5):
            service.create(f"{name}/{each}")
        whole = _without_gaps(_all(service))
        for last in lost:
            is_of_former = last == lost[-1]
            record = "a record that was lost" if is_of_former else "an earlier record, and may have been lost"
            gap, *rest = _all(service, last)
            assert (gap["kind"], "first_sequence" in gap) == ("gap", False)
            assert f"event {last} is of {record}" in gap["reason"]
            assert "behind entry 0" not in gap["reason"]
            assert _without_gaps(rest) == whole
            assert _without_gaps(_all(service, gap["id"])) == whole, "the gap's own id goes on behind it"
            told = Command(service.url)("events", "--since", last)
            assert (told.status, len(told.out.splitlines())) == (0, len(whole))
            assert f"is of {record}" in told.err
        if number == 1:
            gap, *rest = _all(service, common)
            assert gap["last_sequence"] < _sequence(whole[0]["id"]), "what both have in common"
            assert rest == whole
        common = whole[-1]["id"]
        assert Command(service.url)("backup").status == 0
        service.create(f"{name}/lost")
        lost.append(_all(service)[-1]["id"])
        service.stop(signal.SIGKILL)


def _herd(service: Any, count: int, cron: str, long: str = "") -> None:
    async def create() -> None:
        async with Client(service.url) as client:
            room = asyncio.Semaphore(50)

            async def one(number: int) -> None:
                async with room:
                    id = f"herd/{long}{number}"
                    await client.create(convert({"id": id, "cron": cron, "target": {"kind": "null"}}))

            await asyncio.gather(*(one(number) for number in range(count)))

    asyncio.run(create())


def _memory_kb(service: Any) -> int:
    for line in Path(f"/proc/{service.process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS")


def a_slow_reader_slows_only_itself_and_misses_nothing(start, wait, tmp_path):
    """A herd streams past one reader that takes it and one that does not look."""
    service = start(tmp_path / "data", "--rate-limit", "0")
    _herd(service, 1000, "@every 1s")
    slow = Reader(service, "?after=0&kind=launch.*")
    slow_events = slow.events()
    seen = [next(slow_events)]
    fast = Reader(service, "?after=0&kind=launch.*")
    fast_events = fast.events()
    fast_seen = [next(fast_events) for _ in range(100)]
    before_kb = _memory_kb(service)
    fast_seen += [next(fast_events) for _ in range(14_900)]
    began_s = time.monotonic()
    assert service.ask("GET", "/v1/status").status == 200
    assert time.monotonic() - began_s < 2
    assert _memory_kb(service) - before_kb < 60_000
    seen += [next(slow_events) for _ in range(14_999)]
    assert seen == fast_seen
    names = [(event["name"], event["kind"]) for event in seen]
    assert len(set(names)) == len(names)
    slow.close()
    fast.close()
    assert service.stop() == 0
    assert "Traceback" not in service.log.read_text()


def a_service_that_stops_does_not_wait_for_its_streams(start, tmp_path):
    service = start(tmp_path / "data", "--rate-limit", "0")
    _herd(service, 1000, "@every 1s", long="x" * 180)
    idle = Reader(service, "?kind=schedule.deleted")
    frames = idle.frames()
    next(frames)
    stalled = [Reader(service, "?after=0") for _ in range(3)]
    assert all(reader.response.status == 200 for reader in stalled)
    watch = Reader(service, "?after=0")
    events = watch.events()
    told_bytes = 0
    while told_bytes < 12_000_000:  # more than lies on the way between two sockets
        told_bytes += len(json.dumps(next(events)))
    began_s = time.monotonic()
    os.kill(service.process.pid, signal.SIGTERM)
    assert all(frame.data is None for frame in frames), "it ends, and cleanly"
    assert service.process.wait(10) == 0
    assert time.monotonic() - began_s < 3
    log = service.log.read_text()
    assert "Traceback" not in log
    assert "completing response" not in log


def nothing_is_lost_or_told_twice_when_the_service_is_killed(start, tmp_path, wait):
    """The client follows through three kills; afterwards the journal says what it should have heard."""
    port = own_port()
    listen = ("--listen", f"127.0.0.1:{port}", "--rate-limit", "0")
    service = start(tmp_path / "data", *listen)
    heard: list[Event] = []
    news = asyncio.Event()

    async def follow() -> None:
        async with Client(f"http://127.0.0.1:{port}") as client:
            async for event in client.events(after="0"):
                heard.append(event)
                news.set()
                if event.schedule == "the/end":
                    return

    async def whole() -> None:
        nonlocal service
        following = asyncio.create_task(follow())
        await asyncio.to_thread(_herd, service, 50, "@every 1s")
        for _ in range(3):
            upto = len(heard) + 170
            while len(heard) < upto:
                assert not following.done(), following.exception()
                news.clear()
                await asyncio.wait_for(news.wait(), 30)
            service.process.kill()
            service.process.wait()
            service = await asyncio.to_thread(start, tmp_path / "data", *listen)
        for number in range(50):
            await asyncio.to_thread(service.ask, "DELETE", f"/v1/schedules/herd/{number}")
        await asyncio.to_thread(service.create, "the/end")
        await asyncio.wait_for(following, 20)

    asyncio.run(whole())
    told = [event["id"] for event in _all(service)]
    assert [event.id for event in heard] == told[: told.index(heard[-1].id) + 1]
    assert len({event.id for event in heard}) == len(heard)
    assert sum(event.kind == "office.taken" for event in heard) == 4
    assert service.stop() == 0


def a_client_without_a_service_and_with_a_wrong_id_is_told_so(service):
    async def first(url: str, after: str) -> Event:
        async with Client(url) as client:
            async for event in client.events(after=after):
                return event
        raise AssertionError("no event")

    with pytest.raises(Unreachable):
        asyncio.run(first("http://127.0.0.1:1", "0"))
    with pytest.raises(InvalidInput):
        asyncio.run(first(service.url, "9999999"))
    assert asyncio.run(first(service.url, "0")).kind == "office.taken"


def a_client_that_does_not_follow_ends(service):
    service.create("ends/one")

    async def whole() -> list[Event]:
        async with Client(service.url) as client:
            found = client.events(after="0", schedule="ends/one", kinds=["schedule.*"], follow=False)
            return [event async for event in found]

    assert [(event.kind, event.version) for event in asyncio.run(whole())] == [("schedule.created", 1)]


def a_token_hears_of_what_it_reaches_and_no_longer_than_it_is_valid(guarded):
    guarded.create("mine/one")
    guarded.create("theirs/one")
    wish = {"name": "listener", "scopes": ["read"], "prefixes": ["mine/"]}
    made = guarded.ask("POST", "/v1/tokens", wish).json
    reader = Reader(guarded, "?after=0", authorization=f"Bearer {made['token']}")
    events = reader.events()
    assert _about([next(events), next(events)]) == [("office.taken", None), ("schedule.created", "mine/one")]
    guarded.create("theirs/two")
    guarded.create("mine/two")
    assert next(events)["schedule"] == "mine/two"
    for name in ("another", "yet-another"):  # tokens and logins of others end nobody's stream
        log_out(guarded, log_in(guarded, token(guarded, name, "read")))
        assert guarded.ask("DELETE", f"/v1/tokens/{name}").status == 204
    guarded.create("mine/three")
    assert next(events)["schedule"] == "mine/three"
    assert guarded.ask("DELETE", "/v1/tokens/listener").status == 204
    assert list(events) == [], "the stream ends"
    reader.close()
    assert Reader(guarded, authorization=f"Bearer {made['token']}").response.status == 401
