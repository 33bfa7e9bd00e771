"""Schedules that the files no longer have are removed: only under labels, and only on purpose."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import typer

from tocsin.cli.command import Mistakes, pairs, print_json, report, say
from tocsin.cli.several import told
from tocsin.errors import InvalidInput, TocsinError

if TYPE_CHECKING:
    from tocsin.cli.define.documents import Document
    from tocsin.client import Client
    from tocsin.model.schedule import ScheduleView


def pruned_labels(prune: bool, label: list[str] | None) -> dict[str, str]:
    """The labels under which is pruned; empty: nothing is."""
    labels = pairs(label, "label")
    if prune and not labels:
        raise InvalidInput(
            "without a label, every schedule that is not in the files would be removed",
            field="--prune",
            value="",
            allowed="--prune --label key=value, one or several",
            hint="give your schedules a label of their own, such as managed-by=our-repository",
        )
    if labels and not prune:
        raise InvalidInput(
            "it says what --prune may remove, and means nothing without it",
            field="--label",
            value="",
            allowed="together with --prune",
            hint="labels of schedules stand in the documents",
        )
    return labels


def check_labelled(documents: list[Document], labels: Mapping[str, str]) -> None:
    """What does not carry the labels would be created, and never be pruned when its document goes."""
    wanted = ", ".join(f"{key}={value}" for key, value in labels.items())
    mistakes: list[TocsinError] = [
        InvalidInput(
            f"{document.schedule.id} does not carry {wanted} ({document.where})",
            field="labels",
            value="",
            allowed=wanted,
            hint="it would be outside of what --prune looks after",
        )
        for document in documents
        if not labels.items() <= document.schedule.labels.items()
    ]
    if mistakes:
        raise Mistakes(mistakes)


def check_can_ask(yes: bool) -> None:
    """Before anything is sent: who cannot be asked must have said yes."""
    if not yes and not sys.stdin.isatty():
        raise InvalidInput(
            "nobody can be asked here whether to remove schedules",
            field="--prune",
            value="",
            allowed="--prune --yes where there is no terminal",
            hint="see what it would remove with --diff --prune",
        )


async def surplus(client: Client, documents: list[Document], labels: Mapping[str, str]) -> list[ScheduleView]:
    """What carries the labels in the service but is in no document."""
    kept = {document.schedule.id for document in documents}
    return [view async for view in client.schedules(labels=labels) if view.id not in kept]


def agreed(views: list[ScheduleView]) -> bool:
    """Ask the person at the terminal."""
    say("these are in no file:")
    for view in views:
        say(f"  - {view.id}")
    noun = "this schedule" if len(views) == 1 else f"these {len(views)} schedules"
    return typer.confirm(f"Remove {noun}?", err=True)


async def remove_all(client: Client, expected: Mapping[str, int | None], as_json: bool) -> bool:
    """Remove each id, if it is still at that version (None: at any). True if all went well."""
    refused: list[TocsinError] = []

    def tell(id: str, result: TocsinError | None) -> None:
        if result is not None:
            refused.append(result)
            report(result, as_json)
        elif as_json:
            print_json({"id": id, "result": "removed"})
        else:
            print(f"{id} removed")

    await told("removing", list(expected), lambda id: client.delete(id, expect=expected[id]), tell)
    return not refused
