"""What is put on a service: schedules as lines, imports, single creates, and questions while it is busy."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import uvloop

from bench.measure import percentile
from bench.wire import Connection
from tocsin.client import Client
from tocsin.model.lines import Summary

PART_LINES = 2_000
"""Lines that are sent in one piece: about what a reader of files has at hand."""
EDITED = 100
"""Schedules that are read and edited while a service is busy."""
Line = Callable[[int], str]


def once(prefix: str, due_s: int, target: str = '{"kind":"null"}', payload: str = "") -> Line:
    """Schedules that are due once, all at the same second."""
    tail = f'"cron":"@at {due_s}","target":{target}{_payload(payload)}}}'
    return lambda number: f'{{"id":"{prefix}/{number:08d}",{tail}'


def daily(prefix: str, due_s: int, target: str = '{"kind":"null"}', payload: str = "") -> Line:
    """The same, but due again every day: for each the next instant is found as well."""
    at = time.gmtime(due_s)
    cron = f"{at.tm_sec} {at.tm_min} {at.tm_hour} * * *"
    tail = f'"cron":"{cron}","target":{target}{_payload(payload)}}}'
    return lambda number: f'{{"id":"{prefix}/{number:08d}",{tail}'


def moments(prefix: str) -> Line:
    """Schedules that are due once, each at a second of its own, from tomorrow on: reminders, renewals."""
    first_s = int(time.time()) + 86_400
    tail = '"target":{"kind":"null"}}'
    return lambda number: f'{{"id":"{prefix}/{number:08d}","cron":"@at {first_s + number}",{tail}'


def reminders(prefix: str, payload: str = "") -> Line:
    """Schedules that are only held: due once, two months from now on, in the order in which they were made."""
    first_s = int(time.time()) + 60 * 86_400
    tail = f'"target":{{"kind":"null"}}{_payload(payload)}}}'
    return lambda number: f'{{"id":"{prefix}/{number:08d}","cron":"@at {first_s + number // 20}",{tail}'


def held(prefix: str, payload: str = "") -> Line:
    """Schedules that are only held: due once a year, each at a minute of its own, none within the next two months."""
    month = time.gmtime().tm_mon - 1
    tail = f'"target":{{"kind":"null"}}{_payload(payload)}}}'

    def line(number: int) -> str:
        minute, hour = number % 60, number // 60 % 24
        day, months = number // 1440 % 28 + 1, (month + 2 + number // 40_320 % 8) % 12 + 1
        return f'{{"id":"{prefix}/{number:08d}","cron":"{minute} {hour} {day} {months} *",{tail}'

    return line


def _payload(payload: str) -> str:
    return f',"payload":{payload}' if payload else ""


def parts(line: Line, first: int, count: int) -> Iterator[bytes]:
    numbers = iter(range(first, first + count))
    while some := list(itertools.islice(numbers, PART_LINES)):
        yield ("\n".join(map(line, some)) + "\n").encode()


def import_over_http(url: str, line: Line, count: int, first: int = 0) -> float:
    """Seconds for one import of so many lines. Raises unless every line became a schedule."""
    return uvloop.run(importing(url, line, count, first))


async def importing(url: str, line: Line, count: int, first: int = 0) -> float:
    async def body() -> AsyncIterator[bytes]:
        for part in parts(line, first, count):
            yield part

    began = time.perf_counter()
    summary: Summary | None = None
    async with Client(url) as client:
        async for answer in client.import_lines(body()):
            if isinstance(answer, Summary):
                summary = answer
    seconds = time.perf_counter() - began
    if summary is None or summary.counts.get("created") != count:
        raise RuntimeError(f"of {count} lines the service says {summary}")
    return seconds


def import_by_command(url: str, path: Path, count: int) -> float:
    """Seconds for ``tocsin import FILE``, its start-up among them."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "tocsin", "import", str(path), "--json", "--url", url],
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.perf_counter() - began
    if done.returncode or json.loads(done.stdout)["counts"].get("created") != count:
        raise RuntimeError(f"tocsin import: {done.stdout[-500:]}{done.stderr[-500:]}")
    return seconds


def create_one_by_one(url: str, line: Line, count: int, connections: int) -> float:
    """Seconds for so many creates, each a request of its own, over so many connections."""

    async def whole() -> float:
        numbers = iter(range(count))

        async def worker() -> None:
            connection = Connection(url)
            for number in numbers:
                answer = await connection.call("POST", "/v1/schedules", line(number).encode())
                if answer.status != 201:
                    raise RuntimeError(f"create: {answer.status} {answer.body[:300]!r}")
            connection.close()

        began = time.perf_counter()
        await asyncio.gather(*(worker() for _ in range(connections)))
        return time.perf_counter() - began

    return uvloop.run(whole())


class Asking:
    """What people and programs ask all the time, at a steady pace, whether or not the last answer has come: whoever
    waits for it would never notice how many questions a stall would have met."""

    KINDS = ("get", "list", "edit", "create", "launches", "status")

    def __init__(self, url: str, per_second: float = 50) -> None:
        self._url = url
        self._per_second = per_second
        self._idle: list[Connection] = []
        self._under_way: set[asyncio.Task[None]] = set()
        self.times_s: dict[str, list[float]] = defaultdict(list)
        self.wrong: list[str] = []

    async def prepare(self) -> None:
        for number in range(EDITED):
            status = await self._once("PUT", f"/v1/schedules/asked/{number}", _asked("0 0 1 1 *"))
            if status >= 400:
                raise RuntimeError(f"a schedule to be asked for was refused: {status}")

    async def until(self, over: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        for number in itertools.count():
            at = began + number / self._per_second
            await asyncio.sleep(max(0.0, at - loop.time()))
            if over.is_set():
                break
            task = asyncio.create_task(self._ask(number, at))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
        await asyncio.gather(*self._under_way)

    async def _ask(self, number: int, at: float) -> None:
        kind = self.KINDS[number % len(self.KINDS)]
        method, path, body = _question(kind, number)
        status = await self._once(method, path, body)
        self.times_s[kind].append(asyncio.get_running_loop().time() - at)
        if status >= 400:
            self.wrong.append(f"{kind}: {status}")

    async def _once(self, method: str, path: str, body: bytes) -> int:
        while True:
            is_fresh = not self._idle
            connection = Connection(self._url) if is_fresh else self._idle.pop()
            try:
                answer = await connection.call(method, path, body)
            except (OSError, asyncio.IncompleteReadError):
                connection.close()
                if is_fresh:
                    return 599
                continue  # the service closes what was idle for long: that is no answer
            self._idle.append(connection)
            return answer.status

    def p99_ms(self) -> float:
        return percentile([took for each in self.times_s.values() for took in each], 0.99) * 1000

    def told(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            kind: {
                "count": len(times),
                **{
                    f"p{share}_ms": round(percentile(times, share / 100) * 1000, 1) for share in (50, 99, 100)
                },
            }
            for kind, times in sorted(self.times_s.items())
        }
        return {**found, "wrong": self.wrong[:5]} if self.wrong else found


def _asked(cron: str) -> bytes:
    return json.dumps({"cron": cron, "target": {"kind": "null"}}).encode()


def _question(kind: str, number: int) -> tuple[str, str, bytes]:
    match kind:
        case "get":
            return "GET", f"/v1/schedules/asked/{number % EDITED}", b""
        case "list":
            return "GET", "/v1/schedules?limit=100", b""
        case "edit":
            # Not all of the same one: those would wait for each other.
            return "PUT", f"/v1/schedules/asked/{number % EDITED}", _asked(f"{number % 59 + 1} 0 1 1 *")
        case "create":
            return "PUT", f"/v1/schedules/while/{number}", _asked("0 0 1 1 *")
        case "launches":
            return "GET", "/v1/launches?limit=100", b""
        case _:
            return "GET", "/v1/status", b""
