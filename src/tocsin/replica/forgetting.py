"""Now and then, what history is to be forgotten: too old, or too many."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tocsin.clock import Clock
from tocsin.decide.retention import Retention
from tocsin.model import change as c
from tocsin.state import queries
from tocsin.state.store import Store

RETENTION_EVERY_S = 60.0
FORGOTTEN_AT_ONCE = 10_000


class Forgetting:
    """Goes through the history in portions, and rests in between."""

    def __init__(
        self, store: Store, clock: Clock, keep: Retention, on_state: Callable[..., Awaitable[Any]]
    ) -> None:
        self._store = store
        self._clock = clock
        self._keep = keep
        self._on_state = on_state
        self._rested_s = clock.elapsed_s()
        self._looked_upto_lid = self._looked_upto_sid = 0

    async def changes(self, now_ms: int) -> list[c.Change]:
        if self._clock.elapsed_s() - self._rested_s < RETENTION_EVERY_S:
            return []
        keep = self._keep
        before_ms = now_ms - keep.age_ms
        db = self._store.db
        old, self._looked_upto_lid = await self._on_state(
            queries.forgettable, db, self._looked_upto_lid, before_ms, keep.total, FORGOTTEN_AT_ONCE
        )
        many, self._looked_upto_sid = await self._on_state(
            queries.surplus, db, self._looked_upto_sid, keep.each, FORGOTTEN_AT_ONCE
        )
        lids = sorted({*old, *many})
        has_more = await self._on_state(queries.has_old_records, db, before_ms)
        if not self._looked_upto_lid and not has_more:
            # Once through: rest until the next time.
            self._rested_s = self._clock.elapsed_s()
        return [c.HistoryForgotten(lids, before_ms)] if lids or has_more else []
