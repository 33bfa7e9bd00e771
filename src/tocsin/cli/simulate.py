"""``sim``: whole replicas in a world that is not real, under every fault there is."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.command import Json
from tocsin.cli.printing import REFUSED, print_json, say
from tocsin.errors import InvalidInput

if TYPE_CHECKING:
    from tocsin.simulation.plan import Plan
    from tocsin.simulation.replay import Start
    from tocsin.simulation.run import Outcome

SHRINK_S = 60
SEEDS_MAX = 1_000_000


def sim(
    seed: Annotated[
        str,
        typer.Option(
            "--seed", metavar="N", help="One seed or several (7, 1-20, 3,8,40-44). Without it: a fresh one."
        ),
    ] = "",
    hours: Annotated[
        float, typer.Option("--hours", min=0.1, max=100_000, help="So many simulated hours a seed.")
    ] = 24.0,
    replicas: Annotated[int, typer.Option("--replicas", min=1, max=7, help="So many replicas.")] = 3,
    faults: Annotated[
        str, typer.Option("--faults", metavar="LIST", help="Which kinds of faults, with ','; all or none.")
    ] = "all",
    lasting: Annotated[
        str, typer.Option("--for", metavar="TIME", help="Fresh seeds, one after another, for so long (10m).")
    ] = "",
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=1, max=256, help="So many seeds at the same time.")
    ] = 1,
    only: Annotated[
        str, typer.Option("--only", metavar="NUMBERS", help="Only these actions of the plan, with ','.")
    ] = "",
    until: Annotated[
        float | None, typer.Option("--until", metavar="HOURS", help="End the plan here.", min=0.001)
    ] = None,
    trace: Annotated[
        Path | None, typer.Option("--trace", metavar="FILE", help="Write all that happened, line by line.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Write the plan (the shortest that fails).")
    ] = None,
    plan_file: Annotated[
        Path | None, typer.Option("--plan", metavar="FILE", help="Play a plan that --save has written.")
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option(
            "--replay", metavar="DIR", help="Go on from a copy of a real service's data, under faults."
        ),
    ] = None,
    shrinks: Annotated[
        bool, typer.Option("--shrink/--no-shrink", help="Look for the shortest plan that fails.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Prove it: real replicas on a simulated network, journal, disks, clocks and targets, under faults.

    One seed decides everything: the same seed gives the same trace, byte for byte. What happened is judged by
    checkers, each a claim: nothing twice, nothing lost, nothing early, and so on. When one is broken, the shortest
    plan that shows it is looked for, with the command that replays it. The exit status is 1 then.

    Faults: crash, pause, wedge, partition, acks, clock, disk, snapshot, journal, target, upgrade; edits and herd
    are what users do.

    Example: tocsin sim --seed 1-20 --hours 4

    Example: tocsin sim --for 10m --jobs 2

    Example: tocsin sim --replay /backup/copy-of-data --hours 48
    """
    from tocsin.cron import parse_duration
    from tocsin.simulation.campaign import campaign, fresh_seeds
    from tocsin.simulation.plan import read_plan
    from tocsin.simulation.replay import load

    families = _families(faults)
    for_s = float(parse_duration(lasting, field="--for")) if lasting else None
    if replay is not None and plan_file is not None:
        raise InvalidInput(
            "a plan says itself what it goes on from",
            field="--replay",
            value=str(replay),
            hint="leave --replay or --plan away",
        )
    for path, field in ((trace, "--trace"), (save, "--save")):
        _check_writable(path, field)
    with _ended_as_by_an_interrupt():
        start = None if replay is None else load(replay, say)
        if start is not None:
            say(f"going on from {start}")
        if plan_file is not None:
            plans: Iterator[Plan] = iter([read_plan(plan_file)])
        else:
            seeds = _seeds(seed) if seed else fresh_seeds() if lasting else [next(fresh_seeds())]
            plans = (
                _cut(_plan(number, hours, replicas, families, replay, start), only, until) for number in seeds
            )
        told = _Telling(trace, save, shrinks, as_json)
        with closing(campaign(plans, jobs, for_s, told.progress if jobs == 1 else None)) as outcomes:
            for outcome in outcomes:
                told.tell(outcome)
        told.end()
    if told.failed:
        raise typer.Exit(REFUSED)


@contextmanager
def _ended_as_by_an_interrupt() -> Iterator[None]:
    """SIGTERM does what Ctrl-C does: what was begun is let go of."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGTERM, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


class _Telling:
    """Says what became of each seed, and of all of them."""

    def __init__(self, trace: Path | None, save: Path | None, shrinks: bool, as_json: bool) -> None:
        self._trace = trace
        self._save = save
        self._shrinks = shrinks
        self._as_json = as_json
        self._shows_progress = sys.stderr.isatty() and not as_json
        self._seeds = 0
        self._hours = self._seconds = 0.0
        self.failed: list[int] = []

    def progress(self, hours: float) -> None:
        if self._shows_progress:
            print(f"\r{hours:,.0f} h ...", end="\r", file=sys.stderr, flush=True)

    def tell(self, outcome: Outcome) -> None:
        from tocsin.simulation import report

        self._seeds += 1
        self._hours += outcome.hours
        self._seconds += outcome.seconds
        reduced = None
        if not self._as_json:
            print(report.headline(outcome), flush=True)
        if not outcome.is_well:
            self.failed.append(outcome.plan.seed)
            reduced = self._failure(outcome)
        if self._as_json:
            print_json(report.as_json(outcome, reduced))
        kept = reduced or outcome
        if self._trace is not None:
            self._trace.write_text("".join(f"{line}\n" for line in kept.trace.lines))
        if self._save is not None:
            from tocsin.simulation.plan import write_plan

            write_plan(kept.plan, self._save)

    def _failure(self, outcome: Outcome) -> Outcome:
        from tocsin.simulation import report
        from tocsin.simulation.shrink import shrink

        reduced = outcome
        if self._shrinks:
            say(f"looking for the shortest plan that shows it, up to {SHRINK_S} s ...")
            reduced = shrink(outcome, SHRINK_S, say)
        if not self._as_json:
            print("\n".join(report.findings(reduced)))
            print(
                f"\nWhat happened, with {len(reduced.plan.actions)} of {len(outcome.plan.actions)} actions:"
            )
            print("\n".join(report.story(reduced)))
            print(f"\nReplay it: {report.replay_command(reduced.plan)}\n", flush=True)
        return reduced

    def end(self) -> None:
        if self._seeds > 1 and not self._as_json:
            failed = (
                f"{len(self.failed)} FAILED: {', '.join(map(str, self.failed))}" if self.failed else "all ok"
            )
            print(
                f"{self._seeds} seeds, {self._hours:,.0f} simulated hours, {self._seconds:.0f} s of work: {failed}"
            )


def _check_writable(path: Path | None, field: str) -> None:
    """Now, and not when the work is done."""
    if path is None:
        return
    try:
        path.open("a").close()
    except OSError as wrong:
        why = (wrong.strerror or str(wrong)).lower()
        raise InvalidInput(f"{path} cannot be written: {why}", field=field, value=str(path)) from None


def _families(text: str) -> Sequence[str]:
    from tocsin.simulation.plan import FAMILIES

    if text == "all":
        return FAMILIES
    wanted = [] if text == "none" else text.split(",")
    for family in wanted:
        if family not in FAMILIES:
            raise InvalidInput(
                f"{family!r} is no kind of fault",
                field="--faults",
                value=text,
                allowed=f"all, none, or some of {', '.join(FAMILIES)}",
            )
    return tuple(wanted)


def _seeds(text: str) -> Sequence[int]:
    found: list[int] = []
    for part in text.split(","):
        shape = re.fullmatch(r"([0-9]{1,12})(?:-([0-9]{1,12}))?", part.strip())
        first, last = (0, -1) if shape is None else (int(shape[1]), int(shape[2] or shape[1]))
        if not 0 <= last - first < SEEDS_MAX:
            raise InvalidInput(
                f"{part!r} is no seed", field="--seed", value=text, allowed="7, 1-20 or 3,8,40-44"
            )
        found += range(first, last + 1)
    return found


def _plan(
    seed: int, hours: float, replicas: int, families: Sequence[str], data: Path | None, start: Start | None
) -> Plan:
    from tocsin.simulation.plan import make_plan
    from tocsin.simulation.replay import SETTLED_S

    if data is None or start is None:
        return make_plan(seed, hours, replicas, families)
    began_s = start.time_ms // 1000 + SETTLED_S
    return make_plan(seed, hours, replicas, families, str(data.absolute()), began_s)


def _cut(plan: Plan, only: str, until: float | None) -> Plan:
    """A part of it."""
    if until is not None:
        plan = plan.upto(until)
    if not only:
        return plan
    try:
        return plan.only([] if only == "none" else [int(number) for number in only.split(",")])
    except ValueError:
        raise InvalidInput(
            f"{only!r} are no numbers of actions", field="--only", value=only, allowed="3,17,21"
        ) from None
