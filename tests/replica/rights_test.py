"""Whoever asks a replica that has not heard the news asks the leader all the same: it knows who may do what."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from tests.replica.several import EXEC, Town, in_town, put

from tocsin.api.door.access import NEEDS as NEEDED_AT_THE_DOOR
from tocsin.api.service import BEHIND_MS_MAX, Service
from tocsin.config import Settings
from tocsin.errors import Forbidden, InvalidInput, NoLeader, TocsinError, Unauthenticated
from tocsin.model import command as c
from tocsin.model import rights
from tocsin.model.entry import Entry
from tocsin.model.new import NewSchedules
from tocsin.model.schedule import convert
from tocsin.model.token import EVERYBODY, Session, Token, check_token, hash_of
from tocsin.replica.replica import Replica
from tocsin.replica.wishes import Wish, prepared
from tocsin.state import store, views
from tocsin.state.apply import apply

NOW_MS = 1_800_000_000_000
ADMIN = Token("ad0000000000", "root", hash_of("x"), ("admin",))
OPERATOR = Token("0b0000000000", "operator", hash_of("x"), ("operate",), ("billing",), NOW_MS + 1000)
WRITER = Token("3f0000000000", "writer", hash_of("x"), ("write",), ("billing/",))
SCHEDULE = convert({"id": "billing/payroll", "cron": "@daily", "target": {"kind": "null"}})
NAME = "billing/payroll-1799999999-manual"
MANY = NewSchedules(
    ["billing/new"],
    [msgspec.msgpack.encode(SCHEDULE)],
    ["@daily"],
    ["UTC"],
    [None],
    [True],
    [1_900_000_000],
    [0],
)
SAMPLES: list[tuple[c.Command, str]] = [
    (c.PutSchedule(SCHEDULE), "putSchedule"),
    (c.PutSchedules(MANY), "importSchedules"),
    (c.DeleteSchedule("billing/payroll"), "deleteSchedule"),
    (c.SwitchSchedule("billing/payroll", False), "pauseSchedule"),
    (c.LaunchNow("billing/payroll"), "runSchedule"),
    (c.CancelLaunch(NAME), "cancelLaunch"),
    (c.ResolveLaunch(NAME, "failed"), "resolveLaunch"),
    (c.Backfill("billing/payroll", 1_799_000_000, 1_799_999_000), "backfillSchedule"),
    (c.CreateToken(Token("cc0000000000", "new", b"", ("read",))), "createToken"),
    (c.RevokeToken("root"), "revokeToken"),
    (c.MakeCheckpoint(), "makeBackup"),
    (c.ConfirmClock(NOW_MS), "confirmClock"),
    (c.RepairDue([SCHEDULE.id]), "repairDue"),
    (c.NoteTokenUse({"ad0000000000": NOW_MS}), "whoAmI"),
    (c.OpenSession(Session("5e" * 8, "ad0000000000", b"", NOW_MS + 1)), "whoAmI"),
]


@pytest.fixture
def state(tmp_path: Path) -> Iterator[store.Store]:
    made = store.Store(tmp_path / "state.db")
    changes, _ = _prepared(
        made.db, c.PutSchedule(SCHEDULE), *(c.CreateToken(t) for t in (ADMIN, OPERATOR, WRITER))
    )
    apply(made, 1, Entry(b"x" * 16, b"", term=0, time_ms=NOW_MS, changes=changes), b"x")
    yield made
    made.close()


def _prepared(
    db: sqlite3.Connection, *commands: c.Command, now_ms: int = NOW_MS
) -> tuple[list[Any], list[BaseException | None]]:
    """The changes, and for each command why it is none."""

    async def whole() -> tuple[list[Any], list[BaseException | None]]:
        loop = asyncio.get_running_loop()
        wishes = [Wish(command, loop.create_future(), 1) for command in commands]
        found = prepared(db, wishes, now_ms)
        answers = {id(wish): answer for wish, answer in found.answered}
        return found.changes, [answers.get(id(wish)) for wish in wishes]

    return asyncio.run(whole())


def _by(token: Token | str, command: c.Command) -> c.Command:
    id = token if isinstance(token, str) else token.id
    if isinstance(command, c.OpenSession):  # each opens one for itself
        command = msgspec.structs.replace(command, session=msgspec.structs.replace(command.session, token=id))
    return msgspec.structs.replace(command, bearer=id)


def every_command_needs_the_same_of_a_token_as_the_request_for_it() -> None:
    assert {type(command) for command, _ in SAMPLES} == set(get_args(c.Command)) == set(rights.NEEDS)
    for command, operation in SAMPLES:
        assert rights.NEEDS[type(command)] == NEEDED_AT_THE_DOOR[operation], operation


@pytest.mark.parametrize("command", [command for command, _ in SAMPLES], ids=lambda one: type(one).__name__)
def nothing_is_carried_out_for_a_token_that_was_revoked_or_has_expired(
    state: store.Store, command: c.Command
) -> None:
    assert _prepared(state.db, command)[1] == [None]
    assert _prepared(state.db, _by(ADMIN, command))[1] == [None]
    for asked, now_ms in ((_by("ffffffffffff", command), NOW_MS), (_by(OPERATOR, command), NOW_MS + 1000)):
        changes, (wrong,) = _prepared(state.db, asked, now_ms=now_ms)
        assert not changes
        assert isinstance(wrong, Unauthenticated)


@pytest.mark.parametrize("command", [command for command, _ in SAMPLES], ids=lambda one: type(one).__name__)
def nor_for_one_without_the_scope(state: store.Store, command: c.Command) -> None:
    needed = rights.NEEDS[type(command)]
    for token, scope in ((OPERATOR, "operate"), (WRITER, "write")):
        changes, (wrong,) = _prepared(state.db, _by(token, command))
        may = needed in ("read", scope)
        assert bool(changes) is may
        assert isinstance(wrong, Forbidden) is not may


def nor_beyond_what_it_reaches(state: store.Store) -> None:
    elsewhere = msgspec.structs.replace(SCHEDULE, id="billing2/x")
    asked = [
        _by(WRITER, c.PutSchedule(elsewhere)),
        _by(WRITER, c.PutSchedules(msgspec.structs.replace(MANY, ids=["billing2/x"]))),
        _by(WRITER, c.DeleteSchedule("payroll")),
        _by(OPERATOR, c.LaunchNow("billing2/x")),
        _by(OPERATOR, c.CancelLaunch("billing2/x-1799999999")),
    ]
    changes, wrong = _prepared(state.db, *asked)
    assert not changes
    assert [type(each) for each in wrong] == [Forbidden] * 5


@pytest.mark.parametrize(
    "command",
    [
        c.NoteTokenUse({"a": 2**63 + 5}),
        c.NoteTokenUse({"a": 2**62}),
        c.NoteTokenUse({"a": -1}),
        c.CreateToken(msgspec.structs.replace(ADMIN, expires_ms=2**63)),
        c.DeleteSchedule("billing/payroll", expect=2**63),
        c.PutSchedule(SCHEDULE, expect=2**63),
        c.PutSchedules(msgspec.structs.replace(MANY, first_instants_s=[2**62])),
        c.PutSchedules(msgspec.structs.replace(MANY, first_delays_ms=[-1])),
        c.PutSchedules(msgspec.structs.replace(MANY, zones=[])),
        c.PutSchedule(SCHEDULE, restored=-(2**63)),
        c.Backfill("billing/payroll", 2**62, 2**62 + 1),
    ],
    ids=repr,
)
def what_the_state_could_not_keep_does_not_become_an_entry(state: store.Store, command: c.Command) -> None:
    changes, (wrong,) = _prepared(state.db, command)
    assert not changes
    assert isinstance(wrong, InvalidInput)


# On replicas that have not heard the news


def _service(replica: Replica, folder: Path) -> Service:
    return Service(replica, Settings(data=folder))


async def _lagging(town: Town) -> tuple[Replica, Replica]:
    """The leader, and a follower that knows of no revocation any more, and still reaches the leader."""
    leader = await town.leader()
    lagging = next(replica for replica in town.replicas.values() if replica is not leader)
    await leader.propose(put(target=EXEC))
    for token in (ADMIN, WRITER):
        await leader.propose(c.CreateToken(token))
    await town.until(lambda: lagging.meta.tokens_seq == leader.meta.tokens_seq)
    town.handles[lagging.name].cut()
    return leader, lagging


def a_revoked_token_does_nothing_through_a_replica_that_has_not_heard_of_it(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        leader, lagging = await _lagging(town)
        service, caller = _service(lagging, tmp_path), rights.caller_of(ADMIN)
        await leader.propose(c.RevokeToken(ADMIN.id))
        for command in (
            c.LaunchNow("s"),
            put("another", target=EXEC),
            c.RevokeToken(WRITER.id),
        ):
            with pytest.raises(Unauthenticated, match="revoked"):
                await service.propose(caller, command)
        with pytest.raises(Unauthenticated, match="revoked"):
            await service.confirm(caller)
        assert not (await leader.read(views.launches)).items
        assert [view.id for view in (await leader.read(views.schedules)).items] == ["s"]

    in_town(tmp_path, work)


def one_that_holds_works_through_every_replica(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        leader, lagging = await _lagging(town)
        town.handles[lagging.name].heal()
        for replica in (leader, lagging):
            service = _service(replica, tmp_path)
            await service.confirm(rights.caller_of(ADMIN))
            await service.propose(rights.caller_of(ADMIN), put(f"of-{replica.name}", target=EXEC))
            with pytest.raises(Forbidden):
                await service.propose(
                    rights.caller_of(WRITER)._replace(scopes=frozenset(["operate"]), prefixes=()),
                    c.LaunchNow("s"),
                )

    in_town(tmp_path, work)


def one_that_is_behind_takes_no_wishes_of_tokens_and_says_that_nothing_was_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(town: Town) -> None:
        leader, lagging = await _lagging(town)
        town.handles[lagging.name].heal()
        service, caller = _service(lagging, tmp_path), rights.caller_of(ADMIN)
        told_ms = lagging.clock.wall_ms() - BEHIND_MS_MAX - 5_000
        monkeypatch.setattr(Replica, "told_ms", property(lambda _: told_ms))
        for wish in (service.propose(caller, put("another", target=EXEC)), service.confirm(caller)):
            with pytest.raises(NoLeader, match="behind"):
                await wish
        with pytest.raises(TocsinError, match="behind"):
            service.check_is_told(caller)
        service.check_is_told(EVERYBODY)
        assert len((await leader.read(views.schedules)).items) == 1

    in_town(tmp_path, work)


def an_integer_that_nobody_could_keep_does_not_end_the_leader(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        leader = await town.leader()
        with pytest.raises(InvalidInput):
            await leader.propose(c.NoteTokenUse({"a": 2**63 + 5}))
        await leader.propose(put())
        assert leader.is_leader

    in_town(tmp_path, work)


# Targets


TARGETS: dict[str, dict[str, Any]] = {
    "exec": {"kind": "exec", "shell": "true"},
    "exec as backup": {"kind": "exec", "shell": "true", "user": "backup"},
    "http": {"kind": "http", "url": "https://api.example.org/x"},
    "http with another Host": {
        "kind": "http",
        "url": "https://api.example.org/x",
        "headers": {"Host": "elsewhere.net"},
    },
    "http elsewhere": {"kind": "http", "url": "https://elsewhere.net/x"},
    "kafka": {"kind": "kafka", "topic": "team-a.x"},
    "kafka of others": {"kind": "kafka", "topic": "team-b.x"},
    "nats": {"kind": "nats", "subject": "team-a.x"},
    "nats of others": {"kind": "nats", "subject": "team-b.x"},
    "null": {"kind": "null"},
}


@pytest.mark.parametrize(
    ("scopes", "patterns", "may"),
    [
        (("write",), (), set(TARGETS) - {"exec", "exec as backup"}),
        (("write", "exec"), (), set(TARGETS)),
        (("write",), ("exec",), set()),
        (("write", "exec"), ("exec:backup",), {"exec as backup"}),
        (("write",), ("http:*.EXAMPLE.org",), {"http"}),
        (("write",), ("http",), {"http", "http with another Host", "http elsewhere"}),
        (("write",), ("nats:team-a.*", "kafka:team-a.*"), {"nats", "kafka"}),
        (("write",), ("null",), {"null"}),
        (("admin",), (), set(TARGETS)),
    ],
)
def a_token_writes_only_the_targets_that_it_names(
    tmp_path: Path, scopes: tuple[str, ...], patterns: tuple[str, ...], may: set[str]
) -> None:
    """One by one and in an import, as the leader looks at it."""
    token = Token("aa0000000000", "limited", hash_of("x"), scopes, targets=patterns)
    made = store.Store(tmp_path / "state.db")
    changes, _ = _prepared(made.db, c.CreateToken(token))
    apply(made, 1, Entry(b"x" * 16, b"", term=0, time_ms=NOW_MS, changes=changes), b"x")
    for name, target in TARGETS.items():
        schedule = convert({"id": "a/b", "cron": "@daily", "target": target})
        many = msgspec.structs.replace(MANY, ids=["a/b"], specs=[msgspec.msgpack.encode(schedule)])
        for command in (c.PutSchedule(schedule), c.PutSchedules(many)):
            _, (wrong,) = _prepared(made.db, _by(token, command))
            assert (wrong is None) == (name in may), (name, wrong)
            assert wrong is None or isinstance(wrong, Forbidden)
    made.close()


@pytest.mark.parametrize("pattern", ["", "ftp", "http:", "null:x", "http:a b", "kafka:" + "x" * 300, ":x"])
def what_is_no_pattern_of_targets_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_token("ci", ("write",), (), (pattern,))
    assert refused.value.field == "targets"


def an_admin_cannot_be_limited() -> None:
    with pytest.raises(InvalidInput) as refused:
        check_token("ci", ("admin",), (), ("http",))
    assert refused.value.field == "targets"


def a_session_does_what_its_token_may_until_it_expires_is_closed_or_its_token_ends(
    state: store.Store,
) -> None:
    session = Session("5e" * 8, WRITER.id, b"", NOW_MS + 500)
    other = Session("5f" * 8, OPERATOR.id, b"", NOW_MS + 5_000)
    opened = [_by(WRITER, c.OpenSession(session)), _by(OPERATOR, c.OpenSession(other))]
    changes, _ = _prepared(state.db, *opened)
    apply(state, 2, Entry(b"y" * 16, b"x" * 16, term=0, time_ms=NOW_MS, changes=changes), b"y")
    deletes, runs = c.DeleteSchedule("billing/payroll"), c.LaunchNow("billing/payroll")
    assert _prepared(state.db, _by(session.id, deletes))[1] == [None]
    assert isinstance(_prepared(state.db, _by(session.id, runs))[1][0], Forbidden)
    assert isinstance(
        _prepared(state.db, _by(session.id, deletes), now_ms=NOW_MS + 500)[1][0], Unauthenticated
    )
    # A session lasts no longer than its token, however long it was meant to.
    assert _prepared(state.db, _by(other.id, runs), now_ms=NOW_MS + 999)[1] == [None]
    assert isinstance(_prepared(state.db, _by(other.id, runs), now_ms=NOW_MS + 1_000)[1][0], Unauthenticated)
    # It opens no further ones.
    opens = c.OpenSession(Session("60" * 8, WRITER.id, b"", NOW_MS + 500), bearer=session.id)
    assert isinstance(_prepared(state.db, opens)[1][0], Forbidden)
    changes, _ = _prepared(state.db, c.RevokeToken(session.id), c.RevokeToken(OPERATOR.name))
    apply(state, 3, Entry(b"z" * 16, b"y" * 16, term=0, time_ms=NOW_MS, changes=changes), b"z")
    for id in (session.id, other.id):
        assert isinstance(_prepared(state.db, _by(id, deletes))[1][0], Unauthenticated)
