"""Commands under an owner that is killed or has no descriptors, and helpers that freeze, at random: a launcher in
small, with real processes.

Each launch has one attempt. It may be ordered again only after it is certain that it was not begun, as a leader does
it: after a look-up that finds nothing, after a cancellation on its way, after an order that was too late.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import resource
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Literal

import msgspec
from tests.fuzz.exec_owner import Answer, Line
from tests.targets.exec_support import shell

from tocsin.clock import SystemClock
from tocsin.targets.contract import Order, Outcome, Verdict

LAUNCHES = 4
ORDERS_MAX = 60
"""Of one launch: more is a loop without an end."""
_PATIENCE_S = 30.0
_DESCRIPTORS = 512

State = Literal["unordered", "ordered", "running", "over", "doubted"]


class Launch:
    """A launch, with the facts that a journal would hold of it."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.state: State = "unordered"
        self.is_wanted = False
        self.is_cancelled = False
        self.outcome: Outcome | None = None
        self.orders = 0


class World:
    """One exec directory, and all that happens to it."""

    def __init__(self, seed: str, place: Path) -> None:
        self._chance = random.Random(seed)
        self._place = place / "exec"
        self._effects = place / "effects"
        self._hand_over_s = self._chance.choice((0.6, 4.0))
        self._owner: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._waiting: dict[int, tuple[Launch, str]] = {}
        self._number = 0
        self._is_ready = False
        self._moved = asyncio.Event()
        now_ms = (
            SystemClock().wall_ms() + 60_000
        )  # later than the first start, which trusts no missing record
        self.launches = [
            Launch(
                msgspec.structs.replace(
                    shell(f"echo {number} >> {self._effects}{self._rest()}", name=f"suite/{number}-1"),
                    generated_at_ms=now_ms,
                )
            )
            for number in range(LAUNCHES)
        ]

    def _rest(self) -> str:
        """How a command goes on after what counts."""
        return self._chance.choice(("", "; sleep 0.3", "; sleep 1"))

    async def play(self, turns: int) -> None:
        await self._start()
        try:
            await self._kill()
            await self._start()
            for _ in range(turns):
                await self._turn()
                self.check()
            await self._settle()
        finally:
            self._thaw()
            await self._kill()

    def check(self) -> None:
        begun = Counter(self._effects.read_text().split()) if self._effects.exists() else Counter()
        for number, launch in enumerate(self.launches):
            count = begun[str(number)]
            assert count <= 1, f"launch {number} was begun {count} times"
            assert launch.orders <= ORDERS_MAX, (
                f"launch {number} is ordered again and again: {launch.outcome}"
            )
            if launch.state == "unordered":
                assert count == 0, f"launch {number} was begun, and it is certain that it was not"
            if launch.outcome is not None and launch.outcome.verdict is Verdict.CANCELLED:
                assert launch.is_cancelled, f"launch {number} was cancelled, and nobody asked for that"
            if launch.state == "over" and launch.outcome is not None:
                expected = int(launch.outcome.verdict is Verdict.SUCCEEDED)
                assert launch.outcome.verdict is Verdict.CANCELLED or count == expected, (
                    f"launch {number}: {launch.outcome}, begun {count} times"
                )

    async def _turn(self) -> None:
        match self._chance.choices(
            ("want", "cancel", "freeze", "thaw", "kill", "starve", "feed", "wait"),
            weights=(6, 5, 4, 3, 1, 2, 2, 3),
        )[0]:
            case "want":  # a schedule, or a backfill
                launch = self._chance.choice(self.launches)
                if launch.state == "unordered":
                    launch.is_wanted, launch.is_cancelled = True, False
                    await self._order(launch)
            case "cancel":
                launch = self._chance.choice(self.launches)
                if launch.state in ("ordered", "running"):
                    launch.is_cancelled = True
                    await self._tell("cancel", launch)
            case "freeze":
                if helpers := self._helpers():  # the nursery is the oldest
                    _signal(self._chance.choice((helpers[0], *helpers)), signal.SIGSTOP)
            case "thaw":
                self._thaw()
            case "kill":
                await self._lets_go()
                await self._kill()
                await self._start()
            case "starve":
                self._starve(self._chance.choice((0, 1, 2, 3)))
            case "feed":
                self._feed()
            case _:
                await asyncio.sleep(self._chance.choice((0, 0.01, 0.05, 0.2, 0.8)))

    async def _settle(self) -> None:
        """Everything goes on, and what is wanted comes to an end."""
        self._thaw()
        self._feed()
        async with asyncio.timeout(_PATIENCE_S):
            for launch in self.launches:
                if launch.state == "unordered":
                    launch.is_wanted, launch.is_cancelled = True, False
                    await self._order(launch)
            while any(self._is_open(launch) for launch in self.launches):
                self._moved.clear()
                await self._moved.wait()
                self.check()
        self.check()
        await self._lets_go()

    async def _lets_go(self) -> None:
        """The owner keeps no descriptor of a process that has ended."""
        self._feed()
        async with asyncio.timeout(_PATIENCE_S):
            while self._of_the_dead():  # noqa: ASYNC110  # why: /proc of another process sends no events
                await asyncio.sleep(0.05)

    def _of_the_dead(self) -> list[int]:
        assert self._owner is not None
        found = []
        for number, link in self._descriptors().items():
            with contextlib.suppress(FileNotFoundError):
                is_dead = "Pid:\t-1" in Path(f"/proc/{self._owner.pid}/fdinfo/{number}").read_text()
                if "pidfd" in link and is_dead:
                    found.append(number)
        return found

    def _descriptors(self) -> dict[int, str]:
        assert self._owner is not None
        found = {}
        for name in os.listdir(f"/proc/{self._owner.pid}/fd"):
            try:
                found[int(name)] = os.readlink(f"/proc/{self._owner.pid}/fd/{name}")
            except FileNotFoundError:
                continue
        return found

    def _starve(self, left: int) -> None:
        """The owner can open that many more descriptors."""
        assert self._owner is not None
        if not self._is_ready:
            return
        most = max(self._descriptors()) + 1 + left
        resource.prlimit(self._owner.pid, resource.RLIMIT_NOFILE, (most, _DESCRIPTORS))

    def _feed(self) -> None:
        assert self._owner is not None
        resource.prlimit(self._owner.pid, resource.RLIMIT_NOFILE, (_DESCRIPTORS, _DESCRIPTORS))

    def _is_open(self, launch: Launch) -> bool:
        return launch.state in ("ordered", "running")

    # The owner

    async def _start(self) -> None:
        self._is_ready = False
        self._owner = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.fuzz.exec_owner",
            str(self._place),
            str(self._hand_over_s),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        self._reading = asyncio.create_task(self._read(self._owner))
        for launch in self.launches:
            if self._is_open(launch):
                await self._tell("lookup", launch)

    async def _kill(self) -> None:
        if self._owner is not None:
            self._owner.kill()
            await self._owner.wait()
        if self._reading is not None:
            await self._reading
        self._waiting.clear()

    async def _order(self, launch: Launch) -> None:
        launch.state, launch.orders = "ordered", launch.orders + 1
        await self._tell("launch", launch)

    async def _tell(self, do: Literal["launch", "watch", "lookup", "cancel"], launch: Launch) -> None:
        assert self._owner is not None
        assert self._owner.stdin is not None
        self._number += 1
        self._waiting[self._number] = (launch, do)
        self._owner.stdin.write(msgspec.json.encode(Line(self._number, do, launch.order)) + b"\n")
        await self._owner.stdin.drain()

    async def _read(self, owner: asyncio.subprocess.Process) -> None:
        assert owner.stdout is not None
        while text := await owner.stdout.readline():
            answer = msgspec.json.decode(text, type=Answer)
            if not answer.id:
                self._is_ready = True
                continue
            launch, did = self._waiting.pop(answer.id)
            if owner.returncode is None:
                await self._told(launch, did, answer.outcome)
            self._moved.set()

    async def _told(self, launch: Launch, did: str, outcome: Outcome | None) -> None:
        if did == "cancel":
            return
        if outcome is None or outcome.is_too_late:  # certain: it was not begun
            await self._again(launch)
        elif outcome.verdict is Verdict.ACCEPTED:
            launch.state = "running"
            await self._tell("watch", launch)
            if launch.is_cancelled:
                await self._tell("cancel", launch)
        elif launch.is_cancelled and (outcome.is_uncalled or outcome.verdict is Verdict.NOT_STARTED):
            launch.state = "unordered"
        else:
            launch.state = "doubted" if outcome.verdict is Verdict.UNKNOWN else "over"
            launch.outcome = outcome

    async def _again(self, launch: Launch) -> None:
        if launch.is_cancelled:
            launch.state = "unordered"
        else:
            await self._order(launch)

    # The helpers

    def _helpers(self) -> list[int]:
        """Nurseries and keepers, also those of owners that were killed: each writes its complaints to one file."""
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    log = os.readlink(f"/proc/{name}/fd/2")
                except OSError:
                    continue
                if log == str(self._place / ".nursery.log"):
                    found.append(int(name))
        return sorted(found)

    def _thaw(self) -> None:
        for helper in self._helpers():
            _signal(helper, signal.SIGCONT)


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
