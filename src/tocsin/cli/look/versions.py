"""``versions`` and ``restore``: a schedule as it was, and as it was again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.command import Id, Json, Url, ask
from tocsin.cli.printing import print_json
from tocsin.errors import AlreadyExists, InvalidInput, NotFound

if TYPE_CHECKING:
    from tocsin.model.history import VersionView
    from tocsin.model.schedule import Schedule, ScheduleView


def versions(
    id: Id,
    version: Annotated[
        int | None, typer.Option("--version", metavar="N", min=1, help="Print this one, as apply reads it.")
    ] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """List the versions of a schedule and how each came about, also of one that was removed.

    Example: tocsin versions billing/payroll --version 3
    """
    found = ask(url, lambda client: client.versions(id))
    if version is not None:
        _print_one(_at(found.items, version, id), as_json)
    elif as_json:
        print_json(found)
    else:
        _show(found.items)


def restore(
    what: Annotated[
        str, typer.Argument(metavar="ID|URL", help="A schedule; or, with --data, the place of the backups.")
    ],
    version: Annotated[
        int | None,
        typer.Option("--version", metavar="N", min=1, help="By default the last one of what was removed."),
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", help="Data directory for a backup; empty, or to be made.")
    ] = None,
    seq: Annotated[int | None, typer.Option("--seq", help="The backup at this sequence number.")] = None,
    at: Annotated[
        str, typer.Option("--at", metavar="TIME", help="The newest backup up to this moment.")
    ] = "",
    secret: Annotated[
        Path | None,
        typer.Option(
            "--cluster-secret",
            metavar="FILE",
            envvar="TOCSIN_CLUSTER_SECRET",
            help="Only a backup that the cluster with this secret has written.",
            show_envvar=False,
        ),
    ] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Bring back a schedule that was removed or a former version of one; or, with --data, a whole backup.

    A schedule goes on with the next occurrence after now; 'tocsin versions ID' lists its versions.

    A backup is put into an empty data directory, and the next 'tocsin serve' starts from it: the newest that is whole,
    unless --seq or --at say otherwise. What was launched since it was made is not known to it: such launches may have
    happened, and under 'on_doubt: skip' they are not repeated. Whoever can write to the place of the backups can have
    put one there, and what is in it will be run: --cluster-secret takes only what the cluster itself has written.

    Given the data directory of a replica that was stopped, a new journal goes on from its state.

    Example: tocsin restore billing/payroll --version 3
    Example: tocsin restore s3://my-bucket/tocsin --data ./tocsin-data
    Example: tocsin restore /var/lib/tocsin-old --data /var/lib/tocsin
    """
    if data is not None:
        from tocsin.cli.backup import restore_backup
        from tocsin.cli.restore_state import is_data_directory, restore_state

        if is_data_directory(what):
            if seq is not None or at or secret is not None:
                raise InvalidInput(
                    "a data directory holds one state",
                    field="--data",
                    value=what,
                    allowed="no --seq, --at or secret",
                )
            restore_state(Path(what), data, as_json)
            return
        restore_backup(what, data, seq, at, secret, as_json)
        return
    id = what
    try:
        view = ask(url, lambda client: client.restore(id, version))
    except AlreadyExists as there:
        there.hint = f"say which version it is to be: --version N; 'tocsin versions {id}' lists them"
        raise
    if as_json:
        print_json(view)
        return
    what = "back" if version is None else f"as version {version} was"
    print(f"{view.id} is {what}, now at version {view.version}; {_what_comes(view)}")


def as_yaml(schedule: Schedule) -> str:
    """A document that ``apply`` reads back as the same schedule."""
    import msgspec
    import yaml

    text: str = yaml.safe_dump(
        msgspec.to_builtins(schedule),
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=1000,
    )
    return text


def _what_comes(view: ScheduleView) -> str:
    from tocsin.cli.present import away, moment

    if not view.enabled:
        return f"it is paused: 'tocsin resume {view.id}' goes on"
    return f"next: {moment(view.next, view.timezone)}, {away(view.next)}" if view.next else "nothing is left"


def _at(items: list[VersionView], version: int, id: str) -> VersionView:
    for item in items:
        if item.version == version:
            return item
    have = ", ".join(str(item.version) for item in items[:20])
    raise NotFound(f"version {version} of {id!r} is not kept", hint=f"there are {have}")


def _print_one(found: VersionView, as_json: bool) -> None:
    if as_json:
        print_json(found.schedule)
    else:
        print(as_yaml(found.schedule), end="")


def _show(items: list[VersionView]) -> None:
    from tocsin.cli.present import Column, is_narrow, moment, short_moment, table, zone_title

    is_short = is_narrow()
    columns = (
        Column("VERSION"),
        Column(zone_title("SINCE", (item.since for item in items)) if is_short else "SINCE"),
        Column("HOW"),
        Column("WHO", may_be_cut=True),
        Column("CHANGED", may_be_cut=True),
        Column("UNTIL"),
        Column("NOTE", may_be_cut=True),
    )
    older = [*items[1:], None]
    rows = (
        (
            str(item.version),
            short_moment(item.since) if is_short else moment(item.since),
            item.act,
            item.actor,
            _changed(item, before),
            _until(item, is_short),
            item.note,
        )
        for item, before in zip(items, older, strict=True)
    )
    table(columns, rows)


def _until(item: VersionView, is_short: bool) -> str:
    from tocsin.cli.present import moment, short_moment

    if item.until is None:
        return "in force"
    return f"{short_moment(item.until) if is_short else moment(item.until)} {item.ended_by}"


def _changed(item: VersionView, before: VersionView | None) -> str:
    """The fields in which it differs from the version before."""
    import msgspec

    if before is None or item.act == "created":
        return ""
    new, old = msgspec.to_builtins(item.schedule), msgspec.to_builtins(before.schedule)
    return ", ".join(name for name in {**old, **new} if new.get(name) != old.get(name))
