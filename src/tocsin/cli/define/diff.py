"""``apply --diff``: what would change, and which launches would appear, vanish or move because of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tocsin.cli.define.apply import intended, placed, present_one
from tocsin.cli.define.prune import surplus
from tocsin.cli.present import moment, printable
from tocsin.cli.printing import a_person_looks, encoded, print_json, report, say
from tocsin.cli.several import told
from tocsin.errors import TocsinError

if TYPE_CHECKING:
    from datetime import datetime

    from tocsin.cli.define.documents import Document
    from tocsin.client import Client
    from tocsin.model.preview import FieldChange, PreviewView

DIFFERENT = 4
"""The exit status when something would change."""
LISTED_MAX = 3
_VALUE_LENGTH_MAX = 160
_ADDED, _REMOVED, _CHANGED = "green", "red", "yellow"
_SUMMARY = {
    "new": "new",
    "changed": "changed",
    "removed": "to be removed",
    "unchanged": "unchanged",
    "refused": "refused",
}

Line = Sequence[tuple[str, str]]
"""Pieces of text, each with its colour."""


async def differences(
    client: Client, documents: list[Document], labels: Mapping[str, str], days: int, as_json: bool
) -> Counter[str]:
    """Show them all; how many there are of each kind comes back."""
    found: Counter[str] = Counter()

    def tell(document: Document, result: tuple[PreviewView, str] | TocsinError) -> None:
        if isinstance(result, TocsinError):
            found["refused"] += 1
            report(placed(result, document), as_json)
            return
        view, remark = result
        found[view.change] += 1
        if as_json:
            print_json(view)
        elif view.change != "unchanged":
            _print(_shown(view, remark, days))

    await told("comparing", documents, lambda document: _previewed(client, document, days), tell)
    if labels and found["refused"]:
        say("nothing would be removed, because not everything could be applied")
    elif labels:
        surplus_found = await surplus(client, documents, labels)
        if surplus_found.is_drastic:
            say(f"this would remove {surplus_found}: --prune asks for --prune-all then")
        for gone in surplus_found.views:
            found["removed"] += 1
            if as_json:
                print_json({"schedule": gone.id, "change": "removed"})
            else:
                _print([[(f"- would be removed  {gone.id}", _REMOVED)]])
    if not as_json:
        print(", ".join(f"{found[kind]} {word}" for kind, word in _SUMMARY.items() if found[kind]))
    return found


async def _previewed(client: Client, document: Document, days: int) -> tuple[PreviewView, str]:
    schedule, remark = intended(document, await present_one(client, document.schedule.id))
    return await client.preview(schedule, days=days), remark


def _shown(view: PreviewView, remark: str, days: int) -> Iterator[Line]:
    remark = remark or ("" if view.enabled else "paused")
    behind = f", {remark}" if remark else ""
    if view.change == "new":
        yield [(f"+ new  {view.schedule}  {view.resolved}  {view.timezone}{behind}", _ADDED)]
    else:
        yield [(f"~ changed  {view.schedule}{behind}", _CHANGED)]
    for change in view.fields:
        yield _field(change)
    yield from _launches(view, days)
    for told_too in [*(transition.text for transition in view.transitions), *view.notes]:
        yield [(f"    {told_too}", "")]


def _field(change: FieldChange) -> Line:
    before, after = _value(change.before), _value(change.after)
    return [(f"    {change.field}: ", ""), (before, _REMOVED), (" -> ", ""), (after, _ADDED)]


def _value(value: object) -> str:
    import msgspec

    text = "(none)" if value is msgspec.UNSET else encoded(value)
    return (
        text if len(text) <= _VALUE_LENGTH_MAX else f"{text[:_VALUE_LENGTH_MAX]}... ({len(text)} characters)"
    )


def _launches(view: PreviewView, days: int) -> Iterator[Line]:
    counts, zone = view.counts, view.timezone
    window = "the next day" if days == 1 else f"the next {days} days"
    if not view.complete:
        window = f"the time until {moment(view.counted_until, zone)} (more are not counted)"
    if counts.appear == counts.vanish == counts.move == 0:
        same = "none" if not counts.after else f"the same {counts.after}"
        yield [(f"    launches in {window}: {same}", "")]
        return
    number = f"{counts.after}" if view.change == "new" else f"{counts.before} before, {counts.after} after"
    yield [(f"    launches in {window}: {number}", "")]
    for move in view.move[:LISTED_MAX]:
        yield [
            ("      ~ ", ""),
            (moment(move.from_, zone), _REMOVED),
            (" -> ", ""),
            (moment(move.to, zone), _ADDED),
        ]
    yield from _more(counts.move, "move")
    yield from _listed("-", view.vanish, counts.vanish, zone, _REMOVED, "vanish")
    yield from _listed(
        "+", view.appear, counts.appear, zone, _ADDED, "" if view.change == "new" else "appear"
    )


def _listed(
    sign: str, instants: Sequence[datetime], total: int, zone: str, style: str, verb: str
) -> Iterator[Line]:
    for instant in instants[:LISTED_MAX]:
        yield [(f"      {sign} {moment(instant, zone)}", style)]
    yield from _more(total, verb)


def _more(total: int, verb: str) -> Iterator[Line]:
    rest = total - LISTED_MAX
    if rest > 0:
        which = f" that {verb}{'s' if rest == 1 else ''}" if verb else ""
        yield [(f"        and {rest} more{which}", "")]


def _print(lines: Iterator[Line] | list[Line]) -> None:
    if not a_person_looks():
        for line in lines:
            print("".join(printable(text) for text, _ in line))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for line in lines:
        console.print(Text.assemble(*((printable(text), style) for text, style in line)))
