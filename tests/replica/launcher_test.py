"""Outcomes on their way into the journal: never too many at once, never lost."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tocsin.clock import SystemClock
from tocsin.model.target import NullTarget as NullSpec
from tocsin.replica.flight import Flight
from tocsin.replica.launcher import Launcher
from tocsin.replica.office import SoleOffice
from tocsin.replica.reports import ENDS_AT_ONCE, REASON_BYTES_AT_ONCE, Reports
from tocsin.targets.contract import SUCCEEDED, TOO_LATE, Order, Outcome, Verdict
from tocsin.targets.null import NullTarget


def _launcher(tmp_path: Path) -> Launcher:
    return Launcher({"null": NullTarget()}, SoleOffice(), SystemClock(), lambda: None)


def _flight(number: int) -> Flight:
    order = Order(f"s-{number}", "s", number, 1, 1, 0, NullSpec())
    return Flight(number, order, spec=None)


def _taken(launcher: Launcher) -> list[list[int]]:
    """All portions, by number."""
    portions = []
    while launcher.pending:
        portions.append([flight.lid for flight, _ in launcher.take().ended])
    return portions


def a_herd_of_outcomes_is_written_in_portions_and_in_order(tmp_path: Path) -> None:
    launcher = _launcher(tmp_path)
    for number in range(2 * ENDS_AT_ONCE + 1):
        launcher.report(_flight(number), SUCCEEDED)
    portions = _taken(launcher)
    assert [len(portion) for portion in portions] == [ENDS_AT_ONCE, ENDS_AT_ONCE, 1]
    assert list(itertools.chain(*portions)) == list(range(2 * ENDS_AT_ONCE + 1))


def long_reasons_do_not_make_an_entry_too_large(tmp_path: Path) -> None:
    launcher = _launcher(tmp_path)
    for number in range(2_000):
        launcher.report(_flight(number), Outcome(Verdict.FAILED, reason="x" * 500))
    portions = _taken(launcher)
    assert max(map(len, portions)) * 500 <= REASON_BYTES_AT_ONCE
    assert list(itertools.chain(*portions)) == list(range(2_000))


def what_could_not_be_written_comes_again_before_what_is_newer(tmp_path: Path) -> None:
    launcher = _launcher(tmp_path)
    launcher.report(_flight(1), SUCCEEDED)
    reports = launcher.take()
    launcher.report(_flight(2), SUCCEEDED)
    launcher.give_back(reports)
    assert _taken(launcher) == [[1, 2]]


def without_the_office_nothing_is_called(tmp_path: Path) -> None:
    async def run() -> Reports:
        launcher = _launcher(tmp_path)
        launcher.hand_over([_flight(1)])
        await launcher.drain(grace_s=10)
        return launcher.take()

    reports = asyncio.run(run())
    assert reports.ended == []
    assert [flight.lid for flight in reports.withdrawn] == [1]


HANDED_MS = 1_700_000_000_000


class _Stopped(SystemClock):
    def wall_ms(self) -> int:
        return HANDED_MS


class _Sending(NullTarget):
    """Tells of each event of a batch but the first that it was sent a second after the one before. The last one was
    not sent."""

    async def launch_batch(self, orders: Sequence[Order]) -> Sequence[Outcome]:
        later = [
            msgspec.structs.replace(SUCCEEDED, called_ms=HANDED_MS + 1_000 * number)
            for number in range(1, len(orders) - 1)
        ]
        return [SUCCEEDED, *later, TOO_LATE]


def the_events_of_a_batch_are_called_when_each_of_them_was_sent() -> None:
    async def run() -> Reports:
        office = SoleOffice()
        office.renewed(0.0)
        launcher = Launcher({"null": _Sending()}, office, _Stopped(), lambda: None)
        launcher.hand_over([_flight(number) for number in range(5)])
        await launcher.settled()
        return launcher.take()

    reports = asyncio.run(run())
    calls = [flight.called_ms for flight, _ in reports.ended]
    assert calls == [HANDED_MS, HANDED_MS + 1_000, HANDED_MS + 2_000, HANDED_MS + 3_000]
    assert reports.is_plain
    assert [(flight.lid, flight.called_ms) for flight in reports.withdrawn] == [(4, None)]
