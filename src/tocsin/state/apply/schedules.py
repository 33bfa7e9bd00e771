"""Definitions come, change and go.

The former version is kept as a revision: open launches go on with it, and ``why`` can tell what was in force.
An id keeps its number as long as anything of it is kept, also when it is deleted and made again: so no occurrence of
an id is launched twice under the same name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from tocsin.errors import AlreadyExists, NotFound, Refused, VersionConflict
from tocsin.model import change as c
from tocsin.model.launch import RECORD_LOST, LaunchKind, LaunchState
from tocsin.model.rule import Missed, Rule, decode_rule, encode_rule
from tocsin.model.schedule import Schedule, is_same
from tocsin.state import minutes
from tocsin.state.apply.clock import unmiss
from tocsin.state.apply.context import Context
from tocsin.state.apply.launches import end_waiting
from tocsin.state.queries import FORGOTTEN_UPTO_S
from tocsin.state.retention import VERSION_IS_UNUSED
from tocsin.state.store import Meta

VERSIONS_KEPT = 200
"""Former versions of one schedule, beside those that launches refer to."""
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Schedule).decode


class Put(int):
    """The version that a put left behind, and how it came about: created, edited, restored or unchanged."""

    act: str
    row: tuple[object, ...] | None
    """Of one that was created, as ``views`` reads it: whoever asked for it need not look. None: they have to."""

    def __new__(cls, version: int, act: str, row: tuple[object, ...] | None = None) -> Put:
        put = super().__new__(cls, version)
        put.act = act
        put.row = row
        return put


class _Present(NamedTuple):
    sid: int
    version: int
    enabled: int
    resolved: str
    zone: str
    rule: bytes | None
    since_ms: int
    created_ms: int
    spec: bytes
    note: str | None
    act: str
    actor: str


def put(context: Context, change: c.SchedulePut) -> object:
    """Returns a ``Put``, or why not."""
    present = _present(context, change.schedule.id)
    refusal = _check_version(change.schedule.id, present, change.expect)
    if refusal is not None:
        return refusal
    if present is None:
        return _create(context, change)
    return _replace(context, change, present)


def deleted(context: Context, change: c.ScheduleDeleted) -> object:
    present = _present(context, change.id)
    if present is None:
        return NotFound(f"there is no schedule {change.id!r}", hint="'tocsin list' shows all")
    refusal = _check_version(change.id, present, change.expect)
    if refusal is not None:
        return refusal
    _account_for_overdue(context, present, "the schedule was deleted before it could be launched")
    _keep_revision(context, change.id, present, "deleted")
    context.record("deleted", change.id, change.actor, version=present.version)
    context.db.execute("DELETE FROM due WHERE sid = ?", (present.sid,))
    context.db.execute("DELETE FROM schedule WHERE sid = ?", (present.sid,))
    context.meta.schedules -= 1
    context.meta.enabled -= present.enabled
    return present.version


def switched(context: Context, change: c.ScheduleSwitched) -> object:
    """Pause or resume. Doing what is already so makes no version; a newer note on a pause is kept."""
    present = _present(context, change.id)
    if present is None:
        return NotFound(f"there is no schedule {change.id!r}", hint="'tocsin list' shows all")
    refusal = _check_version(change.id, present, change.expect)
    if refusal is not None:
        return refusal
    if bool(present.enabled) == change.enabled:
        if change.note and change.note != present.note and not change.enabled:
            context.db.execute("UPDATE schedule SET note = ? WHERE sid = ?", (change.note, present.sid))
            context.record("paused", change.id, change.actor, version=present.version, note=change.note)
        return present.version
    _account_for_overdue(context, present, "the schedule was paused before it could be launched")
    act = "resumed" if change.enabled else "paused"
    _keep_revision(context, change.id, present, act)
    spec = msgspec.structs.replace(_decode(present.spec), enabled=change.enabled)
    context.db.execute(
        "UPDATE schedule SET enabled = ?, version = version + 1, since_ms = ?, spec = ?, note = ?, act = ?, actor = ? "
        "WHERE sid = ?",
        (
            int(change.enabled),
            context.entry.time_ms,
            _encode(spec),
            change.note or None,
            act,
            change.actor,
            present.sid,
        ),
    )
    context.record(act, change.id, change.actor, version=present.version + 1, note=change.note)
    context.meta.enabled += int(change.enabled) - present.enabled
    _set_due(context, present.sid, change.first_instant_s, change.first_delay_ms)
    return present.version + 1


def _create(context: Context, change: c.SchedulePut) -> Put:
    db, meta, entry = context
    former = db.execute(
        "SELECT sid, version FROM revision WHERE id = ? ORDER BY version DESC LIMIT 1", (change.schedule.id,)
    ).fetchone()
    if former is None:
        sid, version = meta.next_sid, 1
        meta.next_sid += 1
    else:
        sid, version = former[0], former[1] + 1
        reason = "the schedule was deleted while this launch waited"
        waits = f"sid = :sid AND state = {LaunchState.QUEUED:d}"
        end_waiting(context, LaunchState.SKIPPED, waits, {"sid": sid}, reason)
    schedule, spec = change.schedule, _encode(change.schedule)
    db.execute(
        "INSERT INTO schedule VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, ?, ?)",
        (
            sid,
            schedule.id,
            version,
            int(schedule.enabled),
            change.resolved,
            schedule.timezone,
            encode_rule(schedule.rule()),
            entry.time_ms,
            entry.time_ms,
            spec,
            _act(change, "created"),
            change.actor,
        ),
    )
    _record_put(context, change, "created", version)
    meta.schedules += 1
    meta.enabled += int(schedule.enabled)
    next_s = _set_due(
        context, sid, change.first_instant_s, change.first_delay_ms, change.skip_past, is_new=former is None
    )
    row = (schedule.id, version, change.resolved, entry.time_ms, entry.time_ms, spec, None, next_s)
    return Put(version, _act(change, "created"), row)


def _replace(context: Context, change: c.SchedulePut, present: _Present) -> Put:
    """Replace. Where the timing is as before the due row stays as it is: an edit of a description neither repeats
    nor drops an occurrence."""
    schedule = change.schedule
    former = _decode(present.spec)
    if is_same(schedule, former):
        return Put(present.version, "unchanged")
    rule = encode_rule(schedule.rule())
    same_timing = (change.resolved, schedule.timezone, _timing(rule), schedule.enabled) == (
        present.resolved,
        present.zone,
        _timing(present.rule),
        bool(present.enabled),
    )
    if not same_timing:
        _account_for_overdue(context, present, "the schedule was edited before it could be launched")
    _keep_revision(context, schedule.id, present, _act(change, "edited"))
    context.db.execute(
        "UPDATE schedule SET version = version + 1, enabled = ?, resolved = ?, zone = ?, rule = ?, since_ms = ?, "
        "spec = ?, note = CASE WHEN ? THEN NULL ELSE note END, act = ?, actor = ? WHERE sid = ?",
        (
            int(schedule.enabled),
            change.resolved,
            schedule.timezone,
            rule,
            context.entry.time_ms,
            _encode(schedule),
            int(schedule.enabled),
            _act(change, "edited"),
            change.actor,
            present.sid,
        ),
    )
    _record_put(context, change, "edited", present.version + 1)
    context.meta.enabled += int(schedule.enabled) - present.enabled
    if not same_timing:
        _set_due(context, present.sid, change.first_instant_s, change.first_delay_ms, change.skip_past)
    return Put(present.version + 1, _act(change, "edited"))


def _timing(rule: bytes | None) -> Rule:
    """What of the rule says when: whether a launch in doubt may be repeated does not."""
    return msgspec.structs.replace(decode_rule(rule), may_repeat=False)


def _act(change: c.SchedulePut, otherwise: str) -> str:
    return otherwise if change.restored is None else "restored"


def _record_put(context: Context, change: c.SchedulePut, otherwise: str, version: int) -> None:
    note = "" if change.restored is None else f"as it was at version {change.restored}"
    context.record(_act(change, otherwise), change.schedule.id, change.actor, version=version, note=note)


def _present(context: Context, schedule_id: str) -> _Present | None:
    found = context.db.execute(
        "SELECT sid, version, enabled, resolved, zone, rule, since_ms, created_ms, spec, note, act, actor "
        "FROM schedule WHERE id = ?",
        (schedule_id,),
    ).fetchone()
    return None if found is None else _Present(*found)


def _check_version(schedule_id: str, present: _Present | None, expect: int | None) -> Refused | None:
    version = 0 if present is None else present.version
    if expect is None or expect == version:
        return None
    if expect == 0:
        return AlreadyExists(
            f"the schedule {schedule_id!r} exists already, at version {version}",
            hint="use apply to change it",
        )
    if present is None:
        return NotFound(f"there is no schedule {schedule_id!r}", hint="'tocsin list' shows all")
    return VersionConflict(
        f"the schedule {schedule_id!r} is at version {version}, not {expect}",
        hint="read it again and repeat the edit on what it is now",
    )


def _account_for_overdue(context: Context, present: _Present, reason: str) -> None:
    """Occurrences whose instant has come, and that were not reached yet (a backlog, jitter, catching up), are
    recorded as skipped, the first as a launch and the rest as a stretch: the new version knows nothing of them. One
    that was launched before, because a clock was ahead, keeps its record."""
    overdue = context.db.execute(
        "SELECT instant_s FROM due WHERE sid = ? AND instant_s * 1000 <= ?",
        (present.sid, context.entry.time_ms),
    ).fetchone()
    if overdue is None:
        return
    if not _has_launch(context, present.sid, overdue[0]):
        _record_skipped(context, present.sid, present.version, overdue[0], reason)
    behind_s, before_s = overdue[0] + 1, context.entry.time_ms // 1000 + 1
    while behind_s < before_s:
        until_s = min(before_s, _same_until_s(context.meta, behind_s))
        told = _told_of_loss(context.meta, behind_s, reason)
        context.db.execute(
            "INSERT OR REPLACE INTO missed VALUES (?, ?, ?, ?, ?, ?)",
            (present.sid, behind_s, until_s, present.version, context.entry.time_ms, told),
        )
        behind_s = until_s


def _losses(meta: Meta) -> Iterator[tuple[int, int]]:
    """Times whose record was lost: from this second, before that one."""
    for from_ms, until_ms in (
        (meta.lost_due_ms, meta.doubtful_until_ms),
        (meta.lost_ahead_from_ms, meta.lost_ahead_until_ms),
    ):
        if from_ms < until_ms:
            yield -(-from_ms // 1000), -(-until_ms // 1000)


def _told_of_loss(meta: Meta, instant_s: int, reason: str) -> str:
    """Why it is skipped. If the record of that time was lost, nobody knows whether it had been launched."""
    if any(from_s <= instant_s < before_s for from_s, before_s in _losses(meta)):
        return f"{RECORD_LOST}, it may have been launched; {reason}"
    return reason


def _same_until_s(meta: Meta, instant_s: int) -> int:
    """Up to that second it is the same of all instants from this one on whether their record was lost."""
    ends = [end_s for loss in _losses(meta) for end_s in loss if end_s > instant_s]
    return min(ends, default=1 << 60)


def _record_skipped(context: Context, sid: int, version: int, instant_s: int, reason: str) -> None:
    db, _, entry = context
    (lid,) = context.take_lids(1)
    reason = _told_of_loss(context.meta, instant_s, reason)
    db.execute(
        "INSERT INTO launch (lid, sid, version, instant_s, kind, state, attempt, term, ended_ms, reason) "
        f"VALUES (?, ?, ?, ?, {LaunchKind.SCHEDULED:d}, {LaunchState.SKIPPED:d}, 0, ?, ?, ?)",
        (lid, sid, version, instant_s, entry.term, entry.time_ms, reason),
    )
    minutes.count_skips(db, entry.time_ms, (reason,))


def _keep_revision(context: Context, schedule_id: str, present: _Present, ended_by: str) -> None:
    context.db.execute(
        "INSERT INTO revision VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            present.sid,
            present.version,
            schedule_id,
            present.since_ms,
            context.entry.time_ms,
            present.created_ms,
            present.enabled,
            present.resolved,
            present.zone,
            present.spec,
            present.note,
            present.act,
            present.actor,
            ended_by,
            context.meta.next_lid,
        ),
    )
    if present.version > VERSIONS_KEPT:
        _forget_surplus_versions(context, present)


def _forget_surplus_versions(context: Context, present: _Present) -> None:
    """A program that edits every minute must not fill the disk; what a launch refers to stays."""
    context.db.execute(
        f"DELETE FROM revision WHERE sid = :sid AND version <= :upto AND {VERSION_IS_UNUSED}",
        {
            "sid": present.sid,
            "upto": present.version - VERSIONS_KEPT,
            "counted_lid": context.meta.counted_lid,
        },
    )


def _set_due(
    context: Context,
    sid: int,
    instant_s: int | None,
    delay_ms: int,
    skip_past: bool = False,
    *,
    is_new: bool = False,
) -> int | None:
    """One due row or none; returns its instant. An instant that has a launch already is never due again, and its record
    stays as it is; one that had passed before it was asked for (``@at``) counts as missed. ``is_new``: nothing was ever
    recorded of this sid."""
    db, _, entry = context
    if not is_new:
        db.execute("DELETE FROM due WHERE sid = ?", (sid,))
    if instant_s is None:
        return None
    if not is_new and (_has_launch(context, sid, instant_s) or _may_have_had(context, sid, instant_s)):
        return None
    version, rule = db.execute("SELECT version, rule FROM schedule WHERE sid = ?", (sid,)).fetchone()
    if skip_past and instant_s * 1000 < entry.time_ms:
        _record_skipped(context, sid, version, instant_s, "the moment had passed when it was imported")
        return None
    if instant_s * 1000 + delay_ms < entry.time_ms and decode_rule(rule).missed is Missed.SKIP:
        _record_skipped(
            context, sid, version, instant_s, "missed: the moment had passed when it was asked for"
        )
        return None
    db.execute("INSERT INTO due VALUES (?, ?, ?)", (instant_s * 1000 + delay_ms, sid, instant_s))
    if context.meta.ahead_until_ms > entry.time_ms:
        unmiss(context, sid, instant_s)
    return instant_s


def _has_launch(context: Context, sid: int, instant_s: int) -> bool:
    found = context.db.execute(
        "SELECT 1 FROM launch WHERE sid = ? AND instant_s = ? AND kind = ?",
        (sid, instant_s, int(LaunchKind.SCHEDULED)),
    ).fetchone()
    return found is not None


def _may_have_had(context: Context, sid: int, instant_s: int) -> bool:
    """Its record may have been deleted, be it by this very entry."""
    found = context.db.execute(
        f"SELECT {FORGOTTEN_UPTO_S} >= :instant_s OR max(epoch AND :instant_s BETWEEN from_s AND upto_s) "
        "FROM forgotten WHERE sid = :sid",
        {"sid": sid, "instant_s": instant_s, "now_s": context.entry.time_ms // 1000},
    ).fetchone()
    return bool(found[0])
