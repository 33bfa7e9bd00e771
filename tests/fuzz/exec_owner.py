"""A process with a target for commands, told what to do line by line; it can be killed at any moment.

A line is ``{"id": 1, "do": "launch", "order": {...}}``, its answer ``{"id": 1, "outcome": {...} or null}``. The first
answer, with the id 0, tells that it is ready.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Literal

import msgspec

from tocsin.targets.contract import Order, Outcome
from tocsin.targets.exec.orders import ExecSettings
from tocsin.targets.exec.target import ExecTarget


class Line(msgspec.Struct):
    id: int
    do: Literal["launch", "watch", "lookup", "cancel"]
    order: Order


class Answer(msgspec.Struct):
    id: int
    outcome: Outcome | None


async def _carry_out(target: ExecTarget, line: Line) -> None:
    _answer(Answer(line.id, await getattr(target, line.do)(line.order)))


def _answer(answer: Answer) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()


async def main() -> None:
    settings = ExecSettings(grace_s=0.5, hand_over_s=float(sys.argv[2]))
    target = ExecTarget(Path(sys.argv[1]), settings)
    await target.start()
    reader = asyncio.StreamReader(limit=1 << 20)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    _answer(Answer(0, None))
    tasks = set()
    while text := await reader.readline():
        task = asyncio.create_task(_carry_out(target, msgspec.json.decode(text, type=Line)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await target.stop()


if __name__ == "__main__":
    asyncio.run(main())
