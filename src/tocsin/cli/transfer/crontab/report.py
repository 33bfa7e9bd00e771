"""What is said about an import: a table for people, one JSON document for programs, YAML for ``tocsin apply``."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from tocsin.cli.present import Column, is_narrow, printable, table
from tocsin.cli.printing import print_json, report, say, sentences
from tocsin.cli.transfer.crontab.files import Source
from tocsin.cli.transfer.crontab.lines import Crontab, Line
from tocsin.errors import InvalidInput, TocsinError
from tocsin.model.schedule import Schedule

SENT = ("created", "updated", "unchanged")
_LEFT_OUT = ("refused", "suspicious", "skipped")
_ORDER = (*SENT, "ready", "held back", "not sent", *_LEFT_OUT, "environment", "comment", "blank")
_BELOW = "see below"
"""A reason is told once, in full: a column of a table has no room for it."""
_SHOWN_ON_ITS_OWN = ("comment", "blank")


class Result(NamedTuple):
    """What became of a line in the end. ``problem`` is what the service refused it with."""

    word: str
    remark: str = ""
    problem: TocsinError | None = None


class File(NamedTuple):
    """A crontab that was read, and the results of its schedules by their line numbers."""

    source: Source
    crontab: Crontab
    results: dict[int, Result]
    origin: str
    """What the label crontab says."""

    def result(self, line: Line) -> Result:
        return self.results[line.number] if line.schedule is not None else Result(line.kind, "", line.problem)


class Stale(NamedTuple):
    """A schedule that came from one of the crontabs, but from none of its present lines.

    ``word``: ``stale``, or with --prune ``removed`` or ``refused``.
    """

    id: str
    origin: str
    word: str = "stale"
    problem: TocsinError | None = None


class Import(NamedTuple):
    """All that there is to say."""

    files: list[File]
    notes: list[str]
    """About all files together."""
    stale: list[Stale]

    @property
    def is_well(self) -> bool:
        """A skipped line is correct, and told; it does not make the import fail."""
        words = self.counts() + Counter(each.word for each in self.stale)
        return not any(words[word] for word in ("refused", "suspicious", "not sent", "held back"))

    def counts(self) -> Counter[str]:
        return Counter(file.result(line).word for file in self.files for line in file.crontab.lines)


def tell(done: Import, zone: str) -> None:
    """For people: a table a file, then what needs attention, then the sum."""
    for file in done.files:
        source = file.source
        print(printable(f"{source.name}: {source.format}: {source.reason}. {zone}"))
        sys.stdout.flush()
        rows = [_row(file, line) for line in file.crontab.lines if line.kind not in _SHOWN_ON_ITS_OWN]
        if rows:
            _table(rows)
    for each in done.stale:
        print(printable(f"{each.word}: {each.id}: no line of {each.origin} makes it any more"))
    print(_sum(done))
    sys.stdout.flush()
    tell_beside(done)


def _table(rows: list[tuple[str, ...]]) -> None:
    """Where there is little room the cron text gives way: its meaning says the same."""
    columns = [
        Column("LINE"),
        Column("RESULT"),
        Column("ID"),
        Column("CRON"),
        Column("MEANING", may_be_cut=True),
    ]
    if is_narrow():
        columns.pop(3)
        rows = [(*row[:3], row[4]) for row in rows]
    table(columns, rows)


def tell_beside(done: Import) -> None:
    """On stderr: what was left out and why, and what is to be known."""
    for file in done.files:
        for line in file.crontab.lines:
            problem = file.result(line).problem
            if problem is not None:
                report(_placed(problem, file, line), as_json=False)
    for each in done.stale:
        if each.problem is not None:
            report(each.problem, as_json=False)
    for note in _notes(done):
        say(f"note: {note}")


def tell_json(done: Import) -> None:
    print_json(
        {
            "files": [
                {
                    "file": printable(file.source.name),
                    "format": "system" if file.source.system else "user",
                    "reason": file.source.reason,
                    "user": file.source.user,
                    "lines": [_line_json(file, line) for line in file.crontab.lines],
                    "notes": list(_file_notes(file)),
                }
                for file in done.files
            ],
            "stale": [
                {"id": each.id, "crontab": each.origin, "result": each.word}
                | ({"reason": each.problem.message} if each.problem else {})
                for each in done.stale
            ],
            "notes": [*done.notes, *_stale_notes(done)],
            "summary": dict(done.counts()),
        }
    )


def tell_yaml(done: Import) -> None:
    """Documents for ``tocsin apply -f``; what was left out stands there as a comment."""
    import msgspec
    import yaml

    class Dumper(yaml.SafeDumper):
        """Text of several lines reads best as a block."""

    def block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)

    Dumper.add_representer(str, block)
    for file in done.files:
        for line in file.crontab.lines:
            place = printable(f"{file.source.name}, line {line.number}")
            if line.schedule is not None:
                fields = msgspec.to_builtins(line.schedule)
                text = yaml.dump(fields, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=1000)
                print(f"---\n# {place}\n{text}", end="")
            elif line.problem is not None:
                print(printable(f"# {place}: {line.kind}: {line.problem}"))


def _row(file: File, line: Line) -> tuple[str, ...]:
    result = file.result(line)
    remarks = [*line.remarks, *([result.remark] if result.remark else [])]
    if line.schedule is not None:
        cron, told = line.schedule.cron, [meaning(line.schedule), *remarks]
        if result.problem is not None:
            told = [_BELOW]
        return str(line.number), result.word, line.schedule.id, cron, "; ".join(told)
    if line.problem is not None:
        return str(line.number), result.word, "", line.text.strip()[:60], _BELOW
    # Of a setting only the name: the value may be a password.
    return str(line.number), result.word, "", "", "; ".join([line.text.partition("=")[0].strip(), *remarks])


def meaning(schedule: Schedule) -> str:
    expression = schedule.expression()
    settled = f" ({expression.resolved})" if expression.resolved != schedule.cron else ""
    return expression.explain() + settled


def _line_json(file: File, line: Line) -> dict[str, Any]:
    result = file.result(line)
    told: dict[str, Any] = {"line": line.number, "result": result.word, "text": printable(line.text)}
    if line.schedule is not None:
        told |= {"id": line.schedule.id, "explanation": meaning(line.schedule), "schedule": line.schedule}
    remarks = [*line.remarks, *([result.remark] if result.remark else [])]
    if remarks:
        told["remarks"] = remarks
    if result.problem is not None:
        told |= {"reason": result.problem.message, "hint": result.problem.hint}
        if isinstance(result.problem, InvalidInput):
            told |= {"field": result.problem.field, "allowed": result.problem.allowed}
    return told


def _placed(problem: TocsinError, file: File, line: Line) -> TocsinError:
    """The same complaint with its place in front, the way compilers say it."""
    first, *rest = sentences(problem)
    place = f"{file.source.name}, line {line.number}: {file.result(line).word}: "
    return TocsinError(place + first.removeprefix("tocsin: "), hint="; ".join(text.strip() for text in rest))


def _notes(done: Import) -> Iterator[str]:
    for file in done.files:
        prefix = f"{file.source.name}: " if len(done.files) > 1 else ""
        yield from (prefix + note for note in _file_notes(file))
    yield from done.notes
    yield from _stale_notes(done)


def _stale_notes(done: Import) -> Iterator[str]:
    count = sum(each.word == "stale" for each in done.stale)
    if not count:
        return
    one = count == 1
    first = "1 schedule comes" if one else f"{count} schedules come"
    them = "it" if one else "them"
    yield (
        f"{first} from a line that is gone, and will still be launched: "
        f"import again with --prune to remove {them}, or use 'tocsin rm ID'"
        + ("" if done.is_well else ". But a line that was refused may have been theirs: correct it first")
    )


def _file_notes(file: File) -> Iterator[str]:
    if file.source.passed_over:
        yield f"Passed over, because of their names, as cron does: {', '.join(file.source.passed_over)}"
    yield from file.crontab.notes


def _sum(done: Import) -> str:
    counts = done.counts()
    parts = [f"{counts[word]} {word}" for word in _ORDER if counts[word]]
    total = counts.total()
    words = Counter(each.word for each in done.stale)
    beside = "".join(f"; {count} {word} of lines that are gone" for word, count in words.items())
    return f"{total} {'line' if total == 1 else 'lines'}: " + ", ".join(parts or ["nothing in it"]) + beside
