"""``backup``, ``backup list`` and ``backup verify``, and what ``restore`` does with a data directory.

Only the first asks the service. The others go to the place of the backups themselves: they are for the day on
which there is no service.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tocsin.cli.command import Command, Json, Url, ask
from tocsin.cli.printing import REFUSED, print_json, say
from tocsin.cli.usage import ActingFamily

if TYPE_CHECKING:
    from tocsin.backup.manifest import BackupManifest, Owner
    from tocsin.backup.store import Backups

_TIMEOUT_S = 3600.0
_AHEAD_MS = 30_000
"""Clocks differ by as much."""
Place = Annotated[
    str,
    typer.Argument(
        metavar="URL",
        envvar="TOCSIN_BACKUP",
        help="Folder or URL (s3://...) of the backups.",
        show_default=False,
    ),
]

app = typer.Typer(
    cls=ActingFamily,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def backup(context: typer.Context, url: Url = None, as_json: Json = False) -> None:
    """Have the service make a backup now, and wait until it is there.

    It goes to the place that 'tocsin serve --backup URL' names, like every snapshot does by itself.

    Example: tocsin backup
    """
    if context.invoked_subcommand is not None:
        return
    made = ask(url, lambda client: client.back_up(), timeout_s=_TIMEOUT_S)
    if as_json:
        print_json(made)
        return
    from tocsin.cli.present import moment

    print(f"backup at sequence {made.sequence}, {moment(made.at)}, {_size(made.stored_bytes)} compressed")


@app.command("list", cls=Command)
def list_backups(place: Place, as_json: Json = False) -> None:
    """List the backups at a place, the newest first.

    Example: tocsin backup list s3://my-bucket/tocsin
    """
    from tocsin.backup.manifest import view_of

    found = _backups(place).survey()
    if as_json:
        items = [{**_fields(view_of(each.manifest)), "problem": each.problem} for each in found]
        print_json({"items": items})
    elif found:
        _show([(each.manifest, each.problem or "there") for each in found])
    else:
        say("no backups there")


@app.command(cls=Command)
def verify(
    place: Place,
    newest: Annotated[bool, typer.Option("--newest", help="Only the newest one.")] = False,
    as_json: Json = False,
) -> None:
    """Read backups to their ends: are they what they say? Exit status 1 if one is not, or if there is none.

    Example: tocsin backup verify s3://my-bucket/tocsin --newest
    """
    from tocsin.backup.manifest import view_of
    from tocsin.errors import NotFound

    backups = _backups(place)
    found = backups.survey()[: 1 if newest else None]
    if not found:
        raise NotFound(f"there is no backup at {backups}", hint="'tocsin backup' makes one")
    told = []
    for each in found:
        told.append((each.manifest, each.problem or _problem(backups, each.manifest)))
    if as_json:
        print_json({"items": [{**_fields(view_of(each)), "problem": problem} for each, problem in told]})
    else:
        _show([(each, problem or "whole") for each, problem in told])
    if any(problem for _, problem in told):
        raise typer.Exit(REFUSED)


def restore_backup(
    place: str, data: Path, seq: int | None, at: str, secret: Path | None, as_json: bool
) -> None:
    """Put a backup into an empty data directory; the next 'tocsin serve' starts from it."""
    from tocsin.backup.manifest import view_of
    from tocsin.cli.moments import parse_moment
    from tocsin.errors import InvalidInput

    if seq is not None and at:
        raise InvalidInput("one of them is enough", field="--seq", value=seq, allowed="--seq or --at")
    until_ms = int(parse_moment(at, field="--at").timestamp() * 1000) if at else None
    backups = _backups(place, secret)
    with empty_data(data) as folder, _progress("restoring") as progress:
        made = backups.fetch_newest(folder, seq=seq, until_ms=until_ms, progress=progress)
    if secret is None:
        remedy = "; --cluster-secret FILE checks it" if made.authenticator else ""
        say(
            f"who wrote this backup was not checked: whoever can write there can have, and it will be run{remedy}"
        )
    if as_json:
        print_json({**_fields(view_of(made)), "data": str(data.absolute())})
        return
    from tocsin.cli.present import away, moment

    when = view_of(made).at
    print(f"restored the backup at sequence {made.seq}, of {moment(when)} ({away(when)}), into {data}")
    say(
        "what was launched since that moment is not known to it: it may have happened. Where on_doubt is 'skip' it is "
        "not repeated, and nothing is launched in the first half minute"
    )
    if made.time_ms > time.time() * 1000 + _AHEAD_MS:
        say(
            "that moment has not come yet: the clock was ahead when the backup was made. What was launched behind it "
            "since is left out as far as it is known how much the clock was ahead: see docs/backup.md"
        )
    say(f"start from it: tocsin serve --data {data}")


def _backups(place: str, secret: Path | None = None) -> Backups:
    from tocsin.backup.store import Backups

    return Backups(place, field="url", tell=say, owner=None if secret is None else _owner(secret))


def _owner(secret: Path) -> Owner:
    from tocsin.backup.manifest import Owner
    from tocsin.member.secret_file import read_secrets

    secrets = read_secrets(secret)
    return Owner(secrets.digest, other_signatures=secrets.other_digests)


def _problem(backups: Backups, backup: BackupManifest) -> str:
    from tocsin.errors import SnapshotDamaged

    try:
        with _progress(f"reading {backup.seq}") as progress:
            backups.verify(backup, progress)
    except SnapshotDamaged as damaged:
        return damaged.message.partition(" is damaged: ")[2] or damaged.message
    return ""


@contextmanager
def empty_data(data: Path) -> Iterator[Path]:
    """The folder to restore into, of a data directory that nobody uses and that holds nothing."""
    import shutil

    from tocsin.errors import InvalidInput, Refused
    from tocsin.replica.office import DataLock

    data = data.absolute()
    if data.exists() and not data.is_dir():
        raise InvalidInput(f"{data} is not a directory", field="--data", value=str(data))
    before = {path.name for path in data.iterdir()} if data.exists() else set()
    lock = DataLock(data / "office.lock")
    try:
        lock.take()
    except OSError as wrong:
        raise InvalidInput(f"{data}: {wrong.strerror}", field="--data", value=str(data)) from None
    try:
        kept = sorted(before - {"office.lock", "restore", "secrets"})
        if kept:
            raise Refused(
                f"{data} is not empty: {', '.join(kept[:3])}{', ...' if len(kept) > 3 else ''}",
                hint="restore into another directory, or move away what is in this one",
            )
        shutil.rmtree(data / "restore", ignore_errors=True)
        yield data / "restore"
    finally:
        lock.leave()


@contextmanager
def _progress(title: str) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on stderr while a person looks."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)


def _show(items: list[tuple[BackupManifest, str]]) -> None:
    from tocsin.backup.manifest import view_of
    from tocsin.cli.present import Column, is_narrow, moment, short_moment, table, zone_title

    views = [(view_of(each), told) for each, told in items]
    is_short = is_narrow()
    title = zone_title("AT", [view.at for view, _ in views]) if is_short else "AT"
    columns = ("SEQUENCE", title, "SIZE", "STORED", "STATE", "VERSION", "JOURNAL")
    table(
        [Column(name, may_be_cut=name in ("STATE", "JOURNAL")) for name in columns],
        [
            (
                str(view.sequence),
                short_moment(view.at) if is_short else moment(view.at),
                _size(view.bytes),
                _size(view.stored_bytes),
                told,
                view.version,
                view.incarnation,
            )
            for view, told in views
        ],
    )


def _size(bytes: int) -> str:
    """1000 kB are a MB, as disks and bills count."""
    size = float(bytes)
    units = ["B", "kB", "MB", "GB", "TB"]
    while size >= 1000 and len(units) > 1:
        size /= 1000
        del units[0]
    return f"{size:.0f} {units[0]}" if size >= 100 or units[0] == "B" else f"{size:.1f} {units[0]}"


def _fields(view: Any) -> dict[str, Any]:
    import msgspec

    return msgspec.structs.asdict(view)
