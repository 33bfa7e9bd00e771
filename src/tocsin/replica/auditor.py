"""Beside the leader: what was to happen is reckoned anew, round after round, and held against what is recorded.

A round goes over all schedules, in portions on a reader's thread, and rests in between for nine times as long as it
worked: millions of schedules take their time, and hold nobody up. It judges the time since the round before, up to a
minute ago: what was due then has been decided. What is open or waits by then is counted as it is, and not again.

Before the schedules come the entries that were written since, as long as the journal still holds them.

Only who leads counts, and each term begins with itself: what fell due between the last round of one leader and the
beginning of the next is judged by nobody here. ``tocsin audit`` judges any time.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec
import structlog

from tocsin.clock import Clock
from tocsin.decide.retention import Retention
from tocsin.decide.retrace import Retrace
from tocsin.errors import Gap, TocsinError
from tocsin.model.audit import HARMLESS, AuditCounts, Finding
from tocsin.model.entry import Entry
from tocsin.observe.metrics import Metrics
from tocsin.replica import audits
from tocsin.replica.audits import Judged, Window
from tocsin.state import traces
from tocsin.state.store import Meta

log = structlog.get_logger()

EVERY_S = 60.0
MARGIN_S = 60
"""What fell due within the last minute is not judged yet."""
SCHEDULES_AT_ONCE = 500
ENTRIES_AT_ONCE = 20
REST_MIN_S = 0.02
REST_TIMES = 9
"""It works for a tenth of the time."""
NAMED_MAX = 10
"""So many findings of one portion are logged."""
REMEMBERED_S = 86_400.0
"""For so long the readiness tells of what was found."""


class Reading(Protocol):
    """What the auditor asks of its replica."""

    async def read(self, query: Callable[..., Any], *args: Any, **kwargs: Any) -> Any: ...

    async def entries(self, after: int, limit: int) -> list[tuple[int, Entry]]: ...

    async def first_kept(self) -> int: ...


class Around(NamedTuple):
    """Who leads, as this replica knows it."""

    meta: Callable[[], Meta]
    is_leading: Callable[[], bool]


class _Labelled(msgspec.Struct, frozen=True, gc=False):
    """The one thing in a schedule that matters here."""

    labels: dict[str, str] = {}


_labels_of = msgspec.msgpack.Decoder(_Labelled).decode


class _Term(msgspec.Struct):
    """How far one term has been judged."""

    term: int
    upto_s: int
    """All that was planned before this second."""
    seq: int
    retrace: Retrace
    window: Window | None = None
    """What the present round judges: one that was held up goes on where it was."""
    after: int = 0
    """The schedule that was judged last."""


class Auditor:
    """Judges for as long as the replica leads."""

    def __init__(
        self, reading: Reading, clock: Clock, metrics: Metrics, retention: Retention, around: Around
    ) -> None:
        self._reading = reading
        self._clock = clock
        self._metrics = metrics.audit
        self._retention = retention
        self._around = around
        self._stop = asyncio.Event()
        self._term: _Term | None = None
        self._found_s: float | None = None
        self.found = AuditCounts()
        """What must not be, counted since this process began."""

    def stop(self) -> None:
        self._stop.set()

    async def run(self) -> None:
        while not await self._clock.wait(self._stop, EVERY_S):
            await self.once()

    @property
    def note(self) -> str:
        """What was found within a day, in words. Empty: nothing."""
        if self._found_s is None or self._clock.elapsed_s() - self._found_s > REMEMBERED_S:
            return ""
        return (
            f"the audit found {self.found.doubled} doubled and {self.found.unaccounted} unaccounted occurrences: "
            "'tocsin audit' names them"
        )

    async def once(self) -> None:
        """One round."""
        try:
            await self._round()
        except (TocsinError, sqlite3.Error) as wrong:
            log.warning("the audit could not go on", reason=str(wrong))
        except Exception as wrong:  # why: the audit must not end what it audits
            log.error("the audit could not go on", exc_info=wrong)

    async def _round(self) -> None:
        term = await self._term_now()
        if term is None:
            self._metrics.behind_seconds.set(0)
            return
        await self._entries(term)
        now_ms = self._clock.wall_ms()
        if term.upto_s > now_ms // 1000:  # the clock was ahead, and is right again
            term.upto_s, term.window = now_ms // 1000, None
        window = term.window or Window(term.upto_s, now_ms // 1000 - MARGIN_S, now_ms)
        if window.to_s > window.from_s and self._goes_on(term):
            term.window = window
            await self._schedules(term, window)
        self._metrics.behind_seconds.set(max(0.0, self._clock.wall_ms() / 1000 - term.upto_s))

    async def _term_now(self) -> _Term | None:
        meta = self._around.meta()
        if not self._around.is_leading():
            self._term = None
        elif self._term is None or self._term.term != meta.term:
            since_ms: int | None = await self._reading.read(traces.in_office_since_ms, meta.term)
            if since_ms is None:
                return None
            first = await self._reading.first_kept()
            seq = await audits.first_since(since_ms, first, meta.seq, self._reading.entries)
            self._term = _Term(meta.term, since_ms // 1000 + 1, seq - 1, Retrace(meta.term))
        return self._term

    def _goes_on(self, term: _Term) -> bool:
        still = self._around.is_leading() and self._around.meta().term == term.term
        return still and not self._stop.is_set()

    async def _entries(self, term: _Term) -> None:
        """What was written since, held against the record."""
        last = self._around.meta().seq
        while term.seq < last and self._goes_on(term):
            try:
                entries = await self._reading.entries(term.seq, ENTRIES_AT_ONCE)
            except Gap:
                first = await self._reading.first_kept()
                self._metrics.unread.inc(max(0, first - 1 - term.seq))
                term.seq, term.retrace = max(first - 1, term.seq + 1), Retrace(term.term)
                continue
            if not entries:
                return
            for portion in audits.in_portions(entries):
                began_s = self._clock.elapsed_s()
                found: list[Finding] = await self._reading.read(audits.retraced, term.retrace, portion)
                term.seq = portion[-1][0]
                self._metrics.entries.inc(len(portion))
                await self._count_findings(found)
                await self._rest(began_s)

    async def _count_findings(self, found: Sequence[Finding]) -> None:
        for finding in found:
            counts = AuditCounts(doubled=int(finding.kind in ("doubled", "repeated")))
            spec: bytes = await self._reading.read(traces.spec_of, finding.schedule)
            self._metrics.count(self._values_of(spec), counts)
            self._tell([finding], counts)

    async def _schedules(self, term: _Term, window: Window) -> None:
        """All of them, or as many as this replica leads for."""
        while self._goes_on(term):
            began_s = self._clock.elapsed_s()
            now = window._replace(now_ms=self._clock.wall_ms())
            judgement: audits.Judgement = await self._reading.read(
                audits.judge_next, now, self._retention, term.after, SCHEDULES_AT_ONCE
            )
            self._count(judgement.judged)
            self._metrics.schedules.inc(judgement.looked_at)
            if judgement.last is None:
                term.upto_s, term.window, term.after = window.to_s, None, 0
                return
            term.after = judgement.last[1]
            await self._rest(began_s)

    def _count(self, judged: Sequence[Judged]) -> None:
        for past, told in judged:
            if told.is_empty:
                continue
            self._metrics.count(self._values_of(past.spec), told.counts)
            self._tell(told.findings, told.counts)

    def _values_of(self, spec: bytes) -> tuple[str, ...]:
        """Under which labels it is counted."""
        breakdown = self._metrics.breakdown
        return breakdown.of(_labels_of(spec).labels if breakdown.keys and spec else {})

    def _tell(self, findings: Sequence[Finding], counts: AuditCounts) -> None:
        if counts.doubled or counts.unaccounted:
            self.found.doubled += counts.doubled
            self.found.unaccounted += counts.unaccounted
            self._found_s = self._clock.elapsed_s()
        for finding in [each for each in findings if each.kind not in HARMLESS][:NAMED_MAX]:
            log.error(
                "the audit found what must not be",
                kind=finding.kind,
                schedule=finding.schedule,
                at="" if finding.at is None else finding.at.isoformat(),
                reason=finding.told,
            )

    def _rest(self, began_s: float) -> Awaitable[bool]:
        worked_s = self._clock.elapsed_s() - began_s
        return self._clock.wait(self._stop, max(REST_MIN_S, REST_TIMES * worked_s))
