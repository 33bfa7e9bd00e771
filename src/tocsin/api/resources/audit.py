"""The audit: what was expected of schedules in a time, and what is recorded of it.

The work of one request is bounded. First comes the journal, some entries a page, then the schedules in the order of
their ids; the cursor says where to go on.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, NamedTuple

from litestar import get
from litestar.params import QueryParameter

from tocsin.api import query
from tocsin.api.description.about import about
from tocsin.api.door.access import WhoAsks
from tocsin.api.service import Given, Service, moment_of, seconds_of
from tocsin.decide.retrace import Retrace
from tocsin.errors import Gap, InvalidInput
from tocsin.model.audit import AuditCounts, AuditItem, AuditPage, Finding, JournalCover
from tocsin.model.entry import Entry
from tocsin.model.ids import ID_LENGTH_MAX, check_id
from tocsin.model.rights import require_reach
from tocsin.model.token import Caller
from tocsin.replica import audits
from tocsin.replica.audits import Judged, Wanted, Window
from tocsin.state import accounts

DAY_S = 86_400
ENTRIES_AT_ONCE = 500
LAUNCHES_AT_ONCE = 50_000
"""So many entries, or launches that they name, are judged for one page."""
ENTRIES_READ = 20
FINDINGS_MAX = 200
_JOURNAL = "!"
"""No id begins with it: the cursor is still in the journal."""


class _Asked(NamedTuple):
    """An audit that somebody asks for."""

    window: Window
    wanted: Wanted
    caller: Caller
    limit: int

    def is_about(self, schedule: str) -> bool:
        if self.wanted.exactly is not None:
            return schedule == self.wanted.exactly
        is_seen = self.caller.reaches(schedule) if schedule else self.caller.reaches_all
        return is_seen and schedule.startswith(self.wanted.prefix)


@get(
    "/v1/audit",
    operation_id="audit",
    opt=about(
        "history",
        "What was expected, and what became of it",
        answers={200: ("A part of the account, and what must not be.", AuditPage)},
    ),
)
async def audit(
    service: Given,
    caller: WhoAsks,
    since: Annotated[str | None, query.moment("From here on; by default the last 24 hours.")] = None,
    until: Annotated[str | None, query.moment("Up to here, at most now; by default now.")] = None,
    prefix: query.Prefix = "",
    schedule: Annotated[
        str | None,
        QueryParameter(
            description="Only this schedule. It may have been deleted since.",
            schema_extra={
                "pattern": query.ID_PATTERN,
                "maxLength": ID_LENGTH_MAX,
                "examples": ["billing/payroll"],
            },
        ),
    ] = None,
    limit: Annotated[
        int, QueryParameter(ge=1, le=query.PAGE_MAX, description="How many schedules are looked at, at most.")
    ] = 200,
    cursor: query.Cursor = "",
) -> AuditPage:
    """Every occurrence of a time, reckoned anew from the texts of the versions that were in force, and held against
    what is recorded; doubling and order by the journal, as far as it is kept. It comes in parts, and whoever asks adds
    them up: first pages of the journal, then pages of schedules. A page may name no schedule although more follow."""
    if schedule is not None:
        require_reach(caller, check_id(schedule, field="schedule"))
    now_ms = service.now_ms()
    window = _window(since, until, now_ms)
    wanted = Wanted(query.prefix_of(prefix), schedule, caller.prefixes)
    asked = _Asked(window, wanted, caller, limit)
    position = query.position_of("a", cursor)
    if not position or position.startswith(_JOURNAL):
        return await _journal_page(service, asked, int(position.removeprefix(_JOURNAL) or 0))
    return await _schedule_page(service, asked, position.removeprefix("="))


HANDLERS = (audit,)


def _window(since: str | None, until: str | None, now_ms: int) -> Window:
    """Up to the end of the present second: what is due in it waits, or has been decided. Of a time that has not come
    there is nothing to judge."""
    ends_s = now_ms // 1000 + 1
    to_s = ends_s if until is None else seconds_of(moment_of(until, "until"))
    from_s = to_s - DAY_S if since is None else seconds_of(moment_of(since, "since"))
    if until is not None and from_s > to_s:
        raise InvalidInput(
            "the end is before the beginning", field="until", value=until, allowed="a moment after since"
        )
    from_s = max(0, min(from_s, ends_s))
    return Window(from_s, max(from_s, min(to_s, ends_s)), now_ms)


async def _journal_page(service: Service, asked: _Asked, after: int) -> AuditPage:
    """The next entries of that time, or the first. One more is read before them: it tells the term."""
    replica, window = service.replica, asked.window
    last, first = replica.meta.seq, await replica.first_kept()
    if not after:
        after = await audits.first_since(window.from_s * 1000, first, last, replica.entries) - 1
    term = await _term_before(service, after)
    entries = await _some(service, after)
    # An entry of a clock that was put back does not end the time.
    within = [pair for pair in entries if pair[1].time_ms < window.to_s * 1000]
    retrace, found = Retrace(term), []
    for portion in audits.in_portions(within):
        found += await replica.read(audits.retraced, retrace, portion)
    counts = AuditCounts()
    kept = [finding for finding in found if asked.is_about(finding.schedule)]
    counts.doubled = sum(finding.kind in ("doubled", "repeated") for finding in kept)
    is_over = not entries or not within or entries[-1][0] >= last
    cover = JournalCover(
        entries=len(within),
        since=_moment(within[0][1].time_ms) if within else None,
        until=_moment(within[-1][1].time_ms) if within else None,
        whole=first == 1 or after >= first,
    )
    return await _page(service, asked, [], 0, counts, kept, cover, "=" if is_over else f"!{entries[-1][0]}")


async def _some(service: Service, after: int) -> list[tuple[int, Entry]]:
    """The next entries, as many as one page judges."""
    found: list[tuple[int, Entry]] = []
    launches = 0
    while len(found) < ENTRIES_AT_ONCE and launches < LAUNCHES_AT_ONCE:
        try:
            more = await service.replica.entries(found[-1][0] if found else after, ENTRIES_READ)
        except Gap:
            break  # trimmed in this very moment: it was old
        if not more:
            break
        found += more
        launches += sum(audits.weight_of(entry) for _, entry in more)
    return found


async def _term_before(service: Service, after: int) -> int:
    try:
        found = await service.replica.entries(after - 1, 1) if after else []
    except Gap:
        found = []
    return found[0][1].term if found else 0


async def _schedule_page(service: Service, asked: _Asked, after: str) -> AuditPage:
    replica = service.replica
    judgement = await replica.read(
        audits.judge_by_id, asked.window, replica.retention, asked.wanted, after, asked.limit
    )
    counts, findings = AuditCounts(), []
    for each in judgement.judged:
        counts.add(each.account.counts)
        findings += each.account.findings
    items = [_item(each) for each in judgement.judged if not each.account.is_empty]
    cursor = "" if judgement.last is None else f"={judgement.last[0]}"
    return await _page(service, asked, items, judgement.looked_at, counts, findings, None, cursor)


async def _page(
    service: Service,
    asked: _Asked,
    items: list[AuditItem],
    looked_at: int,
    counts: AuditCounts,
    findings: list[Finding],
    journal: JournalCover | None,
    position: str,
) -> AuditPage:
    window = asked.window
    was_lost = await service.replica.read(accounts.was_lost, window.from_s * 1000, service.now_ms())
    return AuditPage(
        since=_moment(window.from_s * 1000),
        until=_moment(window.to_s * 1000),
        items=items,
        schedules=looked_at,
        counts=counts,
        findings=findings[:FINDINGS_MAX],
        findings_left_out=max(0, len(findings) - FINDINGS_MAX),
        journal=journal,
        lost_record=was_lost,
        cursor=query.cursor_of("a", position),
    )


def _item(each: Judged) -> AuditItem:
    past, told = each
    until_s = told.judged_until_s
    return AuditItem(
        schedule=past.id,
        counts=told.counts,
        judged_until=None if until_s is None else _moment(until_s * 1000),
        at_least=told.at_least,
    )


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
