"""``import-crontab``: the lines of a crontab become schedules, and every line is accounted for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tocsin.cli.command import Json, Url, ask, pairs
from tocsin.cli.printing import REFUSED, say
from tocsin.errors import InvalidInput, Refused, TocsinError, Unreachable

if TYPE_CHECKING:
    from tocsin.cli.define.prune import Surplus
    from tocsin.cli.transfer.crontab.files import Source
    from tocsin.cli.transfer.crontab.lines import Line
    from tocsin.cli.transfer.crontab.present import Present
    from tocsin.cli.transfer.crontab.report import File, Import
    from tocsin.client import Client
    from tocsin.model.schedule import ScheduleView


def import_crontab(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE|DIR|-...", help="Crontabs. [dim]-: stdin[/dim]", show_default=False),
    ],
    system: Annotated[
        bool, typer.Option("--system", help="The lines name a user, as in /etc/crontab.")
    ] = False,
    user_format: Annotated[
        bool, typer.Option("--user-format", help="They do not, as in 'crontab -l'. Else the place decides.")
    ] = False,
    user: Annotated[
        str | None, typer.Option("--user", help="Whose crontab it is. Else the service's own user runs it.")
    ] = None,
    prefix: Annotated[str, typer.Option("--prefix", help="The ids begin with it.")] = "cron/",
    tz: Annotated[
        str | None,
        typer.Option("--tz", help="Time zone of the lines. Else this machine's.", show_default=False),
    ] = None,
    label: Annotated[list[str] | None, typer.Option("--label", metavar="K=V", help="Several.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Import all lines or none.")] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove what came from lines that are gone.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before removing.")] = False,
    prune_all: Annotated[
        bool, typer.Option("--prune-all", help="Do not ask either if all or most would be removed.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would come of it; needs no service.")
    ] = False,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="yaml", help="Print a file for 'tocsin apply'; needs no service."
        ),
    ] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Turn crontabs into schedules.

    Every line is reported: what it became and when it is due, or why it
    cannot be kept and what to write instead. The good lines are imported
    even if others are refused (exit status 1), unless --strict. Importing
    again changes only what has changed. The label crontab says from which
    machine and file a schedule is; another file's are never replaced.

    An id is made of the user and the command, and of when it is due only
    where the same command stands in several lines. What came from a line
    that is gone, or has another command now, is reported as stale and goes
    on being launched, until --prune or 'tocsin rm' removes it.

    What differs from cron: output is kept and not mailed. PATH is longer
    than /usr/bin:/bin. What was missed while no service was there is made
    up for once (missed: last).

    Examples:

    crontab -l | tocsin import-crontab - --dry-run

    tocsin import-crontab /etc/crontab /etc/cron.d --prefix web1/ --label host=web1

    tocsin import-crontab my.crontab --tz Europe/Berlin -o yaml > schedules.yaml
    """
    from tocsin.cli.transfer.crontab import report as crontab_report
    from tocsin.cli.transfer.crontab.files import Wish, read_sources

    _check(output, as_json, prefix)
    may_remove = _may_remove(prune, yes, prune_all, is_sent=not (dry_run or output))
    zone, where = _zone(tz)
    sources = read_sources(files, Wish(system, user_format, user))
    done = _read(sources, zone, prefix, pairs(label, "label"))
    is_whole = not any(line.problem for file in done.files for line in file.crontab.lines)
    unreachable: Unreachable | None = None
    if strict and not is_whole:
        _settle(done, "held back")
    elif dry_run or output:
        _settle(done, "ready")
    else:
        unreachable = _send_all(done, prefix, may_remove, url)
    if as_json:
        crontab_report.tell_json(done)
    elif not output:
        crontab_report.tell(done, where)
    else:
        if is_whole or not strict:
            crontab_report.tell_yaml(done)
        crontab_report.tell_beside(done)
    if unreachable is not None:
        raise unreachable
    if strict and not is_whole:
        say("tocsin: nothing was imported, because of --strict")
        raise typer.Exit(REFUSED)
    if not done.is_well:
        raise typer.Exit(REFUSED)


def _check(output: str | None, as_json: bool, prefix: str) -> None:
    from tocsin.model.ids import check_id

    if output not in (None, "yaml"):
        raise InvalidInput(f"{output!r} cannot be printed", field="--output", value=output, allowed="yaml")
    if output and as_json:
        raise InvalidInput(
            "not both", field="--output", value="--json", allowed="one of --output yaml, --json"
        )
    check_id(f"{prefix}x", field="--prefix")


def _zone(given: str | None) -> tuple[str, str]:
    """The zone, and a few words about where it comes from."""
    from tocsin.cli.transfer.crontab.files import system_zone
    from tocsin.cron import Expression

    zone = given or system_zone()
    Expression.parse("@daily", timezone=zone)
    return zone, f"Times are {zone}" + ("" if given else ", as this machine's: --tz gives another")


def _read(sources: list[Source], zone: str, prefix: str, labels: dict[str, str]) -> Import:
    from tocsin.cli.transfer.crontab.clashes import refuse_clashes
    from tocsin.cli.transfer.crontab.herds import herds
    from tocsin.cli.transfer.crontab.ids import Names
    from tocsin.cli.transfer.crontab.lines import Options, read_crontab
    from tocsin.cli.transfer.crontab.report import File, Import

    names = Names(prefix)
    files = []
    for source in sources:
        options = Options(
            timezone=zone,
            system=source.system,
            guessed=source.guessed,
            user=source.user,
            labels={"crontab": source.origin, **labels},
            home_of=_home_of,
        )
        crontab = read_crontab(source.text, options, names)
        files.append(File(source, crontab, {}, options.labels["crontab"]))
    refuse_clashes(files)
    schedules = [line.schedule for file in files for line in file.crontab.lines if line.schedule is not None]
    return Import(files, herds(schedules), [])


def _home_of(user: str) -> str | None:
    """Of this machine's users; empty where the directory is not there."""
    import os
    import pwd

    try:
        home = pwd.getpwnam(user).pw_dir
    except KeyError:
        return None
    return home if os.path.isdir(home) else ""


def _settle(done: Import, word: str) -> None:
    """The same word for all schedules."""
    from tocsin.cli.transfer.crontab.report import Result

    for file in done.files:
        file.results.update(
            (line.number, Result(word)) for line in file.crontab.lines if line.schedule is not None
        )


def _may_remove(
    prune: bool, yes: bool, prune_all: bool, *, is_sent: bool
) -> Callable[[Surplus], bool] | None:
    """The question to whoever imports; None where nothing is to be removed."""
    from tocsin.cli.define.prune import agreed, check_can_ask, check_prune_all

    check_prune_all(prune, prune_all)
    if not prune:
        return None
    if not is_sent:
        raise InvalidInput(
            "without a service nobody knows what it has",
            field="--prune",
            value="",
            allowed="without --dry-run and --output",
            hint="import without --prune: it reports what is stale and removes nothing",
        )
    check_can_ask(yes or prune_all, "import once without --prune: it reports what is stale")
    return lambda found: agreed(found, yes=yes, prune_all=prune_all, where="of lines that are gone")


def _send_all(
    done: Import, prefix: str, may_remove: Callable[[Surplus], bool] | None, url: str | None
) -> Unreachable | None:
    """Returns the error if the service went away in between, so that what was done is told before it."""
    from tocsin.cli.transfer.crontab.present import look, remove_stale

    _settle(done, "not sent")
    present = ask(url, lambda client: look(client, done, prefix))
    if may_remove is not None and not all(map(may_remove, present.surplus())):
        say("nothing was imported and nothing was removed")
        raise typer.Exit(REFUSED)
    done.notes.extend(present.notes())
    try:
        ask(url, lambda client: _send(client, done, present))
        if may_remove is not None and done.is_well:
            ask(url, lambda client: remove_stale(client, present, done.stale))
            return None
        done.stale.extend(present.still_stale())
        if may_remove is not None:
            say("nothing was removed, because not every line could be imported")
    except Unreachable as wrong:
        if not any(result.word != "not sent" for file in done.files for result in file.results.values()):
            raise
        return wrong
    return None


async def _send(client: Client, done: Import, present: Present) -> None:
    from tocsin.cli.define.apply import Applied, apply_one
    from tocsin.cli.define.documents import Document
    from tocsin.cli.several import told
    from tocsin.cli.transfer.crontab.report import Result

    async def work(item: tuple[File, Line]) -> Applied:
        file, line = item
        assert line.schedule is not None
        _check_origin(line.schedule.labels["crontab"], present.views.get(line.schedule.id))
        schedule, remark = present.intended(line.schedule)
        applied = await apply_one(client, Document(file.source.name, schedule, mentions_enabled=False))
        await present.replace(client, schedule.id)
        return applied._replace(remark=remark or applied.remark)

    def tell(item: tuple[File, Line], result: Applied | TocsinError) -> None:
        file, line = item
        if isinstance(result, TocsinError):
            file.results[line.number] = Result("refused", problem=result)
        else:
            file.results[line.number] = Result(result.result, result.remark)

    items = [(file, line) for file in done.files for line in file.crontab.lines if line.schedule is not None]
    await told("importing", items, work, tell)


def _check_origin(crontab: Any, present: ScheduleView | None) -> None:
    """A line must not replace a schedule that happens to have its name."""
    if present is None or present.labels.get("crontab") == crontab:
        return
    import shlex

    origin = present.labels.get("crontab")
    from_where = f"from another crontab, {origin!r}" if origin else "and is not from a crontab"
    take_over = f", or --label {shlex.quote(f'crontab={origin}')} to replace it" if origin else ""
    raise Refused(
        f"there is a schedule {present.id!r} already, {from_where}",
        hint=f"give another --prefix to have both{take_over}",
    )
