"""Retention: the leader decides which history is deleted, a bounded portion at a time.

The work is in proportion to the launches that are new and to the rows that are deleted, never to those that are kept:
see ``state.retention``. Positions are remembered in memory. A new leader begins at the oldest rows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from tocsin.clock import Clock
from tocsin.decide.retention import Retention
from tocsin.model import change as c
from tocsin.state import retention
from tocsin.state.store import Store

RETENTION_EVERY_S = 10.0
"""So long it rests when nothing is left to do."""
FIRST_AFTER_S = 2.0
"""A new leader has more urgent things to do first. Where leaders change often, each of them deletes something."""
PAUSE_S = 0.05
"""Between two portions: whatever else the leader does comes first."""
PAUSE_BEHIND_S = 1.0
"""The same while launches wait for their turn."""
FROM_THE_BEGINNING_EVERY_S = 3_600.0
"""Rows that are too old and stay (open launches) are passed over for so long."""
DELETED_AT_ONCE = 1_000
OLD_AT_ONCE = 500
"""Of them as many may be too old, the others too many of their schedule."""
COUNTED_AT_ONCE = 2_000
SCHEDULES_AT_ONCE = 2_000
REVISIONS_AT_ONCE = 200
LEFT_AT_ONCE = 100
NO_LIMIT = 1 << 60
_NO_VERSIONS = retention.OldRevisions([], (0, 0, 0), is_last=False)


class _Portion(NamedTuple):
    change: c.HistoryForgotten | None
    has_more: bool


class Forgetting:
    """Deletes in portions, and rests in between."""

    def __init__(
        self, store: Store, clock: Clock, keep: Retention, on_state: Callable[..., Awaitable[Any]]
    ) -> None:
        self._store = store
        self._clock = clock
        self._keep = keep
        self._on_state = on_state
        self._next_s = clock.elapsed_s() + FIRST_AFTER_S
        self._left: dict[int, None] = {}
        """Schedules of which more is too much than was looked at when it was counted, in the order of the next look."""
        self._begin()

    def _begin(self) -> None:
        self._began_s = self._clock.elapsed_s()
        self._after_lid = self._after_sid = 0
        self._after_revision: retention.Age = (0, 0, 0)
        self._is_through = True

    async def changes(self, now_ms: int, is_behind: bool = False) -> list[c.Change]:
        """The next portion, if it is time. ``is_behind``: more launches are due than one turn takes."""
        pause_s = PAUSE_BEHIND_S if is_behind else 0.0
        if self._clock.elapsed_s() < self._next_s + pause_s:
            return []
        portion: _Portion = await self._on_state(self._portion, now_ms)
        self._next_s = self._clock.elapsed_s() + (PAUSE_S if portion.has_more else RETENTION_EVERY_S)
        return [] if portion.change is None else [portion.change]

    def rest_s(self) -> float:
        """So long the leader may sleep."""
        return max(0.0, self._next_s - self._clock.elapsed_s())

    def _portion(self, now_ms: int) -> _Portion:
        """On the state's thread."""
        if self._clock.elapsed_s() - self._began_s >= FROM_THE_BEGINNING_EVERY_S:
            self._begin()
        db, meta = self._store.db, self._store.meta
        # A clock that was set forward makes nothing old until somebody would have noticed that it is wrong.
        is_held = self._is_held(now_ms)
        before_ms = (meta.proven_upto_s * 1000 if is_held else now_ms) - self._keep.age_ms
        new = retention.uncounted(
            db,
            meta.counted_lid,
            NO_LIMIT if is_held else self._keep.each,
            now_ms,
            COUNTED_AT_ONCE,
            DELETED_AT_ONCE - OLD_AT_ONCE,
            self._ahead_of_s(now_ms),
        )
        self._left.update(dict.fromkeys(new.left))
        many, kept_each = self._too_many(now_ms) if new.is_last else ([], 0)
        rest = [] if new.launches or many else self._rest(now_ms)  # when all are counted
        # The limit of each schedule comes first: the rows that it deletes make room for those of other schedules.
        is_each_done = new.is_last and not new.left and not many and not rest and self._is_through
        too_many = 0
        if is_each_done and not is_held:
            too_many = meta.launches_kept + new.launches - len(new.surplus) - self._keep.total
        if (
            too_many > 0
        ):  # launches under way are none of the kept ones, nor are those of a time that has not come
            too_many -= retention.count_open(db)
            ahead_of_s = self._ahead_of_s(now_ms)
            too_many -= 0 if ahead_of_s is None else retention.count_ahead(db, ahead_of_s)
        old = retention.old(db, self._after_lid, before_ms, now_ms, too_many, OLD_AT_ONCE)
        self._after_lid = old.stays_upto_lid
        lids = sorted({*new.surplus, *old.lids, *many, *rest})
        # A version can be deleted when its launches are gone.
        versions = self._old_versions(before_ms) if old.is_last else _NO_VERSIONS
        change = c.HistoryForgotten(
            lids,
            before_ms,
            new.upto_lid,
            [sid for sid, _ in versions.found],
            [version for _, version in versions.found],
            kept_each,
        )
        has_records = retention.has_old_records(db, before_ms, meta.next_rid)
        is_needed = has_records or lids or versions.found or new.launches or kept_each
        # Launches are left over if many were counted a moment ago, or if some could be deleted just now.
        is_over = is_each_done and versions.is_last and not has_records
        return _Portion(change if is_needed else None, has_more=not is_over)

    def _ahead_of_s(self, now_ms: int) -> int | None:
        """Launches behind this second cannot be deleted yet, because the clock may be ahead, or was. None: neither."""
        meta = self._store.meta
        if self._is_held(now_ms):
            return meta.proven_upto_s
        return now_ms // 1000 if now_ms < meta.ahead_until_ms else None

    def _is_held(self, now_ms: int) -> bool:
        """May the clock be ahead, and nobody has noticed yet? Then new launches do not drive out others."""
        meta = self._store.meta
        return meta.proven_upto_s * 1000 < now_ms < meta.proven_again_ms

    def _old_versions(self, before_ms: int) -> retention.OldRevisions:
        counted_lid = self._store.meta.counted_lid
        found = retention.old_revisions(
            self._store.db, self._after_revision, before_ms, counted_lid, REVISIONS_AT_ONCE
        )
        self._after_revision = found.stays_upto
        return found

    def _rest(self, now_ms: int) -> list[int]:
        """Of schedules of which many launches were counted at once. What is open then is looked at again."""
        found: list[int] = []
        ahead_of_s, counted_lid = self._ahead_of_s(now_ms), self._store.meta.counted_lid
        for sid in list(self._left)[:LEFT_AT_ONCE]:
            del self._left[sid]
            lids = retention.surplus_of(self._store.db, sid, self._keep.each, now_ms, ahead_of_s, counted_lid)
            if lids is not None:
                self._left[sid] = None
                found += lids
            if len(found) >= DELETED_AT_ONCE - OLD_AT_ONCE:
                break
        return found

    def _too_many(self, now_ms: int) -> tuple[list[int], int]:
        """The limit of each schedule is not the one that was kept before: launches that are too many of schedules that
        may not launch any more, and at last the limit itself."""
        keep, meta = self._keep.each, self._store.meta
        self._is_through = True
        kept_each = -keep if self._is_held(now_ms) else keep
        if kept_each == meta.kept_each:
            return [], 0
        if 0 < meta.kept_each < kept_each:
            return [], keep
        found = retention.surplus(
            self._store.db,
            self._after_sid,
            keep,
            now_ms,
            SCHEDULES_AT_ONCE,
            DELETED_AT_ONCE - OLD_AT_ONCE,
            self._ahead_of_s(now_ms),
            meta.counted_lid,
        )
        self._after_sid, self._is_through = found.stays_upto_sid, found.is_last
        return found.lids, kept_each if found.is_last else 0
