"""What ``apply`` reads: YAML, JSON or TOML, several documents a file, several schedules a document.

Everything is read and checked before anything is sent. An error says where: file, document, id and field; and one
wrong document does not hide what is wrong with the others.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from tocsin.cli.define.files import Findings, files_of
from tocsin.cli.define.reading import load_all, load_json, load_toml
from tocsin.cli.printing import Mistakes, say
from tocsin.errors import InvalidInput, TocsinError
from tocsin.model.schedule import Schedule, ScheduleView, convert

_LISTS = ("schedules", "items")
"""What a document may call its list of schedules; ``items`` is what the API calls it."""
_READ_ONLY = frozenset(ScheduleView.__struct_fields__) - frozenset(Schedule.__struct_fields__)
"""What is read back but cannot be written: passed over, so that `show --json` can be applied again."""


class Document(NamedTuple):
    """A schedule, and where it stands."""

    where: str
    schedule: Schedule
    mentions_enabled: bool = True
    """False: whether it is paused is left to those who operate it."""


def read_documents(sources: list[str], *, prune: bool = False) -> list[Document]:
    """All schedules of all sources, or ``Mistakes`` with everything that is wrong with them.

    ``prune``: what is not found will be removed, so that to find nothing in a file is a mistake too.
    """
    documents: list[Document] = []
    findings = Findings(strict=prune)
    mistakes = findings.mistakes
    for name, text in _texts(sources, findings):
        values = list(_values(name, text))
        if not values:
            findings.passed_over(name, "there is no schedule in it")
        for where, value in values:
            _add(where, value, documents, mistakes)
    mistakes += _repeated(documents)
    if mistakes:
        raise Mistakes(mistakes)
    if not documents:
        raise InvalidInput(
            "there is no schedule in there",
            field="file",
            value=", ".join(sources),
            allowed="YAML, JSON or TOML",
        )
    for remark in findings.remarks:
        say(f"note: {remark}")
    return documents


def _texts(sources: list[str], findings: Findings) -> Iterator[tuple[str, str]]:
    for source in sources:
        try:
            if source == "-":
                yield "(stdin)", sys.stdin.read()
                continue
            paths = files_of(Path(source), findings)
        except (OSError, UnicodeDecodeError) as wrong:
            findings.unreadable(source, wrong)
            continue
        for path in paths:
            try:
                yield str(path), path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as wrong:
                findings.unreadable(str(path), wrong)


def _values(name: str, text: str) -> Iterator[tuple[str, object]]:
    """The schedules of a file, each with its place; in the place of what cannot be read, the reason."""
    load = {".toml": load_toml, ".json": load_json}.get(Path(name).suffix, load_all)
    loaded = load(name, text)
    for number, document in enumerate(loaded, 1):
        where = name if len(loaded) == 1 else f"{name}, document {number}"
        document = _listed(where, document)
        if isinstance(document, list):
            for place, item in enumerate(document, 1):
                yield f"{where}, item {place}", item
        elif document is not None:
            yield where, document


def _listed(where: str, document: object) -> object:
    """The list of schedules that a mapping holds; any other document as it is."""
    name = next(
        (key for key in _LISTS if isinstance(document, dict) and isinstance(document.get(key), list)), ""
    )
    if not name or not isinstance(document, dict):
        return document
    # Passed over without a word, `timezone: ...` beside the list would look as if it held for all of it. What
    # begins with x- is nothing but a place for YAML's anchors; a page of the API has a cursor.
    beside = [str(key) for key in document if key not in (name, "cursor") and not str(key).startswith("x-")]
    if beside:
        return InvalidInput(
            f"{where}: {beside[0]!r} cannot stand beside {name!r}",
            field=beside[0],
            value="",
            allowed=f"{name} alone, and keys that begin with x-",
            hint="each schedule says for itself what holds for it",
        )
    return document[name]


def _add(where: str, value: object, documents: list[Document], mistakes: list[TocsinError]) -> None:
    if isinstance(value, InvalidInput):
        mistakes.append(value)
        return
    try:
        mentions_enabled = isinstance(value, dict) and "enabled" in value
        documents.append(Document(where, _schedule(value), mentions_enabled))
    except InvalidInput as wrong:
        id = value.get("id") if isinstance(value, dict) else None
        place = f"{where}, {id}" if isinstance(id, str) else where
        mistakes.append(
            InvalidInput(
                f"{wrong.message} ({place})",
                field=wrong.field,
                value=wrong.value,
                allowed=wrong.allowed,
                hint=wrong.hint,
            )
        )


def _schedule(value: object) -> Schedule:
    if not isinstance(value, dict):
        raise InvalidInput(
            "a schedule is a mapping of fields",
            field="schedule",
            value=repr(value)[:60],
            allowed="id, cron, target, ...",
        )
    try:
        # By way of JSON, so that what is compared is what will be stored: YAML knows dates and numeric keys.
        plain = msgspec.json.decode(msgspec.json.encode(value))
        return convert({key: item for key, item in plain.items() if key not in _READ_ONLY})
    except (TypeError, ValueError, OverflowError, RecursionError) as wrong:
        raise InvalidInput(str(wrong), field="schedule", value="") from None


def _repeated(documents: list[Document]) -> list[TocsinError]:
    seen: dict[str, str] = {}
    found: list[TocsinError] = []
    for where, schedule, _ in documents:
        if schedule.id in seen:
            found.append(
                InvalidInput(
                    f"{schedule.id!r} is defined twice: {seen[schedule.id]} and {where}",
                    field="id",
                    value=schedule.id,
                    allowed="each id once",
                )
            )
        seen.setdefault(schedule.id, where)
    return found
