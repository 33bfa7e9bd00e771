"""``apply`` and ``rm``: schedules come, change and go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tocsin.cli.command import REFUSED, Json, Url, ask, print_json, report
from tocsin.errors import NotFound, TocsinError, Unreachable

if TYPE_CHECKING:
    from tocsin.cli.documents import Document
    from tocsin.client import Client


class _Applied(NamedTuple):
    """What became of a document."""

    id: str
    result: str
    version: int
    enabled: bool
    remark: str = ""

    def __str__(self) -> str:
        version = f" (version {self.version})" if self.result == "updated" else ""
        return f"{self.id} {self.result}{version}" + (f", {self.remark}" if self.remark else "")


def apply(
    file: Annotated[list[str], typer.Option("--file", "-f", metavar="FILE|DIR|-", help="Several.")],
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Create or update schedules from YAML or JSON files.

    Every document is checked before the first one is sent. What was paused stays paused, unless a document says
    enabled: true.

    Example: tocsin apply -f schedules/
    """
    from tocsin.cli.documents import read_documents

    documents = read_documents(file)
    if not ask(url, lambda client: _apply_all(client, documents, as_json)):
        raise typer.Exit(REFUSED)


def rm(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of schedules.", show_default=False)],
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Remove schedules. What they have launched goes on.

    Example: tocsin rm hello billing/payroll
    """
    if not ask(url, lambda client: _remove_all(client, ids, as_json)):
        raise typer.Exit(REFUSED)


async def _apply_all(client: Client, documents: list[Document], as_json: bool) -> bool:
    """All of them, also when one is refused. True if all went well."""
    is_well = True
    for document in documents:
        try:
            applied = await _apply(client, document)
        except Unreachable:
            raise
        except TocsinError as refused:
            is_well = False
            refused.message = f"{refused.message} ({document.where}, {document.schedule.id})"
            report(refused, as_json)
            continue
        if as_json:
            told = applied._asdict()
            del told["remark"]
            print_json(told)
        else:
            print(applied)
    return is_well


async def _apply(client: Client, document: Document) -> _Applied:
    import msgspec

    schedule = document.schedule
    try:
        present = await client.schedule(schedule.id)
    except NotFound:
        created = await client.put(schedule, expect=0)
        return _Applied(created.id, "created", created.version, created.enabled)
    remark = ""
    if not present.enabled and not document.mentions_enabled:
        schedule = msgspec.structs.replace(schedule, enabled=False)
        remark = "still paused"
    elif not present.enabled and schedule.enabled:
        remark = "resumed"
    # The version of the read goes along: nobody's edit in between is overwritten unseen.
    view = await client.put(schedule, expect=present.version)
    result = "unchanged" if view.version == present.version else "updated"
    return _Applied(view.id, result, view.version, view.enabled, remark)


async def _remove_all(client: Client, ids: list[str], as_json: bool) -> bool:
    is_well = True
    for id in ids:
        try:
            await client.delete(id)
        except Unreachable:
            raise
        except TocsinError as refused:
            is_well = False
            report(refused, as_json)
            continue
        if as_json:
            print_json({"id": id, "result": "removed"})
        else:
            print(f"{id} removed")
    return is_well
