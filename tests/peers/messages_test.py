"""Nothing is lost on the way: every command, every result that the state gives, every error."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, get_args

import pytest

from tocsin import errors
from tocsin.model import command as c
from tocsin.model.entry import Entry
from tocsin.model.new import NewSchedules
from tocsin.model.schedule import convert
from tocsin.model.token import Session, Token
from tocsin.peers import messages
from tocsin.replica.peers import Answered
from tocsin.replica.prepare import prepare
from tocsin.state import store
from tocsin.state.apply import apply
from tocsin.state.apply.schedules import Put

NOW_MS = 1_800_000_000_000
SCHEDULE = convert(
    {
        "id": "billing/payroll",
        "cron": "0 2 1 * *",
        "timezone": "Europe/Berlin",
        "target": {"kind": "http", "url": "http://127.0.0.1:9000/x", "headers": {"x": "y"}},
        "payload": {"deep": [1, 2.5, None, {"ü": [True]}], "big": 2**63 - 1},
        "retry": {"limit": 3, "backoff": "2s", "max_backoff": "5m"},
        "labels": {"team": "finance"},
        "start": "2026-01-31T09:00:00Z",
    }
)
TOKEN = Token("abc", "ci", b"hash" * 8, ("read", "write"), ("billing/",), 12345)
COMMANDS: list[c.Command] = [
    c.PutSchedule(SCHEDULE, expect=0, actor="ann", skip_past=True),
    c.PutSchedule(SCHEDULE, restored=4),
    c.PutSchedules(
        NewSchedules(["imported"], [b"spec"], ["0 2 1 * *"], ["UTC"], [None], [True], [1_900_000_000], [0]),
        expect=0,
        actor="ann",
    ),
    c.SwitchSchedule("billing/payroll", False, expect=1, note="the bank is down", actor="ann"),
    c.SwitchSchedule("billing/payroll", True),
    c.LaunchNow("billing/payroll", actor="ann"),
    c.CancelLaunch("billing/payroll-1800000000-manual", "enough", "ann"),
    c.ResolveLaunch("billing/payroll-1800000000-manual", "succeeded", "seen", "ann"),
    c.Backfill("billing/payroll", 1_700_000_000, 1_790_000_000, True, 5, "ann"),
    c.CreateToken(TOKEN, "ann"),
    c.OpenSession(Session("def", "abc", b"h", 1_900_000_000_000, "::1"), "ci"),
    c.NoteTokenUse({"abc": 7, "def": 7}),
    c.RevokeToken("abc", "ann"),
    c.DeleteSchedule("billing/payroll", actor="ann"),
    c.MakeCheckpoint("ann"),
    c.ConfirmClock(1_800_000_000_000, actor="ann"),
    c.RepairDue(["billing/payroll"], is_last=True, actor="ann"),
]


def _there(command: c.Command) -> c.Command:
    raw = messages.encode(messages.proposal_of(command))
    return messages.command_of(messages.decode(raw, messages.Proposal))


def _back(answered: Answered) -> Answered:
    raw = messages.encode(messages.result_of(answered))
    return messages.answered_of(messages.decode(raw, messages.Result))


def every_command_is_among_those_that_are_sent_here():
    assert {type(command) for command in COMMANDS} == set(get_args(c.Command))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
def a_command_arrives_as_it_was_sent(command):
    found = _there(command)
    assert type(found) is type(command)
    assert found == command


def what_the_state_makes_of_each_command_comes_back_as_it_is(tmp_path: Path):
    """Carried out one after the other on a real state: results are of few kinds, and each survives the way."""
    state = store.Store(tmp_path / "state.db")
    told: dict[str, list[Any]] = {}
    for command in COMMANDS:
        if isinstance(command, c.PutSchedules):
            continue  # its result is made of those of several changes
        arrived = _there(command)
        change = prepare(state.db, arrived, NOW_MS)
        raw = b"%d" % (state.meta.seq + 1)
        entry = Entry(b"x" * 16, state.meta.last_id, term=0, time_ms=NOW_MS, changes=[change])
        (result,) = apply(state, state.meta.seq + 1, entry, raw)
        told.setdefault(type(command).__name__, []).append(result)
        if isinstance(result, errors.TocsinError):
            again = messages.error_of(
                messages.decode(messages.encode(messages.wrong_of(result)), messages.Wrong)
            )
            assert (type(again), str(again)) == (type(result), str(result))
            continue
        back = _back(Answered(state.meta.seq, result))
        assert back == Answered(state.meta.seq, result)
        assert type(back.result) is type(result)
        assert getattr(back.result, "act", None) == getattr(result, "act", None)
    assert [put.act for put in told["PutSchedule"]] == ["created", "unchanged"]
    assert told["CreateToken"] == ["abc"]
    assert told["NoteTokenUse"] == [None]
    state.close()


def what_became_of_many_comes_back_by_place():
    found = {3: Put(2, "edited"), 7: errors.AlreadyExists("taken", hint="use another")}
    back = _back(Answered(9, found)).result
    assert (back[3], back[3].act) == (2, "edited")
    assert (type(back[7]), str(back[7])) == (errors.AlreadyExists, str(found[7]))
    assert _back(Answered(9, {})).result == {}


def a_version_is_still_a_version_with_its_act():
    back = _back(Answered(9, Put(3, "edited")))
    assert (back.seq, back.result, back.result.act) == (9, 3, "edited")


def what_cannot_be_told_is_our_mistake_and_loud():
    with pytest.raises(TypeError):
        messages.result_of(Answered(1, object()))


_KINDS = [
    kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.TocsinError)
]


@pytest.mark.parametrize("kind", _KINDS, ids=lambda kind: kind.__name__)
def an_error_is_raised_as_what_it_was(kind):
    if issubclass(kind, errors.InvalidInput):
        error = kind("wrong", field="cron", value="x", allowed="y", hint="do")
    elif issubclass(kind, errors.TooMany):
        error = kind("wrong", hint="do", wait_s=7)
    else:
        error = kind("wrong", hint="do")
    found = messages.error_of(messages.decode(messages.encode(messages.wrong_of(error)), messages.Wrong))
    assert type(found) is kind
    assert vars(found) == vars(error)
    assert found.retryable == error.retryable


def an_error_of_a_kind_that_is_not_known_here_is_the_nearest_that_is():
    class Special(errors.NotFound):
        pass

    assert messages.wrong_of(Special("no")).kind == "NotFound"
    assert type(messages.error_of(messages.Wrong("FromTheFuture", "no"))) is errors.TocsinError


def what_is_no_message_is_no_answer():
    for raw in (b"", b"\xc1", b"<html>", messages.encode({"kind": 3})):
        with pytest.raises(errors.Unreachable):
            messages.decode(raw, messages.Wrong)
