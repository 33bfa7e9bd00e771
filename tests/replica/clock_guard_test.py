"""The wall clock is believed as long as it goes on evenly."""

from __future__ import annotations

from pathlib import Path

import pytest

from tocsin.clock import SystemClock
from tocsin.replica.clock_guard import FOLLOWED_EVERY_S, ClockGuard

DAY_MS = 86_400_000
START_MS = 1_700_000_000_000


class _Clock(SystemClock):
    """Both clocks, set by hand."""

    def __init__(self) -> None:
        self.off_ms = 0
        self.passed_s = 0.0
        self.booted_ms = START_MS

    def wall_ms(self) -> int:
        return self.booted_ms + self.off_ms + round(self.passed_s * 1000)

    def elapsed_s(self) -> float:
        return 1_000.0 + self.passed_s


def a_step_is_seen_at_once_and_time_goes_on_as_before() -> None:
    clock = _Clock()
    guard = ClockGuard(clock)
    guard.begin(0)
    clock.off_ms = 40 * DAY_MS
    clock.passed_s = 3.0
    assert guard.wall_ms() == START_MS + 3_000
    assert guard.step_ms() == 40 * DAY_MS
    assert guard.state == "stepped"
    clock.off_ms = 0
    assert guard.is_believed
    assert guard.wall_ms() == clock.wall_ms()


def a_step_back_is_one_as_well() -> None:
    clock = _Clock()
    guard = ClockGuard(clock)
    clock.off_ms = -DAY_MS
    assert guard.wall_ms() == START_MS
    assert guard.state == "stepped"


def a_slow_correction_is_followed() -> None:
    clock = _Clock()
    guard = ClockGuard(clock)
    for _ in range(100):
        clock.passed_s += FOLLOWED_EVERY_S
        clock.off_ms += 1_000
        assert guard.wall_ms() == clock.wall_ms()


def small_steps_one_after_another_are_not_followed_all_at_once() -> None:
    clock = _Clock()
    guard = ClockGuard(clock)
    for _ in range(40):
        clock.off_ms += 1_000
        guard.wall_ms()
    assert not guard.is_believed


def a_time_asleep_is_no_step() -> None:
    clock = _Clock()
    guard = ClockGuard(clock)
    clock.passed_s += 30 * 86_400
    assert guard.is_believed


def a_restart_on_the_same_boot_does_not_hide_a_step(tmp_path: Path) -> None:
    clock = _Clock()
    ClockGuard(clock, tmp_path / "clock.json", "boot").begin(0)
    clock.passed_s, clock.off_ms = 100.0, 40 * DAY_MS
    again = ClockGuard(clock, tmp_path / "clock.json", "boot")
    again.begin(START_MS)
    assert again.state == "stepped"
    assert again.wall_ms() == START_MS + 100_000
    clock.off_ms = 0
    assert again.state == "steady"


def a_long_stop_on_the_same_boot_needs_nobody(tmp_path: Path) -> None:
    clock = _Clock()
    ClockGuard(clock, tmp_path / "clock.json", "boot").begin(0)
    clock.passed_s = 100 * 86_400.0
    again = ClockGuard(clock, tmp_path / "clock.json", "boot")
    again.begin(START_MS)
    assert again.state == "steady"


def after_a_reboot_the_last_entry_is_what_is_known(tmp_path: Path) -> None:
    for ahead_ms, state in ((6 * DAY_MS, "fresh"), (8 * DAY_MS, "unknown"), (-60_000, "unknown")):
        clock = _Clock()
        path = tmp_path / f"{ahead_ms}.json"
        ClockGuard(clock, path, "boot").begin(0)
        clock.booted_ms += ahead_ms
        again = ClockGuard(clock, path, "another boot")
        again.begin(START_MS)
        assert again.state == state
        if state == "unknown":
            assert again.wall_ms() == START_MS
            again.believe()
            assert again.wall_ms() == clock.wall_ms()
            assert ClockGuard(clock, path, "another boot").state == "steady"


def a_clock_that_is_set_right_after_a_cold_start_is_believed_by_itself() -> None:
    clock = _Clock()
    clock.off_ms = 40 * DAY_MS
    guard = ClockGuard(clock)
    guard.begin(START_MS)
    assert not guard.is_believed
    clock.off_ms, clock.passed_s = DAY_MS, 3_600.0
    assert guard.state == "fresh"
    assert guard.wall_ms() == clock.wall_ms()


@pytest.mark.parametrize(
    "kept",
    [
        b"{",
        b'{"boot": "boot", "offset_ms": 99999999999999}',
        b'{"boot": "boot", "offset_ms": -99999999999999}',
        b'{"boot": "boot", "offset_ms": 999999999999999999999999999999}',
    ],
)
def what_is_kept_may_be_damaged(tmp_path: Path, kept: bytes) -> None:
    (tmp_path / "clock.json").write_bytes(kept)
    guard = ClockGuard(_Clock(), tmp_path / "clock.json", "boot")
    guard.begin(START_MS)
    assert guard.is_believed
