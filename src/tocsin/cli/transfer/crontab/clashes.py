"""The same command in two crontabs of one import: both lines would be one schedule, and the last would win."""

from __future__ import annotations

from tocsin.cli.transfer.crontab.report import File
from tocsin.errors import InvalidInput


def refuse_clashes(files: list[File]) -> None:
    """The first line stays. Were the second given another name, it would depend on what else is imported with it."""
    places: dict[str, str] = {}
    for file in files:
        for at, line in enumerate(file.crontab.lines):
            if line.schedule is None:
                continue
            id = line.schedule.id
            if id not in places:
                places[id] = f"{file.source.name}, line {line.number}"
                continue
            problem = InvalidInput(
                f"the same command stands in {places[id]}",
                field="id",
                value=id,
                allowed="each id once",
                hint="leave out one of them; or import each file on its own, with its own --prefix",
            )
            file.crontab.lines[at] = line._replace(kind="refused", schedule=None, problem=problem)
