"""How long single questions take, one at a time, of a service that holds so and so many schedules."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import defaultdict

from bench.measure import percentile
from bench.wire import Connection

ROUNDS = 200


async def latencies(url: str, prefix: str, held: int, rounds: int = ROUNDS) -> dict[str, tuple[float, float]]:
    """For each kind of question the median and the 99th percentile, in milliseconds."""
    chance = random.Random(7)
    connection = Connection(url)
    times_ms: dict[str, list[float]] = defaultdict(list)

    async def ask(kind: str, method: str, path: str, body: object = None) -> None:
        content = b"" if body is None else json.dumps(body).encode()
        began = time.perf_counter()
        answer = await connection.call(method, path, content)
        times_ms[kind].append((time.perf_counter() - began) * 1000)
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: {answer.status} {answer.body[:200]!r}")

    for number in range(rounds):
        some = f"{prefix}/{chance.randrange(held):08d}"
        own = f"questions/{held}/{number}"
        await ask("get", "GET", f"/v1/schedules/{some}")
        await ask("list", "GET", f"/v1/schedules?limit=100&prefix={some[:-3]}")
        await ask("create", "PUT", f"/v1/schedules/{own}", _schedule(number))
        await ask("edit", "PUT", f"/v1/schedules/{some}", _schedule(number))
        await ask("delete", "DELETE", f"/v1/schedules/{own}")
        await asyncio.sleep(0)
    connection.close()
    return {kind: (percentile(each, 0.5), percentile(each, 0.99)) for kind, each in times_ms.items()}


def _schedule(number: int) -> dict[str, object]:
    return {"cron": f"{number % 60} 0 1 1 *", "target": {"kind": "null"}}
