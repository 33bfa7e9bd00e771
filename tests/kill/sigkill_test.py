"""The service is killed with SIGKILL at random moments, over and over, under load. Then the receivers' own records
are held against what the service says: nothing twice, nothing lost, nothing early, everything accounted for."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from tests.kill.receiver import ExecReceiver, HttpReceiver, Seen
from tests.kill.service import Service, wait_for

KILLS = int(os.environ.get("TOCSIN_KILLS", "110"))
OPEN = {"started", "running", "retrying", "queued"}


class Aftermath(NamedTuple):
    """What is left to look at when all is over."""

    service: Service
    seen: list[Seen]
    launches: dict[str, dict[str, Any]]
    began_s: int
    ended_s: int
    schedules: dict[str, dict[str, Any]]

    def of(self, prefix: str) -> list[dict[str, Any]]:
        return [launch for launch in self.launches.values() if launch["schedule"].startswith(prefix)]

    def seen_of(self, prefix: str) -> list[Seen]:
        return [seen for seen in self.seen if seen.schedule.startswith(prefix)]


def _schedules(commands: ExecReceiver, calls: HttpReceiver) -> list[dict[str, Any]]:
    """The load: commands and calls, quick, slow, flaky, with each policy that doubt or absence asks for."""

    def exec_(id: str, then: str = "", **fields: Any) -> dict[str, Any]:
        return {
            "id": id,
            "cron": "* * * * * *",
            "target": {"kind": "exec", "shell": commands.shell(then)},
            **fields,
        }

    def http(id: str, path: str = "/", idempotent: bool = False, **fields: Any) -> dict[str, Any]:
        target = {"kind": "http", "url": calls.url + path, "idempotent": idempotent}
        return {"id": id, "cron": "* * * * * *", "target": target, **fields}

    retry = {"limit": 5, "backoff": "1s", "jitter": 0}
    return [
        *(exec_(f"exec/quick/{n}", missed="all") for n in range(3)),
        *(exec_(f"exec/slow/{n}", "sleep 2", cron="*/2 * * * * *") for n in range(2)),
        exec_("exec/flaky/0", 'test "$TOCSIN_ATTEMPT" -gt 1', retry=retry, cron="*/3 * * * * *"),
        exec_("exec/relaunch/0", on_doubt="relaunch", missed="all"),
        *(http(f"http/skip/{n}", missed="all") for n in range(3)),
        *(http(f"http/idempotent/{n}", idempotent=True, missed="all") for n in range(2)),
        http("http/relaunch/0", on_doubt="relaunch", missed="all"),
        http("http/flaky/0", "/flaky", idempotent=True, retry=retry),
        http("http/forbid/0", overlap="forbid", missed="skip"),
    ]


def _torment(service: Service, chance: random.Random) -> None:
    """Kill, start, kill: some kills hit the start itself, some the conclusion of what was open, some full flight."""
    for number in range(KILLS):
        service.start()
        if number % 2:
            service.wait_ready()
            _let_pass(chance.uniform(0.0, 1.2))
        else:
            _let_pass(chance.uniform(0.2, 1.6))
        service.kill()


def _let_pass(seconds: float) -> None:
    """The moment of the kill is the random input of this test, not a wait for something."""
    moment = time.monotonic() + seconds
    wait_for(lambda: time.monotonic() >= moment, "the moment of the kill")


@pytest.fixture(scope="module")
def aftermath(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aftermath]:
    seed = int(os.environ.get("TOCSIN_SEED", str(random.randrange(1 << 32))))
    print(f"TOCSIN_SEED={seed}")
    folder = tmp_path_factory.mktemp("kill")
    commands, calls = ExecReceiver(folder / "commands.log"), HttpReceiver()
    service = Service(folder / "data", "--snapshot-interval", "3s")
    schedules = _schedules(commands, calls)
    try:
        service.start()
        service.wait_ready()
        for schedule in schedules:
            service.put(schedule)
        began_s = int(time.time()) + 1
        service.kill()
        _torment(service, random.Random(seed))
        service.start()
        service.wait_ready()
        wait_for(lambda: not _late(service), "everything missed to be caught up with", 120)
        for schedule in schedules:
            service.call("POST", f"/v1/schedules/{schedule['id']}:pause", {"note": "the test is over"})
        ended_s = int(time.time()) - 1
        wait_for(lambda: service.status()["open"] == 0, "every launch to end", 120)
        launches = {launch["name"]: launch for launch in service.launches()}
        by_id = {schedule["id"]: schedule for schedule in schedules}
        yield Aftermath(service, [*commands.seen, *calls.seen], launches, began_s, ended_s, by_id)
    finally:
        service.close()
        calls.close()


def _late(service: Service) -> bool:
    """Is any schedule's next instant still in the past?"""
    page = service.call("GET", "/v1/schedules?limit=1000")
    return any(_unix(item["next"]) < time.time() - 2 for item in page["items"] if item["next"])


def _unix(text: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(text).timestamp()


def there_was_load_and_there_were_kills(aftermath: Aftermath) -> None:
    assert KILLS >= 100
    for id in aftermath.schedules:
        assert aftermath.of(id), f"{id} was never launched"
    assert aftermath.service.status()["term"] > KILLS / 2, (
        "most starts must have come as far as taking office"
    )


def nothing_was_launched_twice_under_skip(aftermath: Aftermath) -> None:
    careful = [id for id, found in aftermath.schedules.items() if found.get("on_doubt", "skip") == "skip"]
    counts = Counter(
        (seen.name, seen.attempt)
        for seen in aftermath.seen
        if seen.schedule in careful and not aftermath.schedules[seen.schedule]["target"].get("idempotent")
    )
    assert {call: count for call, count in counts.items() if count > 1} == {}


def without_retries_a_launch_reached_its_target_at_most_once_under_skip(aftermath: Aftermath) -> None:
    for prefix in ("exec/quick/", "exec/slow/", "http/skip/", "http/forbid/"):
        counts = Counter(seen.name for seen in aftermath.seen_of(prefix))
        assert {name: count for name, count in counts.items() if count > 1} == {}


def commands_are_never_in_doubt(aftermath: Aftermath) -> None:
    """The keeper of each command outlives the service, so nobody has to guess."""
    assert {launch["state"] for launch in aftermath.of("exec/")} <= {"succeeded", "skipped"}


def what_succeeded_reached_its_target(aftermath: Aftermath) -> None:
    reached = {seen.name for seen in aftermath.seen}
    claimed = {name for name, launch in aftermath.launches.items() if launch["state"] == "succeeded"}
    assert claimed - reached == set()


def what_reached_its_target_is_on_record_and_not_as_skipped(aftermath: Aftermath) -> None:
    for seen in aftermath.seen:
        assert aftermath.launches[seen.name]["state"] in ("succeeded", "in_doubt"), aftermath.launches[
            seen.name
        ]


def relaunch_and_idempotent_launches_happened_at_least_once(aftermath: Aftermath) -> None:
    reached = {seen.name for seen in aftermath.seen}
    for prefix in ("exec/relaunch/", "http/relaunch/", "http/idempotent/"):
        for launch in aftermath.of(prefix):
            assert launch["state"] == "succeeded", launch
            assert launch["name"] in reached


def flaky_launches_were_tried_again_until_they_succeeded(aftermath: Aftermath) -> None:
    for prefix in ("exec/flaky/", "http/flaky/"):
        ended = [launch for launch in aftermath.of(prefix) if launch["state"] != "skipped"]
        assert {launch["state"] for launch in ended} == {"succeeded"}
        assert all(launch["attempt"] >= 2 for launch in ended)


def nothing_was_early(aftermath: Aftermath) -> None:
    early = [seen for seen in aftermath.seen if seen.at_s < seen.instant_s]
    assert early == []


def every_call_and_every_command_carried_the_term_of_its_leader(aftermath: Aftermath) -> None:
    for prefix in ("exec/", "http/"):
        terms = {seen.term for seen in aftermath.seen_of(prefix)}
        assert terms <= set(range(1, aftermath.service.status()["term"] + 1))
        assert len(terms) > KILLS / 4, "most leaders lived long enough to call something"


def every_launch_has_ended_with_a_reason(aftermath: Aftermath) -> None:
    for launch in aftermath.launches.values():
        assert launch["state"] not in OPEN
        assert launch["state"] == "succeeded" or launch["reason"], launch


def nothing_was_lost(aftermath: Aftermath) -> None:
    """Under ``missed: all`` every single second has its launch, however often the service was dead."""
    for id, schedule in aftermath.schedules.items():
        if schedule.get("missed") != "all":
            continue
        seconds = range(aftermath.began_s, aftermath.ended_s)
        lost = [second for second in seconds if f"{id}-{second}" not in aftermath.launches]
        assert lost == [], f"{id} lost {len(lost)} of {len(seconds)}"


def every_occurrence_is_accounted_for(aftermath: Aftermath) -> None:
    """Each second is a launch, or ``why`` knows from the record that it was missed; nothing is a blank. A service
    that is back within a few seconds has missed nothing: then it is only late."""
    looked = 0
    for id, schedule in aftermath.schedules.items():
        step = int(schedule["cron"].split()[0].partition("/")[2] or 1)
        for second in range(aftermath.began_s, aftermath.ended_s):
            if second % 60 % step:
                continue
            looked += 1
            if f"{id}-{second}" in aftermath.launches:
                continue
            answer = aftermath.service.why(id, second)
            assert answer.startswith("Not launched; missed: nothing was decided at that time"), (
                id,
                second,
                answer,
            )
    assert looked > len(aftermath.schedules) * 60


def the_service_still_stops_cleanly(aftermath: Aftermath) -> None:
    assert aftermath.service.stop() == 0
