"""``journal skip``: for the day on which no replica starts because an entry cannot be applied."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.command import Command, Json
from tocsin.cli.printing import print_json, say
from tocsin.cli.usage import ActingFamily

if TYPE_CHECKING:
    from tocsin.replica.parts import Paths

app = typer.Typer(cls=ActingFamily, context_settings={"help_option_names": ["-h", "--help"]})
Seq = Annotated[int, typer.Argument(metavar="SEQ", min=1, help="The entry's number, as the error names it.")]
Data = Annotated[
    Path, typer.Option("--data", envvar="TOCSIN_DATA", help="The data directory of a stopped replica.")
]
_DATA = Path("tocsin-data")


@app.callback()
def journal() -> None:
    """Skip an entry that keeps all replicas from starting.

    Example: tocsin journal skip 1234 --data tocsin-data
    """


@app.command(cls=Command)
def skip(
    seq: Seq,
    data: Data = _DATA,
    without: Annotated[
        list[str] | None,
        typer.Option("--without", metavar="NAME", help="A replica that is lost for good. May be repeated."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Skip the last journal entry, which no replica can apply, so that the service starts again.

    Run it on every replica, and start them: the entry is skipped by all of them or by none. What the entry said did not
    happen: a launch it started is not launched, a schedule it changed stays as it was.

    If another replica has applied the entry, it is not skipped. See docs/damage.md.

    Example: tocsin journal skip 1234 --data tocsin-data
    """
    from tocsin.replica import entry_skip

    with _stopped(data) as paths:
        entry_skip.request(paths, seq, without or [])
    if as_json:
        print_json({"skip": seq, "data": str(paths.data)})
        return
    print(f"entry {seq} will be skipped when every replica has been told so and was started")
    say(f"start the service: tocsin serve --data {data}")


@app.command(cls=Command)
def unskip(seq: Seq, data: Data = _DATA, as_json: Json = False) -> None:
    """Take back a skip that was not carried out yet.

    The other replicas learn of it when this one is started.

    Example: tocsin journal unskip 1234 --data tocsin-data
    """
    from tocsin.replica import entry_skip

    with _stopped(data) as paths:
        entry_skip.withdraw(paths, seq)
    if as_json:
        print_json({"unskip": seq, "data": str(paths.data)})
        return
    print(f"entry {seq} will not be skipped")
    say(f"start the service: tocsin serve --data {data}")


@contextmanager
def _stopped(data: Path) -> Iterator[Paths]:
    """The files of a replica that does not run, and does not begin to."""
    from tocsin.errors import InvalidInput
    from tocsin.replica.office import DataLock
    from tocsin.replica.parts import Paths

    paths = Paths(data.absolute())
    if not paths.data.is_dir():
        raise InvalidInput("there is no such directory", field="--data", value=str(data))
    lock = DataLock(paths.lock)
    lock.take()
    try:
        yield paths
    finally:
        lock.leave()
