"""What becomes of launches that exist.

Every outcome names the attempt that it belongs to. One that comes too late (the launch is closed, or a further
attempt has begun) changes nothing.
"""

from __future__ import annotations

from itertools import groupby, repeat
from operator import itemgetter
from typing import Any

import msgspec

from tocsin.cron import parse_duration
from tocsin.errors import AlreadyExists, NotFound, Refused
from tocsin.model import change as c
from tocsin.model.ids import launch_name
from tocsin.model.launch import CLOSED_FROM, EARLIER_CALL, HELD_MS, RESOLVED, LaunchKind, LaunchState
from tocsin.model.rule import Overlap, decode_rule
from tocsin.state import minutes
from tocsin.state.apply import calls
from tocsin.state.apply.context import HERD, Context, is_uniform, numbers

_OPEN = f"state < {CLOSED_FROM}"
_WAITS = "waits for the launch before it"
_NOT_AGAIN = "it is not tried again, because another launch of its schedule has its place"
_NOT_WANTED = "it is not tried again, because it was to be stopped"
_IN_THE_WAY = f"NOT (state = {LaunchState.QUEUED:d} AND asked_ms IS NOT NULL)"
"""What was asked for after the fact waits for everything, and nothing waits for it."""

_ENDED = "min(max({told}, coalesce(attempt_ms, started_ms, 0)), max({told}, {now:d}))"
"""No end is before its call, whatever clock it was noted by, unless the clock was set back since: an end that is still
to come would be kept too long."""


class _Timed(msgspec.Struct, frozen=True):
    timeout: str | None = None


_decode = msgspec.msgpack.Decoder(_Timed).decode


def attempts_started(context: Context, change: c.AttemptsStarted) -> None:
    entry = context.entry
    minutes.count_attempts(context.db, entry.time_ms, change.lids, change.attempts)
    calls.start_again(context, change.lids, change.attempts, change.doubtful)
    doubtful = repeat(None) if change.doubtful is None else (True if it else None for it in change.doubtful)
    context.db.executemany(
        f"UPDATE launch SET state = {LaunchState.STARTED:d}, attempt = ?1, term = ?2, retry_at_ms = NULL, "
        "started_ms = coalesce(started_ms, ?3), attempt_ms = ?3, told_ms = NULL, accepted_ms = NULL, reason = NULL, "
        "relaunched = CASE WHEN ?5 IS NULL THEN relaunched END, "
        f"doubt = coalesce(doubt, ?5 * ?1) WHERE lid = ?4 AND {_OPEN}",
        zip(change.attempts, repeat(entry.term), repeat(entry.time_ms), change.lids, doubtful, strict=False),
    )


def cancels_ordered(context: Context, change: c.CancelsOrdered) -> None:
    for lid, reason in zip(change.lids, change.reasons, strict=True):
        _cancel(context, lid, reason)


def accepted(context: Context, change: c.LaunchesAccepted) -> None:
    calls.note(context, change.lids, change.attempts, change.called_ms)
    context.db.executemany(
        f"UPDATE launch SET state = {LaunchState.RUNNING:d}, accepted_ms = ?, "
        "called_ms = CASE WHEN attempt = 1 THEN coalesce(called_ms, attempt_ms, started_ms) ELSE called_ms END, "
        "told_ms = coalesce(told_ms, attempt_ms) "
        f"WHERE lid = ? AND attempt = ? AND state = {LaunchState.STARTED:d}",
        zip(repeat(context.entry.time_ms), change.lids, change.attempts, strict=False),
    )


def succeeded(context: Context, change: c.LaunchesSucceeded) -> None:
    calls.note(context, change.lids, change.attempts, change.called_ms)
    over = _ENDED.format(told="?1", now=context.entry.time_ms)
    columns = (change.attempts, change.ended_ms, change.exit_codes)
    if len(change.lids) >= HERD and all(map(is_uniform, columns)):
        touched = context.db.execute(
            f"UPDATE launch SET state = {LaunchState.SUCCEEDED:d}, ended_ms = {over}, exit_code = ?2, reason = NULL, "
            "held_ms = NULL "
            f"WHERE lid IN (SELECT value FROM json_each(?3)) AND attempt = ?4 AND {_OPEN}",
            (
                context.entry.time_ms if change.ended_ms is None else change.ended_ms[0],
                None if change.exit_codes is None else change.exit_codes[0],
                numbers(change.lids),
                change.attempts[0],
            ),
        ).rowcount
        return minutes.count(context.db, context.entry.time_ms, succeeded=touched)
    ended = repeat(context.entry.time_ms) if change.ended_ms is None else iter(change.ended_ms)
    codes = repeat(None) if change.exit_codes is None else iter(change.exit_codes)
    touched = context.db.executemany(
        f"UPDATE launch SET state = {LaunchState.SUCCEEDED:d}, ended_ms = {over}, exit_code = ?2, reason = NULL, "
        "held_ms = NULL "
        f"WHERE lid = ?3 AND attempt = ?4 AND {_OPEN}",
        zip(ended, codes, change.lids, change.attempts, strict=False),
    ).rowcount
    return minutes.count(context.db, context.entry.time_ms, succeeded=touched)


def ended(context: Context, change: c.LaunchesEnded) -> None:
    """State by state, so that each knows how many took effect. Whoever made a call in this very term and does not know
    how it ended has the last word: then the doubt is of that attempt, whatever a later one comes to."""
    calls.note(context, change.lids, change.attempts, change.called_ms)
    rows = zip(
        change.states,
        change.reasons,
        change.ended_ms,
        change.exit_codes,
        change.lids,
        change.attempts,
        repeat(None) if change.held_ms is None else change.held_ms,
        strict=False,
    )
    is_ours = f"term = {context.entry.term:d}"
    over = _ENDED.format(told="?3", now=context.entry.time_ms)
    for state, alike in groupby(sorted(rows, key=itemgetter(0)), itemgetter(0)):
        some = list(alike)
        if state == LaunchState.SKIPPED:
            some = _without_doubtful(context, some)
            calls.was_none(context, [row[4] for row in some], [row[5] for row in some])
        doubt = f"CASE WHEN {is_ours} THEN attempt END" if state == LaunchState.IN_DOUBT else "NULL"
        # A skipped launch was not called: the attempt that was about to begin did not begin.
        made = f"attempt - (state IN ({LaunchState.STARTED:d}, {LaunchState.RUNNING:d}))"
        touched = context.db.executemany(
            f"UPDATE launch SET attempt = {made if state == LaunchState.SKIPPED else 'attempt'}, "
            f"state = ?1, reason = ?2, ended_ms = {over}, exit_code = ?4, retry_at_ms = NULL, "
            f"held_ms = ?7, doubt = coalesce(doubt, {doubt}) WHERE lid = ?5 AND attempt = ?6 AND {_OPEN}",
            some,
        ).rowcount
        minutes.count_ends(context.db, context.entry.time_ms, state, touched)


def _without_doubtful(context: Context, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """That a repeat is not made says nothing of the call before it: such launches are in doubt again. Returns the
    others."""
    found = context.db.execute(
        f"SELECT lid FROM launch WHERE lid IN (SELECT value FROM json_each(?)) AND doubt IS NOT NULL AND {_OPEN}",
        (numbers([row[4] for row in rows]),),
    )
    doubtful = {lid for (lid,) in found}
    for _, reason, _, _, lid, attempt, _ in rows:
        if lid in doubtful:
            which = {"lid": lid, "attempt": attempt}
            end_waiting(context, LaunchState.SKIPPED, "lid = :lid AND attempt = :attempt", which, reason)
    return [row for row in rows if row[4] not in doubtful]


def end_waiting(
    context: Context, state: LaunchState, which: str, values: dict[str, int], reason: str | None = None
) -> None:
    """Open launches that nobody calls any more end in this state; those of which a former call may have gone out are in
    doubt. No reason: the one for which they are cancelled. A repeat that was taken back has taken the number of the
    attempt back too: what is in doubt has the number of the attempt that is."""
    db, _, entry = context
    known = {**values, "now": entry.time_ms, "why": reason}
    doubtful = db.execute(
        "SELECT l.lid, coalesce(s.spec, r.spec) FROM launch l "
        "LEFT JOIN schedule s ON s.sid = l.sid AND s.version = l.version "
        "LEFT JOIN revision r ON r.sid = l.sid AND r.version = l.version WHERE l.lid IN "
        f"(SELECT lid FROM launch WHERE doubt IS NOT NULL AND {_OPEN} AND {which})",
        values,
    ).fetchall()
    db.executemany(
        f"UPDATE launch SET state = {LaunchState.IN_DOUBT:d}, ended_ms = ?, retry_at_ms = NULL, held_ms = ?, "
        "attempt = max(attempt, doubt), told_ms = CASE WHEN attempt < doubt THEN NULL ELSE told_ms END, "
        "reason = coalesce(?, cancel) || '; attempt ' || doubt || ' may have been made before' WHERE lid = ?",
        [(entry.time_ms, entry.time_ms + held_for_ms(spec), reason, lid) for lid, spec in doubtful],
    )
    calls.were_none(context, f"doubt IS NULL AND {which}", values)
    certain = db.execute(
        f"UPDATE launch SET state = {state:d}, ended_ms = :now, retry_at_ms = NULL, reason = coalesce(:why, cancel) "
        f"WHERE doubt IS NULL AND {_OPEN} AND {which}",
        known,
    ).rowcount
    minutes.count_ends(db, entry.time_ms, LaunchState.IN_DOUBT, len(doubtful))
    minutes.count_ends(db, entry.time_ms, state, certain)


def held_for_ms(spec: bytes) -> int:
    """For so long it may still run."""
    timeout = _decode(spec).timeout
    return HELD_MS if timeout is None else parse_duration(timeout, field="timeout") * 1000


def attempts_failed(context: Context, change: c.AttemptsFailed) -> None:
    """The attempt is recorded and the launch waits; one that is to be stopped is stopped here instead."""
    db = context.db
    calls.note(context, change.lids, change.attempts, change.called_ms)
    columns = zip(
        change.lids,
        change.attempts,
        change.ended_ms,
        change.exit_codes,
        change.reasons,
        change.retry_at_ms,
        change.doubtful,
        [None] * len(change.lids) if change.held_ms is None else change.held_ms,
        strict=True,
    )
    for lid, attempt, ended_ms, exit_code, reason, retry_at_ms, is_doubtful, held_ms in columns:
        touched = db.execute(
            f"UPDATE launch SET state = {LaunchState.RETRYING:d}, retry_at_ms = ?1, reason = ?2, exit_code = ?3, "
            "relaunched = CASE WHEN ?4 IS NULL THEN relaunched END, doubt = coalesce(doubt, ?4), "
            f"held_ms = coalesce(?7, held_ms) WHERE lid = ?5 AND attempt = ?6 AND {_OPEN}",
            (retry_at_ms, reason, exit_code, attempt if is_doubtful else None, lid, attempt, held_ms),
        ).rowcount
        if touched:
            _keep_attempt(context, lid, attempt, ended_ms, exit_code, reason, is_doubtful=is_doubtful)
            _close_if_cancelled(context, lid)


def hand_overs_withdrawn(context: Context, change: c.HandOversWithdrawn) -> None:
    """As if the attempt had not begun: it is due at once. What is in doubt of the calls before it stays so."""
    for lid, attempt in zip(change.lids, change.attempts, strict=True):
        context.db.execute(
            f"UPDATE launch SET state = {LaunchState.RETRYING:d}, attempt = attempt - 1, retry_at_ms = ?, "
            "accepted_ms = NULL, reason = 'the leader left office before the call' WHERE lid = ? AND attempt = ? "
            f"AND state IN ({LaunchState.STARTED:d}, {LaunchState.RUNNING:d})",
            (context.entry.time_ms, lid, attempt),
        )
        _close_if_cancelled(context, lid)


def requested(context: Context, change: c.LaunchRequested) -> object:
    """Run now. The owner's overlap policy holds for a person too."""
    db, _, entry = context
    found = db.execute("SELECT sid, version, rule FROM schedule WHERE id = ?", (change.id,)).fetchone()
    if found is None:
        return NotFound(f"there is no schedule {change.id!r}", hint="'tocsin list' shows all")
    sid, version, rule = found
    taken = "SELECT 1 FROM launch WHERE sid = ? AND instant_s = ? AND kind = ?"
    if db.execute(taken, (sid, change.instant_s, int(LaunchKind.MANUAL))).fetchone():
        name = launch_name(change.id, change.instant_s, manual=True)
        return AlreadyExists(
            f"{name!r} was launched by hand in this very second", hint="try again in a second"
        )
    by = f"the run-now of {change.instant_s}"
    state = _state_beside_open(context, sid, decode_rule(rule).overlap, by)
    if isinstance(state, Refused):
        return state
    (lid,) = context.take_lids(1)
    is_started = state is LaunchState.STARTED
    reason = None if is_started else _WAITS
    db.execute(
        "INSERT INTO launch (lid, sid, version, instant_s, kind, state, attempt, term, started_ms, reason) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            lid,
            sid,
            version,
            change.instant_s,
            int(LaunchKind.MANUAL),
            int(state),
            1 if is_started else 0,
            entry.term,
            entry.time_ms if is_started else None,
            reason,
        ),
    )
    minutes.count(db, entry.time_ms, started=int(is_started))
    context.record("launched", change.id, change.actor, version=version, lid=lid)
    return lid


def _beside(context: Context, sid: int, but: int) -> list[tuple[int, int]]:
    """Other launches of the schedule, and their states: what is open, and what is in doubt and keeps its place."""
    return context.db.execute(
        f"SELECT lid, state FROM launch WHERE sid = :sid AND {_OPEN} AND {_IN_THE_WAY} AND lid <> :but UNION ALL "
        "SELECT lid, state FROM launch INDEXED BY launch_held WHERE sid = :sid AND held_ms > :now AND lid <> :but "
        f"AND state >= {CLOSED_FROM}",
        {"sid": sid, "but": but, "now": context.entry.time_ms},
    ).fetchall()


def _state_beside_open(
    context: Context, sid: int, overlap: Overlap, by: str, but: int = 0
) -> LaunchState | Refused:
    """What a launch that a person wants becomes, given what is open beside it."""
    if overlap is Overlap.ALLOW:
        return LaunchState.STARTED
    open_launches = _beside(context, sid, but)
    if not open_launches:
        return LaunchState.STARTED
    if overlap is Overlap.FORBID:
        in_doubt = all(state == LaunchState.IN_DOUBT for _, state in open_launches)
        return Refused(
            f"another launch of this schedule is {'in doubt' if in_doubt else 'open'} and its overlap policy is "
            "'forbid'",
            hint="resolve it" if in_doubt else "wait for it, or cancel it",
        )
    waiting = [lid for lid, state in open_launches if state == LaunchState.QUEUED]
    if overlap is Overlap.QUEUE and waiting:
        return Refused("a launch of this schedule is waiting already, and one may wait", hint="wait for it")
    if overlap is Overlap.REPLACE:
        for lid, _ in open_launches:
            _cancel(context, lid, f"replaced by {by}")
        return LaunchState.QUEUED if _beside(context, sid, but) else LaunchState.STARTED
    return LaunchState.QUEUED


def cancel_requested(context: Context, change: c.CancelRequested) -> object:
    """Returns the launch's number: the leader then tells the target. One that is in doubt stays so: it may run on a
    replica that is silent, and is stopped if that replica tells so."""
    found = _named(context, change)
    if isinstance(found, Refused):
        return found
    lid, state, _ = found
    if state >= CLOSED_FROM and state != LaunchState.IN_DOUBT:
        name = launch_name(change.schedule, change.instant_s, change.manual)
        return Refused(
            f"{name!r} has ended as {LaunchState(state).name.lower()}", hint="there is nothing to stop"
        )
    if state == LaunchState.IN_DOUBT:
        context.db.execute("UPDATE launch SET cancel = ? WHERE lid = ?", (change.reason, lid))
    else:
        _cancel(context, lid, change.reason)
    context.record("cancelled", change.schedule, change.actor, lid=lid, note=change.reason)
    return lid


def resolved(context: Context, change: c.LaunchResolved) -> object:
    """A person ends the doubt, or a replica tells how the call ended. Returns the launch's number: the leader calls it
    again if that is what is wanted, and if its overlap policy lets it start. To call it again ends no doubt about the
    former call: the repeat may be refused, cancelled or given up."""
    found = _named(context, change)
    if isinstance(found, Refused):
        return found
    lid, state, attempt = found
    if state != LaunchState.IN_DOUBT:
        name = launch_name(change.schedule, change.instant_s, change.manual)
        return Refused(
            f"{name!r} is not in doubt: it is {LaunchState(state).name.lower()}",
            hint="only what is in doubt can be resolved",
        )
    if change.attempt not in (None, attempt):
        return Refused(f"attempt {change.attempt} is not the one that is in doubt", hint="it changes nothing")
    if change.state == LaunchState.SKIPPED and _was_tried_before(context, lid):
        if change.attempt is None:
            return Refused(
                "an attempt of it was made: it was not skipped, whatever became of the others",
                hint="resolve it as failed, or have it launched again: 'tocsin resolve NAME --as relaunch'",
            )
        change = msgspec.structs.replace(change, state=int(LaunchState.FAILED))
    if change.attempt is not None and change.state is not None:
        outcome = _end_told(context, lid, change)
    else:
        again = _state_again(context, lid, change.instant_s) if change.state is None else None
        if isinstance(again, Refused):
            return again
        _keep_doubt(context, lid, attempt)
        outcome = _end_doubt(context, lid, change) if again is None else _call_again(context, lid, again)
    note = f"{outcome}: {change.note}" if change.note else outcome
    context.record("resolved", change.schedule, change.actor, lid=lid, note=note)
    return lid


def _was_tried_before(context: Context, lid: int) -> bool:
    """Did an attempt of it end for certain: one before the last, or the last one after a doubt?"""
    certain = "EXISTS (SELECT 1 FROM attempt a WHERE a.lid = launch.lid AND NOT a.doubtful)"
    query = f"SELECT reason LIKE '%{EARLIER_CALL}%' OR {certain} FROM launch WHERE lid = ?"
    (found,) = context.db.execute(query, (lid,)).fetchone()
    return bool(found)


def _call_again(context: Context, lid: int, again: LaunchState) -> str:
    db, _, entry = context
    is_started = again is LaunchState.STARTED
    # A launch that may have had its turn in a lost record was called for the first time then, if at all.
    db.execute(
        "UPDATE launch SET state = ?1, attempt = max(attempt + ?2, 1 + ?2), term = ?3, attempt_ms = ?4, "
        "told_ms = NULL, started_ms = coalesce(started_ms, ?4), accepted_ms = NULL, ended_ms = NULL, cancel = NULL, "
        "doubt = coalesce(doubt, max(attempt, 1)), relaunched = max(attempt, 1) + 1, held_ms = NULL, "
        "reason = ?5 WHERE lid = ?6",
        (again, is_started, entry.term, entry.time_ms, None if is_started else _WAITS, lid),
    )
    minutes.count(db, entry.time_ms, retries=int(is_started))
    return "launched again"


def _end_told(context: Context, lid: int, change: c.LaunchResolved) -> str:
    """As if the answer had come in time, unless it is to be tried again and cannot be any more."""
    assert change.attempt is not None
    calls.note_doubted(context, lid, change.attempt, change.called_ms)
    is_retry = change.state == LaunchState.RETRYING
    why_not = _why_not_again(context, lid)
    if is_retry and why_not is None:
        ended_ms = context.entry.time_ms if change.ended_ms is None else change.ended_ms
        context.db.execute(
            f"UPDATE launch SET state = {LaunchState.RETRYING:d}, retry_at_ms = ?, exit_code = ?, reason = ?, "
            "ended_ms = NULL, doubt = NULL, relaunched = NULL, held_ms = NULL WHERE lid = ?",
            (change.retry_at_ms, change.exit_code, change.note, lid),
        )
        _keep_attempt(context, lid, change.attempt, ended_ms, change.exit_code, change.note)
        return _name(LaunchState.RETRYING)
    _keep_doubt(context, lid, change.attempt, change.ended_ms, is_uncalled=change.is_uncalled)
    if is_retry:
        note = f"{change.note}; {why_not}"
        change = msgspec.structs.replace(change, state=int(LaunchState.FAILED), note=note)
    return _end_doubt(context, lid, change)


def _end_doubt(context: Context, lid: int, change: c.LaunchResolved) -> str:
    assert change.state is not None
    db, _, entry = context
    db.execute(
        f"UPDATE launch SET state = ?1, ended_ms = {_ENDED.format(told='?2', now=entry.time_ms)}, "
        "exit_code = coalesce(?3, exit_code), doubt = NULL, relaunched = NULL, held_ms = NULL, reason = ?4 "
        "WHERE lid = ?5",
        (
            change.state,
            entry.time_ms if change.ended_ms is None else change.ended_ms,
            change.exit_code,
            f"resolved: {change.note}" if change.note else "resolved by hand",
            lid,
        ),
    )
    if change.state == LaunchState.SKIPPED:  # then no attempt of it was made
        db.execute("UPDATE attempt SET started_ms = NULL WHERE lid = ? AND doubtful", (lid,))
    minutes.count_ends(db, entry.time_ms, change.state, 1)
    return _name(change.state)


def _keep_doubt(
    context: Context, lid: int, attempt: int, told_ms: int | None = None, *, is_uncalled: bool = False
) -> None:
    """The attempt that was in doubt, and why, as it was told first: a repeat that was taken back says nothing of it.
    ``told_ms``: when it ended in truth."""
    known = "SELECT 1 FROM attempt WHERE lid = ? AND attempt = ?"
    if told_ms is None and context.db.execute(known, (lid, attempt)).fetchone():
        return
    ended_ms, exit_code, reason = context.db.execute(
        "SELECT ended_ms, exit_code, reason FROM launch WHERE lid = ?", (lid,)
    ).fetchone()
    why = f"{RESOLVED}{reason or 'no answer'}"
    at_ms = ended_ms if told_ms is None else told_ms
    _keep_attempt(context, lid, attempt, at_ms, exit_code, why, is_doubtful=True)
    if is_uncalled:
        context.db.execute(
            "UPDATE attempt SET started_ms = NULL WHERE lid = ? AND attempt = ?", (lid, attempt)
        )


def _why_not_again(context: Context, lid: int) -> str | None:
    """Why a launch that was in doubt is not tried again now that it is known to have failed. None: it is."""
    (cancel,) = context.db.execute("SELECT cancel FROM launch WHERE lid = ?", (lid,)).fetchone()
    if cancel is not None:
        return _NOT_WANTED
    return _NOT_AGAIN if _has_others_in_the_way(context, lid) else None


def _has_others_in_the_way(context: Context, lid: int) -> bool:
    """Has another launch of the schedule taken the place that this one kept while it was in doubt? What waits in line
    behind it goes on waiting, unless it is to replace it."""
    found = context.db.execute(
        "SELECT l.sid, s.rule FROM launch l JOIN schedule s ON s.sid = l.sid WHERE l.lid = ?", (lid,)
    ).fetchone()
    if found is None or (overlap := decode_rule(found[1]).overlap) is Overlap.ALLOW:
        return False
    states = [state for _, state in _beside(context, found[0], lid)]
    return any(state != LaunchState.QUEUED or overlap is Overlap.REPLACE for state in states)


def _name(state: int) -> str:
    return LaunchState(state).name.lower()


def _state_again(context: Context, lid: int, instant_s: int) -> LaunchState | Refused:
    """What a launch that is to be called again becomes, beside whatever else of its schedule is open."""
    found = context.db.execute(
        "SELECT l.sid, s.rule FROM launch l JOIN schedule s ON s.sid = l.sid WHERE l.lid = ?", (lid,)
    ).fetchone()
    if found is None:
        return LaunchState.STARTED
    overlap = decode_rule(found[1]).overlap
    if overlap is Overlap.QUEUE and not _has_others_in_the_way(context, lid):
        return LaunchState.STARTED  # what waits in line waits for this one
    by = f"the launch of {instant_s}, which is called again"
    return _state_beside_open(context, found[0], overlap, by, but=lid)


def _named(context: Context, change: c.CancelRequested | c.LaunchResolved) -> tuple[int, int, int] | Refused:
    """The launch of that name: number, state and attempt."""
    kind = LaunchKind.MANUAL if change.manual else LaunchKind.SCHEDULED
    found: tuple[int, int, int] | None = context.db.execute(
        "SELECT lid, state, attempt FROM launch WHERE instant_s = ? AND kind = ? AND sid IN "
        "(SELECT sid FROM schedule WHERE id = ? UNION SELECT sid FROM revision WHERE id = ?)",
        (change.instant_s, int(kind), change.schedule, change.schedule),
    ).fetchone()
    if found is None:
        name = launch_name(change.schedule, change.instant_s, change.manual)
        return NotFound(f"there is no launch {name!r}", hint="'tocsin launches' lists them")
    return found


def _keep_attempt(
    context: Context,
    lid: int,
    attempt: int,
    ended_ms: int,
    exit_code: int | None,
    reason: str,
    *,
    is_doubtful: bool = False,
) -> None:
    """An attempt that will not have been the last. Of one in doubt only a call that was told is known: one that waited
    in line has the time of its entry too."""
    known = "CASE WHEN attempt > 1 THEN told_ms ELSE called_ms END"
    started = known if is_doubtful else "coalesce(attempt_ms, started_ms)"
    context.db.execute(
        f"INSERT OR REPLACE INTO attempt SELECT lid, ?1, {started}, "
        f"{_ENDED.format(told='?2', now=context.entry.time_ms)}, ?3, ?4, ?6 FROM launch WHERE lid = ?5",
        (attempt, ended_ms, exit_code, reason, lid, is_doubtful),
    )


def _cancel(context: Context, lid: int, reason: str) -> None:
    """Mark it. Where nothing runs at a target it is over at once; otherwise the target is told, then it is."""
    context.db.execute(f"UPDATE launch SET cancel = ? WHERE lid = ? AND {_OPEN}", (reason, lid))
    _close_if_cancelled(context, lid)


def _close_if_cancelled(context: Context, lid: int) -> None:
    waits = f"state IN ({LaunchState.RETRYING:d}, {LaunchState.QUEUED:d})"
    end_waiting(
        context, LaunchState.CANCELLED, f"lid = :lid AND cancel IS NOT NULL AND {waits}", {"lid": lid}
    )
