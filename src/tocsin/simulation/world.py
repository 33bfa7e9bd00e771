"""One world: machines, what lies between them, who receives, and everything that happened."""

from __future__ import annotations

import asyncio
import contextvars
import shutil
from collections.abc import Callable
from pathlib import Path

from tocsin.decide.retention import Retention
from tocsin.simulation.chance import Chance
from tocsin.simulation.clocks import MachineClock
from tocsin.simulation.history import Fault, History
from tocsin.simulation.machine import Machine
from tocsin.simulation.neighbours import House
from tocsin.simulation.network import Network
from tocsin.simulation.quorum import Quorum
from tocsin.simulation.receivers import Receivers
from tocsin.simulation.replay import Start
from tocsin.simulation.trace import Trace
from tocsin.simulation.virtual import Process, VirtualLoop

BROKEN: contextvars.ContextVar[list[Fault]] = contextvars.ContextVar("broken")
"""What the present fault has broken and has yet to mend."""
DRIFT = 0.0005
"""By so much a healthy clock runs too fast or too slowly at the most."""
AHEAD_MS = 200.0
"""By so much healthy clocks are off."""


KEPT_EACH = (3, 20, 1_000_000)
"""Of each schedule so many launches are kept. Nothing is deleted for its age: the weather here includes clocks that are
years ahead."""


class World:
    """Everything there is. ``troubles`` counts what is broken at this moment: while it is not 0 there are no leaps."""

    def __init__(
        self,
        loop: VirtualLoop,
        folder: Path,
        seed: str,
        epoch_ms: float,
        replicas: int = 3,
        snapshot_interval_s: float = 3600.0,
        start: Start | None = None,
    ) -> None:
        self.loop = loop
        self.epoch_ms = epoch_ms
        self.chance = Chance(seed)
        self.history = History(began_ms=epoch_ms, replicas=replicas)
        self.trace = Trace(self.now_ms, folder)
        self.network = Network(loop, self.chance.of("network"))
        names = [chr(ord("a") + number) for number in range(replicas)]
        self.quorum = Quorum(loop, names, self.now_ms, self.history)
        self.receivers = Receivers(loop, self.chance, self.history, self.now_ms, self.tell)
        self.snapshot_interval_s = snapshot_interval_s
        each = self.chance.of("retention").choice(KEPT_EACH) if start is None else KEPT_EACH[-1]
        self.retention = Retention(age_ms=400 * 86_400_000, each=each, total=100_000_000)
        self.history.kept_each = each
        self.troubles = 0
        self.undisturbed = asyncio.Event()
        """Set, unless a fault must not be mixed with others: these wait."""
        self.undisturbed.set()
        self.busy = 0
        """Clients that wait for an answer."""
        self.leapt_s = 0.0
        self.swept_at = 0
        self.before_a_call: Callable[[Process], None] | None = None
        self.machines: dict[str, Machine] = {}
        clocks = self.chance.of("clocks")
        for name in names:
            clock = MachineClock(
                loop,
                epoch_ms,
                1 + clocks.uniform(-DRIFT, DRIFT),
                clocks.uniform(-AHEAD_MS, AHEAD_MS),
                clocks.uniform(100, 1e6),
            )
            self.machines[name] = Machine(name, folder, self, clock)
        self.start = start
        self.begins_after = 0 if start is None else start.end.seq
        if start is not None:
            self.quorum.go_on_from(start.birth, start.trimmed, start.records, start.end)
            for machine in self.machines.values():
                machine.data.mkdir(parents=True)
                shutil.copyfile(start.state, machine.data / "state.db")

    def now_ms(self) -> float:
        """The true time."""
        return self.epoch_ms + self.loop.time() * 1000

    def tell(self, text: str) -> None:
        self.trace.tell(text)

    def houses(self) -> dict[str, House]:
        return dict(self.machines)

    def worst_moment(self, process: Process) -> None:
        if self.before_a_call is not None:
            self.before_a_call(process)

    def fault(self, kind: str, text: str, who: str) -> None:
        fault = Fault(self.now_ms(), None, kind, text, who)
        self.history.faults.append(fault)
        BROKEN.get().append(fault)
        self.tell(f"FAULT {kind}: {text}")

    def leader(self) -> Machine | None:
        """Who leads, as they see it themselves."""
        for machine in self.machines.values():
            replica = machine.replica
            if replica is not None and replica._parts is not None and replica.is_leader:
                return machine
        return None
