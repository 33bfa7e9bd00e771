"""People and programs that define schedules: they ask some replica, and remember what they were told."""

from __future__ import annotations

import base64
import random
from typing import Any

from tocsin.errors import NoLeader, TocsinError, Uncertain
from tocsin.model.command import (
    Backfill,
    CancelLaunch,
    Command,
    DeleteSchedule,
    LaunchNow,
    PutSchedule,
    ResolveLaunch,
    SwitchSchedule,
)
from tocsin.model.schedule import convert
from tocsin.simulation.history import Asked
from tocsin.simulation.network import Refusal, Silence
from tocsin.simulation.world import World

PATIENCE_S = 40.0


async def ask(world: World, kind: str, what: dict[str, Any]) -> None:
    """Carry out one planned wish."""
    if kind == "herd":
        for number in range(what["count"]):
            schedule = {
                "id": f"{what['prefix']}-{number}",
                "cron": f"@at {what['at']}",
                "target": {"kind": "null"},
                **_payload(number, what.get("payload_bytes", 0)),
            }
            world.loop.spawn(None, _command(world, PutSchedule(convert(schedule)), what["via"]), "herd")
        return
    command = _command_of(world, kind, what)
    if command is not None:
        await _command(world, command, what["via"])


def _payload(number: int, size: int) -> dict[str, str]:
    """One that cannot be compressed."""
    if not size:
        return {}
    return {"payload": base64.b85encode(random.Random(number).randbytes(size * 4 // 5)).decode()}


def _command_of(world: World, kind: str, what: dict[str, Any]) -> Command | None:
    match kind:
        case "put":
            return PutSchedule(convert(what["schedule"]))
        case "switch on" | "switch off":
            return SwitchSchedule(what["id"], enabled=kind == "switch on")
        case "delete":
            return DeleteSchedule(what["id"])
        case "run":
            return LaunchNow(what["id"])
        case "backfill":
            return Backfill(what["id"], what["from_s"], what["until_s"])
        case "cancel":
            name = _last_name(world, what["id"])
            return None if name is None else CancelLaunch(name)
        case _:
            name = _last_name(world, what["id"])
            return None if name is None else ResolveLaunch(name, "relaunch")


def _last_name(world: World, id: str) -> str | None:
    """The last launch of it that somebody has heard of."""
    return next((call.name for call in reversed(world.history.calls) if call.schedule == id), None)


async def _command(world: World, command: Command, via: float) -> None:
    names = list(world.machines)
    machine = world.machines[names[int(via * len(names))]]
    asked = Asked(world.now_ms(), machine.name, command)
    world.history.asked.append(asked)
    world.tell(f"a client asks {machine.name}: {type(command).__name__} {command.about}")

    async def propose() -> Any:
        if machine.replica is None:
            raise NoLeader("it is starting")
        return await machine.replica.propose(command)

    world.busy += 1
    try:
        await world.network.ask("client", machine.name, lambda: machine.process, propose, PATIENCE_S)
        asked.outcome = "done"
    except (NoLeader, Refusal) as wrong:
        asked.outcome, asked.told = "nobody", str(wrong)
    except (Uncertain, Silence) as wrong:
        asked.outcome, asked.told = "uncertain", str(wrong)
    except TocsinError as wrong:
        asked.outcome, asked.told = "uncertain" if wrong.retryable else "refused", str(wrong)
    finally:
        world.busy -= 1
    asked.answered_ms = world.now_ms()
    world.tell(f"a client is answered: {type(command).__name__} {command.about} {asked.outcome} {asked.told}")
