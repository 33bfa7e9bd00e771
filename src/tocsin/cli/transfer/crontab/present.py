"""What earlier imports left in the service, beside what the lines say now.

A schedule belongs to a crontab by its label ``crontab`` and to a line by its id. One that belongs to the crontab but
to none of its lines is stale: its line is gone, or has become another. It would be launched for ever, and where its
line has only got another id, twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from tocsin.cli.define.prune import Surplus
from tocsin.cli.several import told
from tocsin.cli.transfer.crontab.report import File, Import, Stale
from tocsin.errors import NotFound, TocsinError, TooMany, Unreachable
from tocsin.model.schedule import Schedule, ScheduleView
from tocsin.model.target import ExecTarget

if TYPE_CHECKING:
    from tocsin.client import Client


class Present(NamedTuple):
    """What there is, and what an import is to make of it."""

    views: dict[str, ScheduleView]
    """By id, all that begin with the prefix."""
    stale: list[ScheduleView]
    before: dict[str, ScheduleView]
    """By the id that a line has now: what the very same line became under another id. It is replaced."""
    doubles: list[ScheduleView]
    """The same command at the same time, under another prefix or from another crontab."""

    def surplus(self) -> Iterator[Surplus]:
        """What --prune would remove, crontab by crontab: one that came out empty must not hide behind the others."""
        for origin in dict.fromkeys(view.labels["crontab"] for view in self.stale):
            carrying = sum(view.labels.get("crontab") == origin for view in self.views.values())
            stale = [view for view in self.stale if view.labels["crontab"] == origin]
            yield Surplus(stale, carrying, {"crontab": origin})

    def intended(self, schedule: Schedule) -> tuple[Schedule, str]:
        """What is to be sent, and a remark. A line that only got another id stays paused if it was."""
        if schedule.id in self.views:
            return schedule, ""
        before = self.before.get(schedule.id)
        if before is not None:
            remark = f"in place of {before.id}" + ("" if before.enabled else ", still paused")
            return msgspec.structs.replace(schedule, enabled=before.enabled), remark
        # A new time too: then it cannot be said which of them it was. If all were paused, so was this one.
        command = _command(schedule)
        kin = [view for view in self.stale if command is not None and _command(view) == command]
        if kin and not any(view.enabled for view in kin):
            return msgspec.structs.replace(schedule, enabled=False), f"paused, as {kin[0].id} is"
        return schedule, ""

    async def replace(self, client: Client, id: str) -> None:
        """A line that has got this id: what it was before goes, or it would be launched twice."""
        before = self.before.get(id)
        if before is None:
            return
        try:
            await client.delete(before.id, expect=before.version)
        except NotFound:
            pass
        except (Unreachable, TooMany):
            raise  # the caller tries again, or tells it
        except TocsinError:  # somebody has edited it meanwhile: it stays, and is told
            self.stale.append(before)

    def still_stale(self) -> list[Stale]:
        return [Stale(view.id, view.labels["crontab"]) for view in self.stale]

    def notes(self) -> Iterator[str]:
        if self.doubles:
            count, first = len(self.doubles), self.doubles[0].id
            yield (
                f"The same command at the same time is there under another id too ({count}, such as {first}), "
                "and both are launched: remove with 'tocsin rm' what you do not want"
            )


async def remove_stale(client: Client, present: Present, results: list[Stale]) -> None:
    """What becomes of each goes into ``results``."""

    def tell(view: ScheduleView, refused: TocsinError | None) -> None:
        word = "removed" if refused is None else "refused"
        results.append(Stale(view.id, view.labels["crontab"], word, refused))

    await told("removing", present.stale, lambda view: client.delete(view.id, expect=view.version), tell)


async def look(client: Client, done: Import, prefix: str) -> Present:
    """Ask the service for all that has to do with these crontabs."""
    views = {view.id: view async for view in client.schedules(prefix=prefix)}
    elsewhere: list[ScheduleView] = []
    for origin in dict.fromkeys(file.origin for file in done.files):
        found = [view async for view in client.schedules(labels={"crontab": origin})]
        elsewhere += [view for view in found if view.id not in views and not view.id.startswith(prefix)]
    return compare(done.files, views, elsewhere)


def compare(
    files: Sequence[File], views: dict[str, ScheduleView], elsewhere: Iterable[ScheduleView] = ()
) -> Present:
    """Which schedules are of no line, and which of these are a line's own under another id."""
    schedules = [line.schedule for file in files for line in file.crontab.lines if line.schedule is not None]
    kept = {schedule.id for schedule in schedules}.union(*(file.crontab.held_ids for file in files))
    origins = {file.origin for file in files}
    before: dict[str, ScheduleView] = {}
    stale = [view for view in views.values() if view.labels.get("crontab") in origins and view.id not in kept]
    for schedule in schedules:
        known = _line(schedule)
        if schedule.id in views or known is None:
            continue
        same = next((view for view in stale if _line(view) == known), None)
        if same is not None:
            stale.remove(same)
            before[schedule.id] = same
    others = [view for view in views.values() if view.labels.get("crontab") not in origins]
    unlike = [view for view in (*elsewhere, *others) if view.id not in kept]
    lines = {known[1:] for known in map(_line, schedules) if known is not None}
    doubles = [view for view in unlike if (_line(view) or ())[1:] in lines]
    return Present(views, stale, before, doubles)


def _line(schedule: Schedule) -> tuple[object, ...] | None:
    """By this a line is known again. Not by its user: --user may have been forgotten the first time."""
    command = _command(schedule)
    if command is None:
        return None
    return schedule.labels.get("crontab"), command, schedule.cron, schedule.timezone


def _command(schedule: Schedule) -> object:
    target = schedule.target
    return (target.shell, target.argv) if isinstance(target, ExecTarget) else None
