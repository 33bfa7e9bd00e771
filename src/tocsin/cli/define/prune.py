"""Schedules that the files no longer have are removed: only under labels, and only on purpose."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import typer

from tocsin.cli.command import pairs
from tocsin.cli.printing import Mistakes, print_json, report, say
from tocsin.cli.several import told
from tocsin.errors import InvalidInput, TocsinError

if TYPE_CHECKING:
    from tocsin.cli.define.documents import Document
    from tocsin.client import Client
    from tocsin.model.schedule import ScheduleView


_MANY = 10
"""From so many on, to lose more than half of them looks like an accident."""


class Surplus(NamedTuple):
    """What would be removed, and of how many that carry the same labels."""

    views: list[ScheduleView]
    carrying: int
    labels: Mapping[str, str]

    @property
    def is_drastic(self) -> bool:
        """So much that a wrong path or a half checkout is likelier than a wish."""
        count = len(self.views)
        return count > 0 and (
            count == self.carrying or (self.carrying >= _MANY and 2 * count > self.carrying)
        )

    def __str__(self) -> str:
        count, carrying = len(self.views), self.carrying
        labels = ", ".join(f"{key}={value}" for key, value in self.labels.items())
        if not self.is_drastic:
            return "this schedule" if count == 1 else f"these {count} schedules"
        if count < carrying:
            return f"{count} of the {carrying} schedules that carry {labels}, MORE THAN HALF of them"
        if count == 1:
            return f"THE ONLY SCHEDULE that carries {labels}"
        return f"ALL {count} schedules that carry {labels}"


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


def check_prune_all(prune: bool, prune_all: bool) -> None:
    if prune_all and not prune:
        raise InvalidInput(
            "it says how much --prune may remove, and means nothing without it",
            field="--prune-all",
            value="",
            allowed="together with --prune",
        )


def check_can_ask(yes: bool, hint: str = "see what it would remove with --diff --prune") -> None:
    """Before anything is sent: who cannot be asked must have said yes."""
    if not yes and not sys.stdin.isatty():
        raise InvalidInput(
            "nobody can be asked here whether to remove schedules",
            field="--prune",
            value="",
            allowed="--prune --yes where there is no terminal",
            hint=hint,
        )


async def surplus(client: Client, documents: list[Document], labels: Mapping[str, str]) -> Surplus:
    """What carries the labels in the service but is in no document."""
    kept = {document.schedule.id for document in documents}
    carrying = [view async for view in client.schedules(labels=labels)]
    return Surplus([view for view in carrying if view.id not in kept], len(carrying), labels)


def agreed(found: Surplus, *, yes: bool, prune_all: bool, where: str = "in no file") -> bool:
    """May they be removed? A yes that was said ahead of time did not foresee that nearly nothing would be left."""
    if not found.views or prune_all or (yes and not found.is_drastic):
        return True
    if not sys.stdin.isatty():
        raise InvalidInput(
            f"this would remove {found}",
            field="--prune",
            value="",
            allowed="--prune --prune-all, if that is meant",
            hint="is the path right, and is all of it there?",
        )
    say(f"these are {where}:")
    for view in found.views:
        say(f"  - {view.id}")
    return typer.confirm(f"Remove {found}?", err=True)


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
