"""The wall clock is believed as long as it goes on evenly."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.clock import SystemClock
from tocsin.decide.clock import Bounds
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


def _started(clock: _Clock, folder: Path, boot: str = "boot", last_entry_ms: int = 0) -> ClockGuard:
    guard = ClockGuard(clock, folder / "clock.json", boot)
    guard.begin(last_entry_ms)
    return guard


def _steady(clock: _Clock, folder: Path) -> ClockGuard:
    guard = _started(clock, folder)
    guard.believe()
    return guard


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
    _steady(clock, tmp_path)
    clock.passed_s, clock.off_ms = 100.0, 40 * DAY_MS
    again = ClockGuard(clock, tmp_path / "clock.json", "boot")
    again.begin(START_MS)
    assert again.state == "stepped"
    assert again.wall_ms() == START_MS + 100_000
    clock.off_ms = 0
    assert again.state == "steady"


@pytest.mark.parametrize("last_entry_ms", [0, START_MS - 5 * DAY_MS])
def a_restart_on_the_same_boot_proves_nothing(tmp_path: Path, last_entry_ms: int) -> None:
    """The machine may have started with a wrong clock that is plausible."""
    clock = _Clock()
    for _ in range(3):
        assert _started(clock, tmp_path, last_entry_ms=last_entry_ms).state == "fresh"
        clock.passed_s += 2 * FOLLOWED_EVERY_S
    _steady(clock, tmp_path)
    assert _started(clock, tmp_path, last_entry_ms=last_entry_ms).state == "steady"
    assert _started(clock, tmp_path, "another boot", last_entry_ms).state == "fresh"
    assert _started(clock, tmp_path, "another boot", last_entry_ms).state == "fresh"


@pytest.mark.parametrize("ahead_ms", [5 * DAY_MS, -5 * DAY_MS])
def a_restart_on_the_same_boot_ends_no_doubt(tmp_path: Path, ahead_ms: int) -> None:
    clock = _Clock()
    _started(clock, tmp_path).doubt(ahead_ms, "others")
    clock.passed_s += 100.0
    again = _started(clock, tmp_path, last_entry_ms=START_MS)
    assert again.state == "stepped"
    assert again.wall_ms() == clock.wall_ms() + ahead_ms


def a_doubt_ends_when_the_clock_is_set_right_while_the_service_is_down(tmp_path: Path) -> None:
    clock = _Clock()
    _started(clock, tmp_path).doubt(-5 * DAY_MS, "others")
    clock.passed_s, clock.off_ms = 100.0, -5 * DAY_MS
    again = _started(clock, tmp_path, last_entry_ms=START_MS - 5 * DAY_MS)
    assert again.state == "fresh", "it is believed, and nobody has proven it"
    clock.passed_s += 100.0
    assert _started(clock, tmp_path, last_entry_ms=START_MS - 5 * DAY_MS).state == "fresh"


def a_doubt_is_over_after_somebody_believed_the_clock(tmp_path: Path) -> None:
    clock = _Clock()
    guard = _started(clock, tmp_path)
    guard.doubt(-5 * DAY_MS, "others")
    guard.believe()
    assert _started(clock, tmp_path).state == "steady"


def after_a_reboot_a_doubt_is_forgotten(tmp_path: Path) -> None:
    """The clock may have been set anew: the last entry is what is known, and the other replicas are asked again."""
    clock = _Clock()
    _started(clock, tmp_path).doubt(-5 * DAY_MS, "others")
    assert _started(clock, tmp_path, "another boot", START_MS).state == "fresh"


def a_clock_far_from_the_last_entry_stays_so_over_a_restart(tmp_path: Path) -> None:
    """Behind it by a minute, it would pass for right after a minute."""
    clock = _Clock()
    assert _started(clock, tmp_path, last_entry_ms=START_MS + 60_000).state == "unknown"
    clock.passed_s = 100.0
    again = _started(clock, tmp_path, last_entry_ms=START_MS + 60_000)
    assert again.state == "unknown"
    assert again.wall_ms() == START_MS + 160_000


def a_later_entry_of_another_replica_makes_a_clock_plausible_at_the_next_start(tmp_path: Path) -> None:
    clock = _Clock()
    assert _started(clock, tmp_path, last_entry_ms=START_MS - 40 * DAY_MS).state == "unknown"
    assert _started(clock, tmp_path, last_entry_ms=START_MS - DAY_MS).state == "fresh"


def a_doubt_that_could_not_be_written_is_written_later(tmp_path: Path) -> None:
    clock = _Clock()
    folder = tmp_path / "full"
    guard = _started(clock, folder)
    guard.doubt(-5 * DAY_MS, "others")
    folder.mkdir()
    clock.passed_s += FOLLOWED_EVERY_S
    assert not guard.is_believed
    assert _started(clock, folder).state == "stepped"


_CHANGES = st.one_of(
    st.tuples(st.just("pass"), st.sampled_from([1, 15, 3_600, 9 * 86_400])),
    st.tuples(st.just("step"), st.sampled_from([-5 * DAY_MS, -60_000, -20_000, 20_000, 60_000, 5 * DAY_MS])),
    st.tuples(st.just("doubt"), st.sampled_from([-5 * DAY_MS, -60_000, 20_000, 5 * DAY_MS])),
    st.tuples(st.just("leader"), st.sampled_from([-5 * DAY_MS, 0, 20_000])),
    st.tuples(st.sampled_from(["write", "believe", "restart", "reboot"]), st.just(0)),
)


@given(st.lists(_CHANGES, max_size=12))
@settings(deadline=None)
def a_restart_of_the_process_changes_nothing_of_what_is_known(changes: list[tuple[str, int]]) -> None:
    """Only a last entry that is ahead of the clock may make it believed less."""
    with TemporaryDirectory() as folder:
        clock, boot, last_entry_ms = _Clock(), 1, START_MS
        guard = _started(clock, Path(folder), f"{boot}", last_entry_ms)
        for kind, much in changes:
            if kind == "pass":
                clock.passed_s += much
            elif kind == "step":
                clock.off_ms += much
            elif kind == "doubt":
                guard.doubt(much, "leader" if much > 0 else "others")
            elif kind == "leader":
                guard.note_leader(much or None)
            elif kind == "write":
                last_entry_ms = max(last_entry_ms, guard.wall_ms())
            elif kind == "believe":
                guard.believe()
            else:
                boot += kind == "reboot"
                guard = _started(clock, Path(folder), f"{boot}", last_entry_ms)
            before = guard.state, guard.wall_ms(), guard.leader_ahead_ms()
            again = _started(clock, Path(folder), f"{boot}", last_entry_ms)
            if guard.is_believed and clock.wall_ms() < last_entry_ms - guard.bounds.step_ms:
                assert again.state == "unknown"
                guard = again
            else:
                assert (again.state, again.wall_ms(), again.leader_ahead_ms()) == before


def a_long_stop_on_the_same_boot_needs_nobody(tmp_path: Path) -> None:
    clock = _Clock()
    _steady(clock, tmp_path)
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


_WHOLE = b'{"boot": "boot", "offset_ms": %d, "basis": "clock", "is_proven": true, "leader_offset_ms": null}'


@pytest.mark.parametrize(
    "kept",
    [
        b"{",
        b'{"boot": "boot", "offset_ms": 1699999000000}',
        _WHOLE % 99999999999999,
        _WHOLE % -99999999999999,
        _WHOLE % 999999999999999999999999999999,
    ],
)
def what_is_kept_may_be_damaged(tmp_path: Path, kept: bytes) -> None:
    (tmp_path / "clock.json").write_bytes(kept)
    guard = ClockGuard(_Clock(), tmp_path / "clock.json", "boot")
    guard.begin(START_MS)
    assert guard.state == "fresh"


@pytest.mark.parametrize(("boot", "is_counted"), [("boot", True), ("another", False)])
def after_a_reboot_nobody_knows_how_much_time_has_passed(tmp_path: Path, boot: str, is_counted: bool) -> None:
    clock = _Clock()
    _started(clock, tmp_path, last_entry_ms=clock.wall_ms()).noted()
    clock.passed_s += 7_200
    guard = _started(clock, tmp_path, boot, last_entry_ms=clock.wall_ms() - 7_200_000)
    assert guard.is_believed
    assert guard.is_counted is is_counted
    guard.noted()
    assert guard.is_counted


def how_long_ago_something_was_is_known_of_what_was_after_the_journal_heard_of_the_time(
    tmp_path: Path,
) -> None:
    clock = _Clock()
    guard = _started(clock, tmp_path, last_entry_ms=START_MS)
    assert guard.counted_since_ms > clock.wall_ms(), "of nothing yet"
    guard.noted()
    noted_ms = clock.wall_ms()
    assert guard.counted_since_ms == noted_ms
    clock.passed_s += 7_200
    guard.noted()
    again = _started(clock, tmp_path, last_entry_ms=clock.wall_ms())
    assert again.counted_since_ms == noted_ms, "a restart of the process changes nothing"
    cold = _started(clock, tmp_path, "another", last_entry_ms=clock.wall_ms())
    assert cold.counted_since_ms > clock.wall_ms()


def those_who_agree_with_a_clock_do_not_tell_how_much_time_has_passed(tmp_path: Path) -> None:
    """All machines of a rack start at once, with the time of one wrong server."""
    guard = _started(_Clock(), tmp_path, last_entry_ms=START_MS)
    guard.believe()
    assert not guard.is_counted


def a_restart_of_the_process_counts_no_time_that_the_journal_has_not_heard_of(tmp_path: Path) -> None:
    clock = _Clock()
    _started(clock, tmp_path, last_entry_ms=START_MS)
    assert not _started(clock, tmp_path, last_entry_ms=START_MS).is_counted
    _started(clock, tmp_path, last_entry_ms=START_MS).noted()
    assert _started(clock, tmp_path, last_entry_ms=START_MS).is_counted


def what_the_journal_hears_while_the_clock_is_not_believed_does_not_count_the_time(tmp_path: Path) -> None:
    """A board starts in the past, and is set some seconds later."""
    clock = _Clock()
    clock.off_ms = -40 * DAY_MS
    guard = _started(clock, tmp_path, last_entry_ms=START_MS)
    guard.noted()
    clock.off_ms = 7_200_000
    assert guard.is_believed
    assert not guard.is_counted


def a_clock_that_is_followed_over_a_large_step_has_not_counted_the_time(tmp_path: Path) -> None:
    clock = _Clock()
    guard = _steady(clock, tmp_path)
    guard.bounds = Bounds(step_ms=86_400_000)
    guard.noted()
    clock.off_ms += 6 * 3_600_000
    assert guard.is_believed
    assert not guard.is_counted  # at once: the next entry is stamped with it
    guard.noted()
    for _ in range(3):
        clock.passed_s += 7
        assert guard.is_believed
        assert guard.is_counted
