"""What callers do to schedules and launches while time goes on: edits, pauses, deletions, run-now, cancel."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.core.desk import FAILED, START, Desk, at, only_flight, put, schedule_of

from tocsin.errors import AlreadyExists, ChainBroken, NotFound, Refused, VersionConflict
from tocsin.journal import codec
from tocsin.model import change as c
from tocsin.model.command import CancelLaunch, DeleteSchedule, LaunchNow, PutSchedule, SwitchSchedule
from tocsin.model.entry import Entry
from tocsin.state.apply import apply
from tocsin.targets.contract import SUCCEEDED


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk(START)
    yield desk
    desk.close()


def a_past_moment_is_launched_at_once_by_default(desk: Desk) -> None:
    put(desk, cron=f"@at {START - 3600}")
    desk.turns()
    assert desk.states_of("s") == {START - 3600: "started"}


def a_past_moment_is_skipped_if_the_policy_says_so(desk: Desk) -> None:
    put(desk, cron=f"@at {START - 3600}", missed="skip")
    desk.turns()
    assert desk.states_of("s") == {START - 3600: "skipped"}


def a_paused_schedule_has_no_occurrences_and_resumes_after_now(desk: Desk) -> None:
    put(desk, missed="all")
    desk.command(SwitchSchedule("s", enabled=False, note="holiday"))
    at(desk, 600)
    assert desk.states_of("s") == {}
    desk.command(SwitchSchedule("s", enabled=True))
    at(desk, 660)
    assert desk.states_of("s") == {START + 660: "started"}


def an_edit_of_the_timing_voids_what_was_planned(desk: Desk) -> None:
    put(desk)
    put(desk, cron="@every 1h")
    at(desk, 120)
    assert desk.states_of("s") == {}


def an_edit_while_an_occurrence_is_overdue_accounts_for_it(desk: Desk) -> None:
    put(desk)
    desk.now_ms = (START + 61) * 1000
    put(desk, cron="@every 1h")
    desk.turns()
    assert desk.states_of("s") == {START + 60: "skipped"}


def an_edit_of_the_description_neither_drops_nor_repeats_an_occurrence(desk: Desk) -> None:
    put(desk)
    desk.now_ms = (START + 61) * 1000
    put(desk, description="now with words")
    desk.turns()
    put(desk, description="and more of them")
    desk.turns()
    assert desk.states_of("s") == {START + 60: "started"}
    assert desk.db.execute("SELECT version, instant_s FROM schedule JOIN due USING (sid)").fetchone() == (
        3,
        START + 120,
    )


def an_open_launch_goes_on_with_the_version_it_started_under(desk: Desk) -> None:
    put(desk, retry={"limit": 1, "backoff": "1s"}, target={"kind": "exec", "shell": "old"})
    at(desk, 60)
    desk.end(only_flight(desk), FAILED)
    put(desk, target={"kind": "exec", "shell": "new"})
    at(desk, 62)
    (flight,) = desk.flights.values()
    assert flight.order.target.shell == "old"


def a_deleted_schedules_open_launch_can_still_end(desk: Desk) -> None:
    put(desk)
    at(desk, 60)
    desk.command(DeleteSchedule("s"))
    desk.end(only_flight(desk), SUCCEEDED)
    assert desk.states_of("s") == {START + 60: "succeeded"}


def an_id_made_again_never_launches_an_instant_twice(desk: Desk) -> None:
    put(desk, cron=f"@at {START + 60}")
    at(desk, 60)
    desk.command(DeleteSchedule("s"))
    put(desk, cron=f"@at {START + 60}")
    at(desk, 120)
    assert len(desk.flights) == 1
    assert desk.db.execute("SELECT version FROM schedule").fetchone() == (2,)


def a_run_now_is_named_apart_and_moves_nothing(desk: Desk) -> None:
    put(desk)
    before = desk.db.execute("SELECT * FROM due").fetchall()
    desk.hand_over([desk.command(LaunchNow("s"))])
    (flight,) = desk.flights.values()
    assert flight.order.name == f"s-{START}-manual"
    assert desk.db.execute("SELECT * FROM due").fetchall() == before
    with pytest.raises(AlreadyExists):
        desk.command(LaunchNow("s"))


def a_run_now_respects_the_overlap_policy(desk: Desk) -> None:
    put(desk, overlap="forbid")
    at(desk, 60)
    with pytest.raises(Refused, match="forbid"):
        desk.command(LaunchNow("s"))


def cancelling_a_waiting_retry_ends_it_at_once(desk: Desk) -> None:
    put(desk, cron=f"@at {START + 60}", retry={"limit": 3, "backoff": "10m"})
    at(desk, 60)
    desk.end(only_flight(desk), FAILED)
    desk.command(CancelLaunch(f"s-{START + 60}"))
    assert desk.states_of("s") == {START + 60: "cancelled"}
    at(desk, 3600)
    assert not desk.flights


def a_launch_to_be_cancelled_is_not_tried_again(desk: Desk) -> None:
    put(desk, cron=f"@at {START + 60}", retry={"limit": 3})
    at(desk, 60)
    desk.command(CancelLaunch(f"s-{START + 60}"))
    desk.end(only_flight(desk), FAILED)
    assert desk.states_of("s") == {START + 60: "cancelled"}


def versions_guard_against_lost_edits(desk: Desk) -> None:
    put(desk)
    with pytest.raises(AlreadyExists):
        desk.command(PutSchedule(schedule_of(), expect=0))
    desk.command(PutSchedule(schedule_of(description="x"), expect=1))
    with pytest.raises(VersionConflict):
        desk.command(PutSchedule(schedule_of(description="y"), expect=1))
    with pytest.raises(NotFound):
        desk.command(DeleteSchedule("nobody"))


def putting_the_same_again_makes_no_version(desk: Desk) -> None:
    put(desk)
    put(desk)
    assert desk.db.execute("SELECT version FROM schedule").fetchone() == (1,)


def every_keeps_its_anchor_until_its_text_changes(desk: Desk) -> None:
    put(desk, cron="@every 7m")
    desk.now_ms += 65_000
    put(desk, cron="@every 7m", description="edited")
    assert desk.db.execute("SELECT instant_s FROM due").fetchone() == (START + 420,)


def an_entry_of_an_old_term_is_void(desk: Desk) -> None:
    put(desk)
    desk.take_office()
    late = Entry(b"x" * 16, desk.store.meta.last_id, 1, desk.now_ms, [c.ScheduleDeleted("s", None)])
    raw = codec.encode(late)
    assert apply(desk.store, desk.store.meta.seq + 1, late, raw) == []
    assert desk.db.execute("SELECT count(*) FROM schedule").fetchone() == (1,)


def an_entry_that_names_another_one_before_it_is_not_applied(desk: Desk) -> None:
    put(desk)
    seq = desk.store.meta.seq
    other = Entry(b"x" * 16, b"y" * 16, 1, desk.now_ms, [c.ScheduleDeleted("s", None)])
    with pytest.raises(
        ChainBroken, match=rf"entry {seq} \({desk.store.meta.last_id.hex()}\).*entry {seq} \(yyyy"
    ):
        apply(desk.store, seq + 1, other, codec.encode(other))
    assert desk.store.meta.seq == seq
    assert desk.db.execute("SELECT count(*) FROM schedule").fetchone() == (1,)


def an_edit_of_a_policy_leaves_the_anchor_of_every_where_it_was(desk: Desk) -> None:
    put(desk, cron="@every 37s")
    desk.now_ms += 30_000
    put(desk, cron="@every 37s", deadline="45s")
    assert desk.db.execute("SELECT instant_s FROM due").fetchone() == (START + 37,)


def a_pause_accounts_for_everything_that_was_still_to_be_caught_up_with(desk: Desk) -> None:
    put(desk, missed="all", catch_up_spread="1h")
    desk.now_ms = (START + 3600) * 1000
    desk.take_office()
    desk.command(SwitchSchedule("s", enabled=False))
    assert desk.states_of("s") == {START + 60: "skipped"}
    ((from_s, before_s, reason),) = desk.db.execute("SELECT from_s, before_s, reason FROM missed").fetchall()
    assert (from_s, before_s) == (START + 61, START + 3601)
    assert "paused" in reason


def an_edit_that_python_takes_for_equal_is_an_edit(desk: Desk) -> None:
    put(desk, payload={"dry": True})
    put(desk, payload={"dry": 1})
    assert desk.db.execute("SELECT version FROM schedule").fetchone() == (2,)


def the_order_of_keys_is_no_edit(desk: Desk) -> None:
    put(desk, payload={"a": 1, "b": 2})
    put(desk, payload={"b": 2, "a": 1})
    assert desk.db.execute("SELECT version FROM schedule").fetchone() == (1,)


@pytest.mark.parametrize("how", ["resume", "put"])
def a_moment_that_passed_in_a_pause_is_not_launched_afterwards(desk: Desk, how: str) -> None:
    put(desk, cron=f"@at {START + 60}")
    desk.command(SwitchSchedule("s", enabled=False))
    desk.now_ms += 120_000
    if how == "put":
        put(desk, cron=f"@at {START + 60}")
    else:
        desk.command(SwitchSchedule("s", enabled=True))
    desk.turns()
    assert desk.flights == {}


def a_moment_put_before_an_earlier_launch_still_counts_as_missed(desk: Desk) -> None:
    put(desk, cron=f"@at {START + 60}")
    at(desk, 60)
    put(desk, cron=f"@at {START + 30}")
    desk.turns()
    assert desk.states_of("s") == {START + 60: "started", START + 30: "started"}


def an_edit_of_a_paused_schedule_keeps_the_note(desk: Desk) -> None:
    put(desk)
    desk.command(SwitchSchedule("s", enabled=False, note="stocktaking"))
    put(desk, enabled=False, description="edited")
    assert desk.db.execute("SELECT note FROM schedule").fetchone() == ("stocktaking",)
    put(desk, enabled=True)
    assert desk.db.execute("SELECT note FROM schedule").fetchone() == (None,)
