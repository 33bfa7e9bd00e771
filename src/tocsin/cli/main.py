"""The list of commands, and what ``tocsin`` alone teaches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from tocsin.cli import backup, clock, cluster, completion, journal, reckon, repair, serve, simulate, tokens
from tocsin.cli.command import Command, Json
from tocsin.cli.define import add, commands
from tocsin.cli.define.set import set_fields
from tocsin.cli.look import (
    audit,
    events,
    forecast,
    history,
    launch,
    launches,
    limits,
    output,
    schedules,
    timeline,
    top,
    versions,
    why,
)
from tocsin.cli.operate import backfill, bulk, resolve, single
from tocsin.cli.printing import print_json
from tocsin.cli.transfer import export, import_crontab, import_schedules
from tocsin.cli.usage import Program

_FIRST_STEPS = """\
Tocsin launches what you schedule: once, on time, and accounted for.

  1. tocsin serve --example                                     run it, with a few examples
  2. tocsin add hello '*/10 * * * * *' --shell 'echo hello'     in another terminal: a schedule of your own
  3. tocsin launches                                            what it did

  tocsin next '30 2 * * mon-fri' --tz Europe/Berlin             when would that be?
  tocsin why hello                                              why was it launched, or why not?
  tocsin --help                                                 all commands\
"""

_ENVIRONMENT = """\
In the environment:

TOCSIN_URL    where the service is, several with ","; else http://127.0.0.1:8400

TOCSIN_TOKEN  what lets you in, where a token is asked for

TOCSIN_CA     a file with the certificate, or its authority's, to trust with https\
"""

app = typer.Typer(
    name="tocsin",
    cls=Program,
    help="Launches what you schedule: once, on time, and accounted for.",
    add_completion=False,
    invoke_without_command=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_ENVIRONMENT,
)


@app.callback()
def first_steps(
    context: typer.Context,
    shows_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if shows_version:
        version()
        raise typer.Exit(0)
    if context.invoked_subcommand is None:
        print(_FIRST_STEPS)


def version(as_json: Json = False) -> None:
    """Print the version.

    Example: tocsin version
    """
    from tocsin import __version__

    if as_json:
        print_json({"version": __version__})
    else:
        print(f"tocsin {__version__}")


_COMMANDS: dict[str, dict[str, Callable[..., None]]] = {
    "The service": {
        "serve": serve.serve,
        "status": schedules.status,
        "top": top.top,
        "limits": limits.limits,
        "whoami": tokens.whoami,
        "version": version,
    },
    "Schedules": {
        "add": add.add,
        "set": set_fields,
        "apply": commands.apply,
        "import-crontab": import_crontab.import_crontab,
        "list": schedules.list_schedules,
        "show": schedules.show,
        "pause": single.pause,
        "resume": single.resume,
        "rm": commands.rm,
        "history": history.history,
        "versions": versions.versions,
        "restore": versions.restore,
        "export": export.export_schedules,
        "import": import_schedules.import_schedules,
    },
    "Launches": {
        "run": single.run,
        "launches": launches.launches,
        "launch": launch.launch,
        "timeline": timeline.timeline,
        "events": events.events,
        "output": output.output,
        "cancel": single.cancel,
        "why": why.why,
        "audit": audit.audit,
        "forecast": forecast.forecast,
        "backfill": backfill.backfill,
        "resolve": resolve.resolve,
    },
    "Without a service": {
        "next": reckon.next_instants,
        "explain": reckon.explain,
        "sim": simulate.sim,
        "completion": completion.completion,
    },
}
_CLASSES = {"why": why.Why}
_FAMILIES = (
    ("token", tokens.app, "The service"),
    ("backup", backup.app, "The service"),
    ("cluster", cluster.app, "The service"),
    ("clock", clock.app, "The service"),
    ("repair", repair.app, "The service"),
    ("journal", journal.app, "Without a service"),
    ("bulk", bulk.app, "Schedules"),
)
for _panel, _group in _COMMANDS.items():
    for _name, _function in _group.items():
        app.command(_name, cls=_CLASSES.get(_name, Command), rich_help_panel=_panel)(_function)
for _name, _family, _panel in _FAMILIES:
    app.add_typer(_family, name=_name, rich_help_panel=_panel)


def main() -> None:
    """The entry point."""
    completion.answer_shells()
    app()
