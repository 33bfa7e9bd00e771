"""``limits``: how fast, how many at once, and what waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tocsin.cli.command import Json, Url, ask
from tocsin.cli.printing import print_json, say

if TYPE_CHECKING:
    from tocsin.model.limit import LimitView


def limits(url: Url = None, as_json: Json = False) -> None:
    """Show the limits of rate and concurrency, and what waits for them.

    STARTS is how many launches a second began in the last ten, UNDER WAY how many have not ended, WAITING how many are
    due and find no room. Of a label without a value its busiest values follow.

    Example: tocsin limits
    """
    found = ask(url, lambda client: client.limits())
    if as_json:
        print_json(found)
        return
    if not found.items:
        say("there are no limits: 'tocsin serve --limits FILE' sets some")
        return
    from tocsin.cli.present import Column, table

    columns = (
        Column("LIMIT", may_be_cut=True),
        Column("RATE"),
        Column("BURST"),
        Column("AT ONCE"),
        Column("STARTS"),
        Column("UNDER WAY"),
        Column("WAITING"),
    )
    table(columns, (row for item in found.items for row in _rows(item)))
    if not found.leader:
        say("nobody is known to lead: the numbers are not known")


def _rows(item: LimitView) -> Iterator[tuple[str, ...]]:
    yield (
        item.limit,
        item.rate or "any",
        "" if item.burst is None else str(item.burst),
        "any" if item.concurrency is None else str(item.concurrency),
        f"{item.started_per_s:g}/s",
        str(item.under_way),
        str(item.waiting),
    )
    for value in item.values:
        yield f"  {item.label}={value.value}", "", "", "", "", str(value.under_way), str(value.waiting)
