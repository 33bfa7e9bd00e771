"""Figures side by side, goals with how far they were reached, and all of it as JSON."""

from __future__ import annotations

import json
import math
import os
import platform
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

OURS = "Tocsin, embedded"
CLUSTER = "Tocsin, three etcd replicas"


@dataclass
class Figure:
    """One measured number. ``value`` is None where it could not be measured: the note says why."""

    measure: str
    who: str
    value: float | None
    unit: str
    size: int = 0
    less_is_better: bool = False
    is_limit: bool = False
    """What the machine could do at most: nothing is compared to it but the share of it that was reached."""
    note: str = ""
    more: dict[str, Any] = field(default_factory=dict)
    load: float = field(default_factory=lambda: round(os.getloadavg()[0], 1))
    """How busy the machine was at that moment: a figure from a busy one is worth less."""


@dataclass
class Goal:
    """What was wanted, and what was reached."""

    text: str
    reached: float | None
    wanted: float
    unit: str
    less_is_better: bool = False

    @property
    def ratio(self) -> float | None:
        """1 and more: it was reached."""
        if self.reached is None:
            return None
        given, wanted = (self.wanted, self.reached) if self.less_is_better else (self.reached, self.wanted)
        return math.inf if wanted == 0 else given / wanted

    @property
    def is_met(self) -> bool | None:
        return None if self.ratio is None else self.ratio >= 1


class Report:
    """Everything that one run measured. What is added is printed at once: a run takes minutes."""

    def __init__(self) -> None:
        self.figures: list[Figure] = []
        self.goals: list[Goal] = []
        self.notes: list[str] = []
        self.further: dict[str, Any] = {}
        self._began = time.monotonic()
        self._started_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())

    def add(self, measure: str, who: str, value: float | None, unit: str, **rest: Any) -> Figure:
        found = Figure(measure, who, value, unit, **rest)
        self.figures.append(found)
        self.say(f"{measure}: {who}: {_number(value, unit)}" + (f" ({found.note})" if found.note else ""))
        return found

    def goal(self, text: str, reached: float | None, wanted: float, unit: str, *, less: bool = False) -> None:
        self.goals.append(Goal(text, reached, wanted, unit, less))

    def note(self, text: str) -> None:
        self.notes.append(text)
        self.say(f"note: {text}")

    def say(self, text: str) -> None:
        """Progress."""
        print(f"  [{time.monotonic() - self._began:6.1f} s] {text}", flush=True)

    def value(self, measure: str, who: str) -> float | None:
        found = [figure.value for figure in self.figures if (figure.measure, figure.who) == (measure, who)]
        return found[-1] if found else None

    def best(self, measure: str, whose: tuple[str, ...]) -> float | None:
        """The best figure of those whose name begins so."""
        found = [
            figure.value
            for figure in self.figures
            if figure.measure == measure and figure.value is not None and figure.who.startswith(whose)
        ]
        return max(found, default=None)

    def text(self) -> str:
        """All tables, then the goals."""
        measures = list(dict.fromkeys(figure.measure for figure in self.figures))
        parts = [_table([f for f in self.figures if f.measure == measure]) for measure in measures]
        if busy := [figure.load for figure in self.figures]:
            parts.insert(
                0,
                f"Load of the machine meanwhile: {min(busy)} to {max(busy)} on {os.cpu_count()} processors.",
            )
        if self.goals:
            parts.append(_goals(self.goals))
        if self.notes:
            parts.append("\n".join(f"- {note}" for note in self.notes))
        return "\n\n".join(parts)

    def write(self, path: Path) -> None:
        goals = [{**asdict(goal), "ratio": goal.ratio, "met": goal.is_met} for goal in self.goals]
        found = {
            "started_at": self._started_at,
            "seconds": round(time.monotonic() - self._began, 1),
            "machine": machine(),
            "figures": [asdict(figure) for figure in self.figures],
            "goals": goals,
            "notes": self.notes,
            **self.further,
        }
        path.write_text(json.dumps(found, indent=2, default=str) + "\n")


def machine() -> dict[str, Any]:
    return {
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def _table(figures: list[Figure]) -> str:
    """Markdown, so that it can stand in a page as it is."""
    first = figures[0]
    base = next((f for f in figures if f.who == OURS), first)
    rows = [f"| {first.measure} | size | {first.unit} | ratio | |", "|---|--:|--:|--:|---|"]
    for figure in [base, *(each for each in figures if each is not base)]:
        cells = [
            figure.who,
            f"{figure.size:,}" if figure.size else "",
            _number(figure.value, ""),
            _ratio(figure, base),
            figure.note,
        ]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _ratio(figure: Figure, base: Figure) -> str:
    """How many times better Tocsin on one machine is (where it is in no row, the first one); of a limit, the share
    that it reached."""
    if figure is base or not figure.value or not base.value:
        return ""
    times = figure.value / base.value if figure.less_is_better else base.value / figure.value
    if figure.is_limit:
        return f"{times:.0%} of it"
    return f"{times:,.0f}x" if times >= 10 else f"{times:.2g}x"


def _goals(goals: list[Goal]) -> str:
    rows = ["| goal | wanted | reached | of it | |", "|---|--:|--:|--:|---|"]
    for goal in goals:
        sign = "<=" if goal.less_is_better else ">="
        told = {True: "met", False: "MISSED", None: "not measured"}[goal.is_met]
        share = "" if goal.ratio is None else f"{goal.ratio:.2f}"
        wanted = f"{sign} {_number(goal.wanted, goal.unit)}"
        rows.append(f"| {goal.text} | {wanted} | {_number(goal.reached, goal.unit)} | {share} | {told} |")
    return "\n".join(rows)


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}" if abs(value) >= 1 else f"{value:.2g}"
    return f"{text} {unit}".rstrip()
