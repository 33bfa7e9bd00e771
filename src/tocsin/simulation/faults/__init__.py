"""What can go wrong, one function a kind. Each breaks something, waits, and mends it; a world in which none of them
is at work is healthy.

``processes``  killed, paused, wedged, restarted one after another
``ways``       messages that get lost, come late, overtake each other
``timepieces`` clocks that run away, jump and stop
``disks``      slow, damaged, lost and put back from a copy
``journals``   an engine that is restored from an old copy
``places``     receivers that fail, hang, and lie
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tocsin.simulation.faults import disks, journals, places, processes, timepieces, ways
from tocsin.simulation.history import Fault
from tocsin.simulation.world import BROKEN, World

FAULTS: dict[str, Callable[[World, dict[str, Any]], Awaitable[None]]] = {
    "crash": processes.crash,
    "power": processes.power,
    "pause": processes.pause,
    "pause before a call": processes.pause_before_a_call,
    "wedged loop": processes.wedged_loop,
    "blocked state": processes.blocked_state,
    "hanging disk": disks.hanging,
    "late presence": processes.late_presence,
    "rolling restart": processes.rolling_restart,
    "stop all": processes.stop_all,
    "step down": processes.step_down,
    "cut off": ways.cut_off,
    "cut one way": ways.cut_one_way,
    "bad weather": ways.bad_weather,
    "lost answers": ways.lost_answers,
    "late entries": ways.late_entries,
    "no room": ways.no_room,
    "step": timepieces.step,
    "far step": timepieces.far_step,
    "wrong start": timepieces.wrong_start,
    "stopped clock": timepieces.stopped,
    "drift": timepieces.drift,
    "slow disk": disks.slow,
    "lose one disk": disks.lose,
    "lose two disks": disks.lose,
    "lose all disks": disks.lose,
    "put back disk": disks.put_back,
    "damaged snapshot": disks.damaged_snapshot,
    "left behind": disks.left_behind,
    "lost state": disks.lost_state,
    "restored journal": journals.restored,
    "bad receivers": places.bad,
    "receivers down": places.down,
    "lies": places.lies,
}


async def break_something(world: World, kind: str, what: dict[str, Any]) -> None:
    """Until it is mended again."""
    await world.undisturbed.wait()
    world.troubles += 1
    broken: list[Fault] = []
    BROKEN.set(broken)
    await FAULTS[kind](world, what)
    for fault in broken:
        fault.until_ms = world.now_ms()
    world.troubles -= 1
    world.tell(f"mended: {kind}")
