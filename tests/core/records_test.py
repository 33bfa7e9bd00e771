"""Who did what: records, versions, the steps of a launch; and doubt that a person ends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.core.desk import FAILED, START, Desk, at, only_flight, put, schedule_of

from tocsin.errors import AlreadyExists, NotFound, Refused
from tocsin.model import change as c
from tocsin.model.command import (
    CancelLaunch,
    CreateToken,
    DeleteSchedule,
    LaunchNow,
    NoteTokenUse,
    PutSchedule,
    ResolveLaunch,
    RevokeToken,
    SwitchSchedule,
)
from tocsin.model.token import Token
from tocsin.state import chronicle, tokens, views
from tocsin.state.apply.history import ROWS_AT_ONCE
from tocsin.state.steps import steps as steps_of
from tocsin.targets.contract import SUCCEEDED, Outcome, Verdict

DOUBT = Outcome(Verdict.UNKNOWN, reason="the connection was cut")


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk(START)
    yield desk
    desk.close()


def acts(desk: Desk, **asked: object) -> list[tuple[str, str, str]]:
    page = chronicle.records(desk.db, **asked)  # type: ignore[arg-type]  # why: passed on
    return [(record.act, record.about, record.actor) for record in page.items]


def every_change_of_a_schedule_is_recorded_with_its_actor(desk: Desk) -> None:
    desk.command(PutSchedule(schedule_of(), actor="ann"))
    desk.command(PutSchedule(schedule_of(description="new"), actor="ben"))
    desk.command(SwitchSchedule("s", False, note="holiday", actor="cleo"))
    desk.command(SwitchSchedule("s", True, actor="cleo"))
    desk.command(DeleteSchedule("s", actor="dan"))
    told = [
        ("deleted", "s", "dan"),
        ("resumed", "s", "cleo"),
        ("paused", "s", "cleo"),
        ("edited", "s", "ben"),
        ("created", "s", "ann"),
    ]
    assert acts(desk) == told
    assert acts(desk, about="s") == told
    assert acts(desk, actor="cleo") == told[1:3]


def what_is_refused_or_changes_nothing_is_not_recorded(desk: Desk) -> None:
    desk.command(PutSchedule(schedule_of(), actor="ann"))
    desk.command(PutSchedule(schedule_of(), actor="ben"))
    with pytest.raises(AlreadyExists):
        desk.command(PutSchedule(schedule_of(description="x"), expect=0, actor="ben"))
    with pytest.raises(NotFound):
        desk.command(DeleteSchedule("t", actor="ben"))
    assert acts(desk) == [("created", "s", "ann")]


def versions_tell_how_each_came_about_and_how_it_ended(desk: Desk) -> None:
    desk.command(PutSchedule(schedule_of(), actor="ann"))
    desk.command(SwitchSchedule("s", False, actor="ben"))
    desk.command(DeleteSchedule("s", actor="cleo"))
    found = [(v.version, v.act, v.actor, v.ended_by) for v in chronicle.versions(desk.db, "s")]
    assert found == [(2, "paused", "ben", "deleted"), (1, "created", "ann", "paused")]
    with pytest.raises(NotFound):
        chronicle.versions(desk.db, "t")


def a_restored_version_is_a_new_version_that_says_so(desk: Desk) -> None:
    put(desk, description="first")
    desk.command(DeleteSchedule("s"))
    result = desk.command(PutSchedule(schedule_of(description="first"), expect=0, restored=1, actor="ann"))
    assert (int(result), result.act) == (2, "restored")
    assert acts(desk)[0] == ("restored", "s", "ann")


def records_outside_of_ones_reach_are_not_shown(desk: Desk) -> None:
    put(desk, id="a/x")
    put(desk, id="ab")
    desk.command(CreateToken(Token("0" * 12, "t", b"", ("read",))))
    assert acts(desk, within=("a",)) == [("created", "a/x", "")]


def pages_of_the_record_add_up_to_the_whole(desk: Desk) -> None:
    for number in range(25):
        put(desk, id=f"s{number}")
    whole, cursor = [], ""
    while True:
        page = chronicle.records(desk.db, cursor=cursor, limit=10)
        whole += [record.about for record in page.items]
        cursor = page.cursor
        if not cursor:
            break
    assert whole == [f"s{number}" for number in reversed(range(25))]


def old_records_are_forgotten_with_the_rest_of_history(desk: Desk) -> None:
    put(desk)
    desk.now_ms += 1000
    put(desk, id="t")
    desk.commit(c.HistoryForgotten([], desk.now_ms))
    assert acts(desk) == [("created", "t", "")]
    assert ROWS_AT_ONCE > 1


def the_steps_of_a_retried_launch_are_all_told(desk: Desk) -> None:
    put(desk, retry={"limit": 2, "backoff": "1s", "jitter": 0.0})
    at(desk, 60)
    desk.end(only_flight(desk), FAILED)
    at(desk, 62)
    flight = desk.flights[only_flight(desk)]
    desk.commit(c.LaunchesAccepted([flight.lid], [2]))
    desk.end(flight.lid, SUCCEEDED)
    steps = steps_of(desk.db, f"s-{START + 60}")
    assert [(step.step, step.attempt) for step in steps] == [
        ("planned", None),
        ("started", 1),
        ("attempt ended", 1),
        ("started", 2),
        ("accepted by its target", 2),
        ("succeeded", 2),
    ]
    assert "exit status 1" in steps[2].note
    assert (steps[3].at - steps[1].at).total_seconds() == 2


def a_launch_by_hand_tells_who_asked_for_it_and_who_stopped_it(desk: Desk) -> None:
    put(desk)
    lid = desk.command(LaunchNow("s", actor="ann"))
    desk.hand_over([lid])
    desk.command(CancelLaunch(f"s-{START}-manual", "enough", actor="ben"))
    steps = steps_of(desk.db, f"s-{START}-manual")
    assert ("launched", "ann") in [(step.step, step.actor) for step in steps]
    assert ("cancelled", "ben", "enough") in [(step.step, step.actor, step.note) for step in steps]


def doubtful(desk: Desk) -> str:
    put(desk)
    at(desk, 60)
    desk.flights[only_flight(desk)].note_call(desk.now_ms)
    desk.end(only_flight(desk), DOUBT)
    name = f"s-{START + 60}"
    assert views.launch(desk.db, name).state == "in_doubt"
    return name


@pytest.mark.parametrize("outcome", ["succeeded", "failed", "skipped"])
def doubt_is_ended_by_whoever_found_out(desk: Desk, outcome: str) -> None:
    name = doubtful(desk)
    desk.command(ResolveLaunch(name, outcome, "the bank says so", actor="ann"))  # type: ignore[arg-type]  # why: param
    view = views.launch(desk.db, name)
    assert (view.state, "the bank says so" in view.reason) == (outcome, True)
    assert acts(desk)[0] == ("resolved", "s", "ann")
    with pytest.raises(Refused, match="not in doubt"):
        desk.command(ResolveLaunch(name, "failed"))


def doubt_can_be_ended_by_another_call_under_the_same_name(desk: Desk) -> None:
    name = doubtful(desk)
    lid = desk.command(ResolveLaunch(name, "relaunch", actor="ann"))
    desk.hand_over([lid])
    flight = desk.flights[lid]
    assert (flight.order.name, flight.order.attempt) == (name, 2)
    desk.end(lid, SUCCEEDED)
    assert views.launch(desk.db, name).state == "succeeded"
    assert [attempt.attempt for attempt in views.attempts(desk.db, name)] == [1]


def what_is_not_in_doubt_cannot_be_resolved(desk: Desk) -> None:
    put(desk)
    at(desk, 60)
    with pytest.raises(Refused, match="started"):
        desk.command(ResolveLaunch(f"s-{START + 60}", "failed"))
    with pytest.raises(NotFound):
        desk.command(ResolveLaunch("s-5", "failed"))


def tokens_are_kept_used_and_revoked(desk: Desk) -> None:
    token = Token("a" * 12, "ci", b"hash", ("read", "operate"), ("a/",), None)
    desk.command(CreateToken(token, actor="ann"))
    with pytest.raises(AlreadyExists):
        desk.command(CreateToken(Token("b" * 12, "ci", b"", ("read",))))
    assert tokens.held(desk.db) == {"a" * 12: token}
    changed = desk.store.meta.tokens_seq
    desk.command(NoteTokenUse({"a" * 12: desk.now_ms}))
    assert desk.store.meta.tokens_seq == changed, "a use is no reason to read all tokens again"
    (view,) = tokens.shown(desk.db, desk.now_ms)
    assert view.created_by == "ann"
    assert view.last_used_at is not None
    desk.command(RevokeToken("ci", actor="ben"))
    assert tokens.held(desk.db) == {}
    assert desk.store.meta.tokens_seq > changed
    assert acts(desk)[:2] == [("token revoked", "ci", "ben"), ("token created", "ci", "ann")]
    with pytest.raises(NotFound):
        desk.command(RevokeToken("ci"))


def lists_within_prefixes_show_exactly_what_these_reach(desk: Desk) -> None:
    ids = ["a", "a-b", "a/b", "a/b/c", "ab", "b/a", "b/a/x", "c"]
    for id in ids:
        put(desk, id=id)
    within = ("a/", "b/a", "a/b")
    shown = [view.id for view in views.schedules(desk.db, within=within).items]
    assert shown == ["a", "a/b", "a/b/c", "b/a", "b/a/x"]
    narrowed = [view.id for view in views.schedules(desk.db, within=within, prefix="a/b").items]
    assert narrowed == ["a/b", "a/b/c"]
    assert views.schedules(desk.db, within=within, prefix="c").items == []
    first = views.schedules(desk.db, within=within, limit=2)
    rest = views.schedules(desk.db, within=within, cursor=first.cursor)
    assert [view.id for view in (*first.items, *rest.items)] == shown


def a_resolved_doubt_still_tells_what_the_doubt_was(desk: Desk) -> None:
    name = doubtful(desk)
    desk.now_ms += 1000
    desk.command(ResolveLaunch(name, "succeeded", "the bank says so", actor="ann"))
    told = [(step.step, step.note) for step in steps_of(desk.db, name)]
    assert told == [
        ("planned", ""),
        ("started", ""),
        ("attempt ended", "in doubt: the connection was cut"),
        ("resolved", "succeeded: the bank says so"),
        ("succeeded", "resolved: the bank says so"),
    ]


def calling_again_is_refused_where_another_launch_is_open_and_may_not_be(desk: Desk) -> None:
    put(desk, overlap="forbid", timeout="30s")
    at(desk, 60)
    desk.end(only_flight(desk), DOUBT)
    at(desk, 120)
    with pytest.raises(Refused, match="forbid"):
        desk.command(ResolveLaunch(f"s-{START + 60}", "relaunch"))
    assert views.launch(desk.db, f"s-{START + 60}").state == "in_doubt"


def a_newer_note_on_a_pause_is_kept_and_makes_no_version(desk: Desk) -> None:
    put(desk)
    desk.command(SwitchSchedule("s", False, note="holiday"))
    desk.command(SwitchSchedule("s", False, note="longer", actor="ann"))
    view = views.schedule(desk.db, "s")
    assert (view.note, view.version) == ("longer", 2)
    assert acts(desk)[0] == ("paused", "s", "ann")


def a_token_named_as_anothers_id_is_not_revoked_with_it(desk: Desk) -> None:
    desk.command(CreateToken(Token("a" * 12, "one", b"", ("read",))))
    desk.command(CreateToken(Token("b" * 12, "a" * 12, b"", ("read",))))
    desk.command(RevokeToken("a" * 12))
    assert list(tokens.held(desk.db)) == ["b" * 12]


def many_edits_keep_a_bounded_number_of_versions(desk: Desk) -> None:
    for number in range(250):
        put(desk, description=str(number))
    (kept,) = desk.db.execute("SELECT count(*) FROM revision").fetchone()
    assert kept == 200


def a_restored_interval_goes_on_from_its_old_anchor(desk: Desk) -> None:
    put(desk)
    anchor = views.schedule(desk.db, "s").resolved
    desk.command(DeleteSchedule("s"))
    desk.now_ms += 17_000
    desk.command(PutSchedule(schedule_of(), expect=0, restored=1))
    assert views.schedule(desk.db, "s").resolved == anchor


def a_moment_that_passed_while_it_was_deleted_is_not_made_up_for_by_a_restore(desk: Desk) -> None:
    once = f"@at {START + 60}"
    put(desk, cron=once)
    desk.command(DeleteSchedule("s"))
    desk.now_ms += 3_600_000
    desk.command(PutSchedule(schedule_of(cron=once), expect=0, restored=1))
    desk.turns()
    assert not desk.flights


def a_moment_that_was_launched_and_forgotten_is_not_launched_again(desk: Desk) -> None:
    once = f"@at {START + 60}"
    put(desk, cron=once)
    at(desk, 60)
    desk.end(only_flight(desk), SUCCEEDED)
    put(desk, cron="0 0 29 2 *")
    desk.commit(c.HistoryForgotten([lid for (lid,) in desk.db.execute("SELECT lid FROM launch")], 0))
    put(desk, cron=once)
    desk.turns()
    assert not desk.flights


def an_import_takes_a_moment_that_has_passed_for_launched_elsewhere(desk: Desk) -> None:
    desk.command(PutSchedule(schedule_of(cron=f"@at {START - 60}"), expect=0, skip_past=True))
    desk.turns()
    assert desk.states_of("s") == {START - 60: "skipped"}
