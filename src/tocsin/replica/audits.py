"""Portions of an audit. What is read of the state is judged on the same reader's thread; nothing here waits."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

from tocsin.decide.audit import Account, account, text_of
from tocsin.decide.retention import Retention
from tocsin.decide.retrace import Known, Retrace, mentioned
from tocsin.errors import Gap, InvalidSchedule
from tocsin.model.audit import Finding, Past
from tocsin.model.change import BackfillRequested
from tocsin.model.entry import Entry
from tocsin.state import accounts, traces

LAUNCHES_AT_ONCE = 2_000
"""So many launches that entries name are held against the record in one portion, or one entry."""
STEPS_AT_ONCE = 200_000
"""So many occurrences are looked at in one portion; it ends with the schedule in which it is reached."""


class Judged(NamedTuple):
    """One schedule with its account."""

    past: Past
    account: Account


class Judgement(NamedTuple):
    """A portion of the schedules."""

    judged: list[Judged]
    """Those that there is something to say of."""
    looked_at: int
    last: tuple[str, int] | None
    """Where the next portion begins: behind this id and number. None: there are no more."""


class Window(NamedTuple):
    """The time that is judged, and when that is done."""

    from_s: int
    to_s: int
    now_ms: int


class Wanted(NamedTuple):
    """Which schedules somebody asks for."""

    prefix: str = ""
    exactly: str | None = None
    within: Sequence[str] = ()


def judge_next(
    db: sqlite3.Connection, window: Window, retention: Retention, after_sid: int, limit: int
) -> Judgement:
    """The next schedules by number."""
    with accounts.at_one_moment(db):
        sids = accounts.sids_after(db, after_sid, window.from_s * 1000, limit)
        return _judge(db, [("", sid) for sid in sids], window, retention, is_last=len(sids) < limit)


def judge_by_id(
    db: sqlite3.Connection, window: Window, retention: Retention, wanted: Wanted, after: str, limit: int
) -> Judgement:
    """The next of those that are wanted, in the order of their ids."""
    with accounts.at_one_moment(db):
        found = accounts.sids_by_id(
            db,
            prefix=wanted.prefix,
            exactly=wanted.exactly,
            within=wanted.within,
            after=after,
            from_ms=window.from_s * 1000,
            limit=limit,
        )
        return _judge(db, found, window, retention, is_last=len(found) < limit)


def retraced(db: sqlite3.Connection, retrace: Retrace, entries: Sequence[tuple[int, Entry]]) -> list[Finding]:
    """Entries, held against the state that they have been applied to."""
    named = mentioned(entries)
    with accounts.at_one_moment(db):
        by_lid = traces.known_lids(db, named.lids)
        by_id = traces.known_sids(db, list({id: None for id, _ in named.names}))
        asked = [(by_id[id], instant_s) for id, instant_s in named.names if id in by_id]
        sids = dict.fromkeys([sid for sid, _ in named.launches] + [row.sid for row in by_lid.values()])
        known = Known(
            launches=traces.known_launches(db, [*named.launches, *asked]),
            by_lid=by_lid,
            versions=traces.known_versions(db, named.versions),
            ids=traces.known_ids(db, list(sids)) | {sid: id for id, sid in by_id.items()},
            sids=by_id,
            next_lid=traces.next_lid(db),
        )
    return retrace.judge(entries, known)


def in_portions(entries: Sequence[tuple[int, Entry]]) -> Iterator[list[tuple[int, Entry]]]:
    """As many at once as name some launches: a herd's entry names thousands, a renewal none."""
    portion: list[tuple[int, Entry]] = []
    weight = 0
    for pair in entries:
        portion.append(pair)
        weight += weight_of(pair[1])
        if weight >= LAUNCHES_AT_ONCE:
            yield portion
            portion, weight = [], 0
    if portion:
        yield portion


def weight_of(entry: Entry) -> int:
    """How many launches it names."""
    return sum(
        len(change.instants_s)
        if isinstance(change, BackfillRequested)
        else len(getattr(change, "sids", ())) + len(getattr(change, "lids", ()))
        for change in entry.changes
    )


async def first_since(
    since_ms: int, first: int, last: int, read: Callable[[int, int], Awaitable[list[tuple[int, Entry]]]]
) -> int:
    """The first entry of that time or later, in a few looks: times grow, or nearly. ``last + 1``: there is none."""
    low, high = first, last + 1
    while low < high:
        middle = (low + high) // 2
        try:
            ((_, entry),) = await read(middle - 1, 1)
        except Gap:
            low = middle + 1  # trimmed away in the meantime
            continue
        if entry.time_ms < since_ms:
            low = middle + 1
        else:
            high = middle
    return low


def _judge(
    db: sqlite3.Connection,
    found: Sequence[tuple[str, int]],
    window: Window,
    retention: Retention,
    is_last: bool,
) -> Judgement:
    from_s, to_s = window.from_s, window.to_s
    kept_since_s = accounts.kept_since_s(db, window.now_ms - retention.age_ms, retention.total)
    sids = [sid for _, sid in found]
    is_idle = partial(_is_idle, from_s, to_s)
    portion = accounts.pasts(db, sids, from_s, to_s, kept_since_s, window.now_ms // 1000, is_idle)
    upto_s = to_s if portion.complete_upto_s is None else portion.complete_upto_s
    judged: list[Judged] = []
    steps, looked_at = 0, len(portion.sids)
    for past in portion.pasts:
        told = account(past, from_s, upto_s)
        if told.counts.unaccounted or any(finding.kind == "no_occurrence" for finding in told.findings):
            told = account(accounts.excused(db, past, retention.each), from_s, upto_s)
        if portion.complete_upto_s is not None and told.judged_until_s is None:
            told = told._replace(judged_until_s=upto_s)
        judged.append(Judged(past, told))
        steps += told.steps
        if steps >= STEPS_AT_ONCE:
            looked_at = sids.index(past.sid) + 1
            break
    is_over = is_last and looked_at == len(found)
    return Judgement(judged, looked_at, None if is_over else found[looked_at - 1])


@lru_cache(maxsize=32_768)
def _is_idle(from_s: int, to_s: int, resolved: str, zone: str) -> bool:
    """Has the text no instant in that time? Most schedules have none between two rounds, and many share a text."""
    try:
        following = text_of(resolved, zone).next_unix(from_s - 1)
    except InvalidSchedule:
        return False  # the account says so
    return following is None or following >= to_s
