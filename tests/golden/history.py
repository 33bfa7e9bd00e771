"""A history in which everything happens that an entry can tell, written by the real decisions as far as they go."""

from __future__ import annotations

import random

from tests.core.desk import FAILED, START, Desk, at, only_flight, put

from tocsin.model import change as c
from tocsin.model.command import (
    Backfill,
    CancelLaunch,
    ConfirmClock,
    CreateToken,
    DeleteSchedule,
    LaunchNow,
    NoteTokenUse,
    OpenSession,
    RepairDue,
    ResolveLaunch,
    RevokeToken,
    SwitchSchedule,
)
from tocsin.model.token import Session, Token
from tocsin.targets.contract import SUCCEEDED, Outcome, Verdict

SCHEDULES = ["every/hour", "every/minute", "large", "queued", "retried", "shell/command", "web/hook"]
"""Some of those that are there at the end, in the order of their ids."""


def first_half(desk: Desk) -> None:
    """Up to the checkpoint that the snapshot is of."""
    _schedules(desk)
    _overlaps(desk)
    _outcomes(desk)
    desk.commit(c.Checkpoint())


def second_half(desk: Desk) -> None:
    _people(desk)
    _absence(desk)
    _tokens(desk)
    _clock(desk)
    desk.commit(c.EntrySkipped(b"an entry no more"))
    desk.commit(c.Checkpoint())
    desk.commit(c.Resigned())


def _schedules(desk: Desk) -> None:
    put(desk, id="every/hour", cron="0 * * * *", timezone="Europe/Berlin", labels={"team": "finance"})
    put(desk, id="every/minute", cron="* * * * *", missed="skip", jitter="5s")
    put(desk, id="large", cron="@yearly", payload=_large(), enabled=False)
    put(
        desk,
        id="web/hook",
        cron="?(0-59) 4 * * MON-FRI",
        target={"kind": "http", "url": "https://payroll.internal/launch", "idempotent": True},
        retry={"limit": 3, "backoff": "2s", "max_backoff": "5m"},
        timeout="1h",
        enabled=False,
        start="2026-01-31T09:00:00Z",
    )
    put(desk, id="shell/command", cron="@at 2099-01-01T00:00:00Z", target={"kind": "exec", "shell": "true"})
    put(desk, id="every/hour", cron="5 * * * *", description="five past, since the backups are slow")
    put(desk, id="gone", cron="0 0 29 2 *")
    desk.command(DeleteSchedule("gone", actor="ann"))
    desk.command_many("ann", id=["imported/a", "imported/b"], cron="@at 2099-01-01T00:00:00Z", enabled=False)


def _large() -> str:
    """Longer than what is compressed from, and not so easily compressed that nothing is left of it."""
    return "".join(random.Random(1).choices("abcdefghijklmnop", k=6_000))


def _overlaps(desk: Desk) -> None:
    put(desk, id="queued", cron="* * * * *", overlap="queue")
    put(desk, id="forbidden", cron="* * * * *", overlap="forbid")
    put(desk, id="replaced", cron="* * * * *", overlap="replace")
    for minute in range(1, 5):
        at(desk, 60 * minute)
    for lid in sorted(desk.flights):
        is_cancelled = lid in desk.cancelled
        desk.end(lid, Outcome(Verdict.FAILED, reason="stopped", exit_code=-15) if is_cancelled else SUCCEEDED)
    desk.turns()
    for name in ("queued", "forbidden", "replaced", "every/minute"):
        desk.command(SwitchSchedule(name, False, note="enough of it", actor="ann"))


def _outcomes(desk: Desk) -> None:
    put(desk, id="retried", cron="@every 10m", retry={"limit": 1, "backoff": "5s", "jitter": 0})
    _end_all(desk)
    at(desk, 1_000)
    lid = only_flight(desk)
    desk.commit(c.HandOversWithdrawn([lid], [1]))
    desk.flights.clear()
    at(desk, 1_001)
    desk.end(only_flight(desk), FAILED)
    at(desk, 1_010)
    lid = only_flight(desk)
    desk.commit(c.LaunchesAccepted([lid], [desk.flights[lid].order.attempt]))
    desk.end(lid, FAILED)


def _people(desk: Desk) -> None:
    desk.take_office()
    desk.hand_over([desk.command(LaunchNow("every/hour", actor="bob"))])
    name = desk.flights[only_flight(desk)].order.name
    desk.command(CancelLaunch(name, "not now", actor="bob"))
    desk.end(only_flight(desk), Outcome(Verdict.UNKNOWN, reason="the connection was lost"))
    desk.command(ResolveLaunch(name, "succeeded", "seen in the log", actor="bob"))
    desk.command(SwitchSchedule("every/minute", True, actor="bob"))
    desk.now_ms += 1_000
    desk.command(Backfill("queued", START + 300, START + 900, actor="bob"))
    desk.turns()
    _end_all(desk)


def _absence(desk: Desk) -> None:
    """Nobody is there for a day: one schedule lets that pass, one makes up for it little by little."""
    put(desk, id="spread", cron="0 * * * *", missed="last", catch_up_spread="1h")
    desk.now_ms += 86_400_000
    desk.take_office()
    desk.turns()
    _end_all(desk)
    desk.now_ms += 3_600_000
    desk.commit(c.ClockDoubted(desk.now_ms - 60_000))
    desk.returned(desk.now_ms - 60_000)
    desk.turns()
    _end_all(desk)
    lids = [
        lid for (lid,) in desk.db.execute("SELECT lid FROM launch WHERE state >= 10 ORDER BY lid LIMIT 4")
    ]
    desk.commit(c.HistoryForgotten(lids, START * 1000 + 120_000))
    desk.command(SwitchSchedule("every/minute", False, note="done", actor="ann"))


def _tokens(desk: Desk) -> None:
    for id, name in (("0123456789ab", "ci"), ("ba9876543210", "ann")):
        token = Token(
            id,
            name,
            name.encode().ljust(32, b"."),
            ("read", "write"),
            ("every/",),
            desk.now_ms * 2,
            ("nats:every.*",),
        )
        desk.command(CreateToken(token, actor="ann"))
    for id in ("0123456789abcdef", "fedcba9876543210"):
        session = Session(id, "0123456789ab", id.encode().ljust(32, b"."), desk.now_ms * 2, "192.0.2.7")
        desk.command(OpenSession(session, actor="ci"))
    desk.command(RevokeToken("fedcba9876543210", actor="ci"))
    desk.command(NoteTokenUse({"0123456789ab": desk.now_ms, "0123456789abcdef": desk.now_ms}))
    desk.command(RevokeToken("ba9876543210", actor="ann"))


def _clock(desk: Desk) -> None:
    """It was ten days ahead, confirmed by mistake, and is right again before anything was decided."""
    for days in (10, -10):
        desk.now_ms += days * 86_400_000
        desk.command(ConfirmClock(desk.now_ms, actor="ann"))
    desk.command(RepairDue(["every/hour"], is_last=True, actor="ann"))


def _end_all(desk: Desk) -> None:
    while desk.flights:
        for lid in sorted(desk.flights):
            desk.end(lid, SUCCEEDED)
        desk.turns()
