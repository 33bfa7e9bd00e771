"""``journal skip``: for the day on which the service does not start because an entry cannot be applied."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tocsin.cli.command import Command, Json
from tocsin.cli.printing import print_json, say
from tocsin.cli.usage import ActingFamily

app = typer.Typer(cls=ActingFamily, context_settings={"help_option_names": ["-h", "--help"]})


@app.callback()
def journal() -> None:
    """Pass over an entry that keeps the service from starting.

    Example: tocsin journal skip 1234 --data tocsin-data
    """


@app.command(cls=Command)
def skip(
    seq: Annotated[
        int, typer.Argument(metavar="SEQ", min=1, help="The entry's number, as the error names it.")
    ],
    data: Annotated[
        Path, typer.Option("--data", envvar="TOCSIN_DATA", help="The data directory of a stopped replica.")
    ] = Path("tocsin-data"),
    as_json: Json = False,
) -> None:
    """Pass over one journal entry that cannot be applied, so that the service starts again.

    What the entry said did not happen: a launch it started is not launched, a schedule it changed stays as it was. The
    next start on this data directory stores that beside the journal, for all replicas.

    Example: tocsin journal skip 1234 --data tocsin-data
    """
    from tocsin.errors import InvalidInput, Refused
    from tocsin.replica.office import DataLock
    from tocsin.replica.parts import Paths
    from tocsin.state.store import Store

    paths = Paths(data.absolute())
    if not paths.data.is_dir():
        raise InvalidInput("there is no such directory", field="--data", value=str(data))
    lock = DataLock(paths.lock)
    lock.take()
    try:
        if paths.state.exists():
            store = Store(paths.state)
            applied = store.meta.seq
            store.close()
            if applied >= seq:
                raise Refused(
                    f"entry {seq} was applied here: the state is at {applied}",
                    hint="only an entry that could not be applied can be skipped",
                )
        paths.skip.write_text(f"{seq}\n")
    finally:
        lock.leave()
    if as_json:
        print_json({"skip": seq, "data": str(paths.data)})
        return
    print(f"entry {seq} will be skipped at the next start")
    say(f"start the service: tocsin serve --data {data}")
