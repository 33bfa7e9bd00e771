"""All that is recorded about one launch, put together from its row, its attempts and what people did to it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from tocsin.errors import NotFound
from tocsin.model.ids import LaunchName, parse_launch_name
from tocsin.model.launch import CLOSED_FROM, LaunchState, StepView
from tocsin.state.tables import started_at


class _Row(NamedTuple):
    lid: int
    state: int
    attempt: int
    planned_ms: int
    asked_ms: int | None
    started_ms: int | None
    attempt_ms: int | None
    accepted_ms: int | None
    ended_ms: int | None
    retry_at_ms: int | None
    exit_code: int | None
    reason: str


class _Step(NamedTuple):
    """``order`` tells which of two comes first that are of the same millisecond."""

    at_ms: int | None
    order: int
    step: str
    attempt: int | None = None
    note: str = ""
    actor: str = ""


def steps(db: sqlite3.Connection, name: str) -> list[StepView]:
    """In the order of time."""
    parts = parse_launch_name(name)
    row = _row(db, parts)
    former = list(_former_attempts(db, row))
    told = [*_before(db, parts, row), *_acts(db, row), *former, *_last_attempt(row, former)]
    known = sorted((step.at_ms, step.order, step) for step in told if step.at_ms is not None)
    return [
        StepView(
            at=datetime.fromtimestamp(at_ms / 1000, UTC),
            step=step.step,
            attempt=step.attempt,
            actor=step.actor,
            note=step.note,
        )
        for at_ms, _, step in known
    ]


def _row(db: sqlite3.Connection, parts: LaunchName) -> _Row:
    found = db.execute(
        "SELECT lid, state, attempt, coalesce(planned_ms, instant_s * 1000), asked_ms, "
        f"{started_at('launch')}, CASE WHEN state = {LaunchState.IN_DOUBT:d} THEN told_ms ELSE attempt_ms END, "
        "accepted_ms, ended_ms, retry_at_ms, exit_code, coalesce(reason, '') FROM launch "
        "WHERE instant_s = ? AND kind = ? AND sid IN "
        "(SELECT sid FROM schedule WHERE id = ? UNION SELECT sid FROM revision WHERE id = ?)",
        (parts.instant_s, int(parts.manual), parts.schedule, parts.schedule),
    ).fetchone()
    if found is None:
        raise NotFound("there is no such launch", hint="'tocsin launches' lists them")
    return _Row(*found)


def _before(db: sqlite3.Connection, parts: LaunchName, row: _Row) -> Iterator[_Step]:
    if not parts.manual:
        yield _Step(row.planned_ms, 0, "planned")
    if row.asked_ms is not None:
        asked = db.execute(
            "SELECT actor FROM record WHERE about = ? AND act = 'backfilled' AND at_ms = ?",
            (parts.schedule, row.asked_ms),
        ).fetchone()
        yield _Step(row.asked_ms, 1, "asked for after the fact", actor="" if asked is None else asked[0])


def _acts(db: sqlite3.Connection, row: _Row) -> Iterator[_Step]:
    acts = db.execute("SELECT at_ms, act, actor, note FROM record WHERE lid = ? ORDER BY rid", (row.lid,))
    for at_ms, act, actor, note in acts:
        yield _Step(at_ms, 2, act, note=note, actor=actor)


def _former_attempts(db: sqlite3.Connection, row: _Row) -> Iterator[_Step]:
    attempts = db.execute(
        "SELECT attempt, started_ms, ended_ms, exit_code, reason FROM attempt WHERE lid = ? ORDER BY attempt",
        (row.lid,),
    )
    for number, began_ms, over_ms, exit_code, reason in attempts:
        yield _Step(began_ms, 10 * number, "started", number)
        yield _Step(over_ms, 10 * number + 2, "attempt ended", number, _with_code(reason, exit_code))


def _last_attempt(row: _Row, former: list[_Step]) -> Iterator[_Step]:
    """What became of it. An attempt that a person judged is among the former ones already."""
    number = row.attempt
    is_told = any(step.attempt == number for step in former)
    if number and not is_told and row.state != LaunchState.SKIPPED:
        yield _Step(row.attempt_ms if number > 1 else row.started_ms, 10 * number, "started", number)
        yield _Step(row.accepted_ms, 10 * number + 1, "accepted by its target", number)
    if row.state == LaunchState.RETRYING:
        yield _Step(row.retry_at_ms, 10 * number + 5, "next attempt planned", number + 1)
    if row.state >= CLOSED_FROM:
        ended = LaunchState(row.state).name.lower()
        yield _Step(
            row.ended_ms, 10 * number + 3, ended, number or None, _with_code(row.reason, row.exit_code)
        )


def _with_code(reason: str, exit_code: int | None) -> str:
    return reason or ("" if exit_code is None else f"exit status {exit_code}")
