"""``audit``: what was expected, and what became of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli import moments
from tocsin.cli.command import Json, Limit, Url, ask
from tocsin.cli.complete import schedule_ids
from tocsin.cli.printing import print_json, say
from tocsin.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from tocsin.client import Client
    from tocsin.model.audit import AuditCounts, AuditItem, AuditPage

FOUND = 1
"""The exit status when something is not as it must be."""
_PROGRESS_S = 2.0
_WORTH_A_WORD_MS = 100


def audit(
    id: Annotated[
        str,
        typer.Argument(
            metavar="ID-OR-PREFIX",
            help="Only this schedule, or those whose ids begin so.",
            show_default=False,
            autocompletion=schedule_ids,
        ),
    ] = "",
    since: Annotated[
        str, typer.Option("--from", metavar="T", help=f"From here on, {moments.HELP}; by default -24h.")
    ] = "",
    until: Annotated[str, typer.Option("--to", metavar="T", help="Up to here; by default now.")] = "",
    limit: Limit = 20,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Was every occurrence launched once, on time and accounted for? Reckoned anew, and held against the record.

    Exit status 1: something was launched twice, is unaccounted for, or should not have been launched.

    Example: tocsin audit billing/ --from yesterday
    """
    whole = ask(url, lambda client: _audit(client, id, since, until))
    if as_json:
        print_json(whole)
    else:
        _show(whole, limit)
    from tocsin.model.audit import HARMLESS

    is_wrong = whole.findings_left_out or any(found.kind not in HARMLESS for found in whole.findings)
    if is_wrong or whole.counts.unaccounted or whole.counts.doubled:
        raise typer.Exit(FOUND)


async def _audit(client: Client, id: str, since: str, until: str) -> AuditPage:
    """All pages, added up."""
    schedule = await _exactly(client, id)
    since = await moments.written_moment(client, since, field="from", schedule=schedule, whole_seconds=True)
    until = await moments.written_moment(client, until, field="to", schedule=schedule, whole_seconds=True)
    whole: AuditPage | None = None
    told_s = time.monotonic()
    async for page in client.audit(
        schedule=schedule or None, prefix="" if schedule else id, since=since, until=until
    ):
        whole = page if whole is None else _added(whole, page)
        if page.cursor and time.monotonic() - told_s > _PROGRESS_S:
            told_s = time.monotonic()
            behind = f", up to {whole.items[-1].schedule}" if whole.items else ""
            say(f"{whole.schedules} schedules judged{behind} ...")
    assert whole is not None
    if whole.since >= whole.until:
        raise InvalidInput(
            "that time has not come yet, or holds nothing",
            field="from",
            value=since,
            allowed="a time that has passed",
        )
    if id and not whole.schedules:
        raise NotFound(
            f"there is no schedule {id!r}, and no id begins with it", hint="'tocsin list' shows all"
        )
    return whole


async def _exactly(client: Client, id: str) -> str:
    """The schedule that is meant; empty: it is the beginning of ids."""
    if not id or id.endswith("/"):
        return ""
    try:
        await client.versions(id)
    except NotFound:
        return ""
    return id


def _added(whole: AuditPage, page: AuditPage) -> AuditPage:
    import msgspec

    whole.counts.add(page.counts)
    whole.items.extend(page.items)
    whole.findings.extend(page.findings)
    journal = whole.journal
    if journal is not None and page.journal is not None:
        journal = msgspec.structs.replace(
            journal,
            entries=journal.entries + page.journal.entries,
            since=journal.since or page.journal.since,
            until=page.journal.until or journal.until,
            whole=journal.whole and page.journal.whole,
        )
    return msgspec.structs.replace(
        whole,
        schedules=whole.schedules + page.schedules,
        findings_left_out=whole.findings_left_out + page.findings_left_out,
        journal=journal,
        lost_record=whole.lost_record or page.lost_record,
        cursor=page.cursor,
    )


def _show(whole: AuditPage, limit: int) -> None:
    from tocsin.cli.present import facts

    facts(_facts(whole))
    ordered = sorted(whole.items, key=_badness, reverse=True)
    shown = ordered[:limit] if limit else ordered
    if shown:
        print()
        _table(shown)
    _show_findings(whole)
    if len(shown) < len(ordered):
        say(f"{len(ordered) - len(shown)} more schedules: --limit 0 shows all")


def _facts(whole: AuditPage) -> list[tuple[str, str]]:
    from tocsin.cli.present import moment

    counts = whole.counts
    started = f"{counts.started}: {counts.on_time} on time, {counts.late} late"
    if counts.backfilled:
        started += f", {counts.backfilled} backfilled"
    if counts.latest_ms >= _WORTH_A_WORD_MS:
        started += f" (the latest by {counts.latest_ms / 1000:.1f} s)"
    ends = (
        ("succeeded", counts.succeeded),
        ("failed", counts.failed),
        ("cancelled", counts.cancelled),
        ("in doubt", counts.in_doubt),
        ("open", counts.open),
        ("waiting", counts.waiting),
    )
    cut = sum(item.judged_until is not None for item in whole.items)
    return [
        ("from", moment(whole.since)),
        ("to", moment(whole.until)),
        ("schedules", f"{whole.schedules} looked at, {len(whole.items)} with something expected"),
        ("expected", str(counts.expected)),
        ("started", started),
        ("became", ", ".join(f"{number} {word}" for word, number in ends if number)),
        ("skipped", _reasons(counts)),
        ("forgotten", f"{counts.forgotten}, whose history is no longer kept" if counts.forgotten else ""),
        ("doubled", str(counts.doubled)),
        ("unaccounted", str(counts.unaccounted)),
        ("journal", _cover(whole)),
        ("not judged", f"a part of {cut} schedules that have too many: ask for less time" if cut else ""),
        (
            "lost",
            "a journal was lost in this time or later: what was launched then may be recorded nowhere"
            if whole.lost_record
            else "",
        ),
    ]


def _cover(whole: AuditPage) -> str:
    """Which part of the time the journal still tells of."""
    from tocsin.cli.present import moment

    journal = whole.journal
    if journal is None or journal.since is None:
        return "it holds nothing of that time: doubling is judged by the record alone"
    before = "" if journal.whole else "; what is older was trimmed, and is judged by the record alone"
    return f"{journal.entries} entries since {moment(journal.since)}{before}"


def _reasons(counts: AuditCounts) -> str:
    told = ", ".join(
        f"{number} {reason.replace('_', ' ')}" for reason, number in sorted(counts.skipped.items())
    )
    return f"{counts.skips} ({told})" if told else "0"


def _table(items: list[AuditItem]) -> None:
    from tocsin.cli.present import Column, table

    titles = [
        "EXPECTED",
        "STARTED",
        "LATE",
        "SKIPPED",
        "FAILED",
        "IN_DOUBT",
        "OPEN",
        "WAITING",
        "UNACCOUNTED",
    ]
    columns = [Column("ID", may_be_cut=True), *(Column(title) for title in titles)]
    rows = []
    for item in items:
        counts = item.counts
        numbers = (
            counts.expected,
            counts.started,
            counts.late,
            counts.skips,
            counts.failed,
            counts.in_doubt,
            counts.open,
            counts.waiting,
            counts.unaccounted,
        )
        more = "+" if item.at_least else ""
        rows.append((item.schedule, f"{numbers[0]}{more}", *(str(number) for number in numbers[1:])))
    table(columns, rows)


def _show_findings(whole: AuditPage) -> None:
    from tocsin.cli.present import moment, printable

    if whole.findings:
        print()
    for found in whole.findings:
        at = "" if found.at is None else f" at {moment(found.at)}"
        print(printable(f"{found.kind}: {found.schedule or 'a launch'}{at}: {found.told}"))
    if whole.findings_left_out:
        say(f"{whole.findings_left_out} more of them are not named: ask for less time")


def _badness(item: AuditItem) -> tuple[int, ...]:
    counts = item.counts
    return (counts.unaccounted, counts.in_doubt, counts.failed, counts.late, counts.skips, counts.expected)
