"""Schedules of every policy, and what people do with them."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

Drawn = tuple[float, str, dict[str, Any]]
EPISODE_S_MAX = 160.0
LARGE_BYTES = 50_000

_TRANSITIONS = [
    datetime(2026, 3, 29, 1, tzinfo=UTC),  # Berlin goes forward,
    datetime(2026, 10, 25, 1, tzinfo=UTC),  # and back
    datetime(2026, 3, 8, 7, tzinfo=UTC),  # New York
    datetime(2026, 11, 1, 6, tzinfo=UTC),
    datetime(2026, 4, 4, 15, tzinfo=UTC),  # Lord Howe, by half an hour
]
_ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]
_STANDING = [
    "30 2 * * *",
    "0 0 * * *",
    "15 */6 * * *",
    "45 1-3 * * *",
    "0 12 * * mon-fri",
    "@every 7h",
    "0 3 1 * *",
    "~ 4 * * *",
    "30 1 * * sun",
]


_EDITS = ["put", "put", "switch off", "switch on", "delete", "run", "cancel", "backfill", "resolve"]


def epoch_s(chance: random.Random) -> int:
    """When it begins. Often shortly before some zone changes its clocks."""
    if chance.random() < 0.5:
        change = chance.choice(_TRANSITIONS)
        return int(change.timestamp()) - chance.randrange(60, 40_000)
    return int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) + chance.randrange(0, 500 * 86_400)


def standing(chance: random.Random, epoch_s: int, at_s: float) -> list[Drawn]:
    """Those that are there all the time."""
    found: list[Drawn] = []
    for number, cron in enumerate(_STANDING):
        schedule = {
            "id": f"day/{number}",
            "cron": cron,
            "timezone": chance.choice(_ZONES),
            **policies(chance),
        }
        found.append((at_s + number * 0.05, "put", {"schedule": schedule, "via": chance.random()}))
    moment = datetime.fromtimestamp(epoch_s + chance.randrange(600, 20_000), UTC)
    once = {"id": "day/once", "cron": f"@at {moment.isoformat()}", **policies(chance)}
    found.append((at_s + 0.5, "put", {"schedule": once, "via": chance.random()}))
    return found


def dense(chance: random.Random, number: int, at_s: float, lasts_s: float, epoch_s: int) -> list[Drawn]:
    """Some that fall due every few seconds, for the length of an episode."""
    found: list[Drawn] = []
    end = datetime.fromtimestamp(int(epoch_s + at_s + lasts_s), UTC)
    for index in range(chance.randrange(2, 6)):
        every = chance.choice([1, 2, 3, 5, 7, 10, 20])
        cron = f"*/{every} * * * * *" if every in (1, 2, 3, 5, 10, 20) else f"@every {every}s"
        schedule = {
            "id": f"busy/{number}-{index}",
            "cron": cron,
            "end": end.isoformat(),
            **policies(chance),
        }
        found.append((at_s + chance.uniform(0, 3), "put", {"schedule": schedule, "via": chance.random()}))
    return found


def herd(chance: random.Random, number: int, at_s: float, epoch_s: int) -> list[Drawn]:
    """Many at one moment."""
    moment = datetime.fromtimestamp(int(epoch_s + at_s + chance.uniform(20, 35)), UTC)
    count = chance.choice([50, 200, 400])
    what = {"prefix": f"herd/{number}", "count": count, "at": moment.isoformat()}
    if count == 50:  # fewer of them, but large
        what["payload_bytes"] = LARGE_BYTES
    return [(at_s + 1.0, "herd", {**what, "via": chance.random()})]


def edits(
    chance: random.Random, number: int, at_s: float, lasts_s: float, known: list[Drawn], epoch_s: int
) -> list[Drawn]:
    """People change their minds while launches are under way."""
    ids = [what["schedule"]["id"] for _, kind, what in known if kind == "put"]
    crons = {what["schedule"]["id"]: what["schedule"] for _, kind, what in known if kind == "put"}
    found: list[Drawn] = []
    for _ in range(chance.randrange(0, 9)):
        id, when_s = chance.choice(ids), at_s + chance.uniform(4.0, lasts_s)
        via = {"via": chance.random()}
        kind = chance.choice(_EDITS)
        if kind == "put":
            schedule = {**crons[id], **policies(chance)}
            if chance.random() < 0.4:
                schedule["cron"] = f"*/{chance.choice([1, 2, 5, 15])} * * * * *"
            found.append((when_s, "put", {"schedule": schedule, **via}))
        elif kind == "backfill":
            back_s = int(epoch_s + when_s)
            found.append((when_s, kind, {"id": id, "from_s": back_s - 30, "until_s": back_s, **via}))
        else:
            found.append((when_s, kind, {"id": id, **via}))
    return found


def policies(chance: random.Random) -> dict[str, Any]:
    """A target and what its owner wants, drawn from all there is."""
    found: dict[str, Any] = {"target": _target(chance)}
    found["on_doubt"] = chance.choice(["skip", "skip", "relaunch"])
    found["missed"] = chance.choice(["skip", "last", "all"])
    found["overlap"] = chance.choice(["allow", "allow", "forbid", "replace", "queue"])
    if chance.random() < 0.5:
        found["retry"] = {
            "limit": chance.choice([1, 2, 5]),
            "backoff": chance.choice(["1s", "3s"]),
            "max_backoff": "20s",
            "jitter": chance.choice([0, 0.3]),
        }
    if chance.random() < 0.25:
        found["deadline"] = chance.choice(["2s", "10s", "1m"])
    if chance.random() < 0.2:
        found["jitter"] = chance.choice(["1s", "5s"])
    if chance.random() < 0.2:
        found["timeout"] = chance.choice(["1s", "5s", "20s"])
    if chance.random() < 0.2:
        found["catch_up_spread"] = "20s"
    return found


def _target(chance: random.Random) -> dict[str, Any]:
    manner = chance.choice(["steady", "steady", "steady", "slow", "failing", "hanging", "silent"])
    kind = chance.choice(["plain", "plain", "idempotent", "fenced", "exec", "exec", "null"])
    if kind == "null":
        return {"kind": "null"}
    if kind == "exec":
        return {"kind": "exec", "shell": "slow" if manner == "hanging" else manner}
    target = {
        "kind": "http",
        "url": f"http://{kind}-{manner}/",
        "timeout": chance.choice(["2s", "10s", "30s"]),
    }
    return target if kind == "plain" else {**target, "idempotent": True}
