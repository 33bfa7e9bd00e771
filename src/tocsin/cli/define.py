"""``add``, ``apply`` and ``rm``: schedules come, change and go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tocsin.cli.command import REFUSED, Id, Json, Url, ask, pairs, print_json, report
from tocsin.errors import InvalidInput, NotFound, TocsinError, Unreachable

if TYPE_CHECKING:
    from tocsin.cli.documents import Document
    from tocsin.client import Client
    from tocsin.model.schedule import Schedule


def add(
    id: Id,
    cron: Annotated[str, typer.Argument(metavar="CRON", help="When, in quotes.", show_default=False)],
    argv: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND...]", help="The command and its words.")
    ] = None,
    shell: Annotated[str | None, typer.Option("--shell", help="A line for /bin/sh.")] = None,
    http: Annotated[str | None, typer.Option("--http", metavar="URL", help="A URL to POST to.")] = None,
    null: Annotated[bool, typer.Option("--null", help="Launch nothing: a rehearsal.")] = False,
    tz: Annotated[str, typer.Option("--tz", help="Time zone, such as Europe/Berlin.")] = "UTC",
    payload: Annotated[str | None, typer.Option("--payload", metavar="JSON", help="Goes with it.")] = None,
    on_doubt: Annotated[str | None, typer.Option("--on-doubt", help="skip or relaunch.")] = None,
    missed: Annotated[str | None, typer.Option("--missed", help="skip, last or all.")] = None,
    overlap: Annotated[str | None, typer.Option("--overlap", help="allow, forbid, replace or queue.")] = None,
    deadline: Annotated[str | None, typer.Option("--deadline", help="Not later than, such as 10m.")] = None,
    timeout: Annotated[str | None, typer.Option("--timeout", help="An attempt's limit, such as 1h.")] = None,
    jitter: Annotated[str | None, typer.Option("--jitter", help="Spread over, such as 30s.")] = None,
    retry: Annotated[int | None, typer.Option("--retry", metavar="N", help="Further attempts.")] = None,
    backoff: Annotated[str | None, typer.Option("--backoff", help="Wait before the first of them.")] = None,
    max_backoff: Annotated[str | None, typer.Option("--max-backoff", help="The longest wait.")] = None,
    label: Annotated[list[str] | None, typer.Option("--label", metavar="K=V", help="Several.")] = None,
    description: Annotated[str, typer.Option("--description", help="What it is for.")] = "",
    paused: Annotated[bool, typer.Option("--paused", help="Do not launch it yet.")] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Add a schedule.

    Examples:

    tocsin add backup '30 2 * * *' --tz Europe/Berlin --retry 3 -- /usr/bin/backup --all

    tocsin add ping '*/5 * * * *' --http http://localhost:9000/ping --timeout 10s
    """
    fields: dict[str, Any] = {
        "id": id,
        "cron": cron,
        "timezone": tz,
        "target": _target(argv, shell, http, null),
        "payload": _payload(payload),
        "on_doubt": on_doubt,
        "missed": missed,
        "overlap": overlap,
        "deadline": deadline,
        "timeout": timeout,
        "jitter": jitter,
        "retry": _retry(retry, backoff, max_backoff),
        "labels": pairs(label, "label"),
        "description": description,
        "enabled": not paused,
    }
    from tocsin.model.schedule import convert

    schedule = convert({name: value for name, value in fields.items() if value is not None})
    view, is_new = ask(url, lambda client: client.create(schedule))
    if as_json:
        print_json(view)
        return
    from tocsin.cli.present import away, moment

    told = "added" if is_new else "exists already, exactly like this"
    when = (
        f"next: {moment(view.next, view.timezone)}, {away(view.next)}" if view.next else "no next occurrence"
    )
    print(f"{view.id} {told}; {when}")


def apply(
    file: Annotated[list[str], typer.Option("--file", "-f", metavar="FILE|DIR|-", help="Several.")],
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Create or update schedules from YAML or JSON files.

    Every document is checked before the first one is sent.

    Example: tocsin apply -f schedules/
    """
    from tocsin.cli.documents import read_documents

    documents = read_documents(file)
    if not ask(url, lambda client: _apply_all(client, documents, as_json)):
        raise typer.Exit(REFUSED)


def rm(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of schedules.", show_default=False)],
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Remove schedules. What they have launched goes on.

    Example: tocsin rm hello billing/payroll
    """
    if not ask(url, lambda client: _remove_all(client, ids, as_json)):
        raise typer.Exit(REFUSED)


async def _apply_all(client: Client, documents: list[Document], as_json: bool) -> bool:
    """All of them, also when one is refused. True if all went well."""
    is_well = True
    for where, schedule in documents:
        try:
            result, version = await _apply(client, schedule)
        except Unreachable:
            raise
        except TocsinError as refused:
            is_well = False
            refused.message = f"{refused.message} ({where}, {schedule.id})"
            report(refused, as_json)
            continue
        if as_json:
            print_json({"id": schedule.id, "result": result, "version": version})
        else:
            print(f"{schedule.id} {result}" + (f" (version {version})" if result == "updated" else ""))
    return is_well


async def _apply(client: Client, schedule: Schedule) -> tuple[str, int]:
    """What became of it, and its version."""
    try:
        present = await client.schedule(schedule.id)
    except NotFound:
        return "created", (await client.put(schedule, expect=0)).version
    # The version of the read goes along: nobody's edit in between is overwritten unseen.
    version = (await client.put(schedule, expect=present.version)).version
    return ("unchanged" if version == present.version else "updated"), version


async def _remove_all(client: Client, ids: list[str], as_json: bool) -> bool:
    is_well = True
    for id in ids:
        try:
            await client.delete(id)
        except Unreachable:
            raise
        except TocsinError as refused:
            is_well = False
            report(refused, as_json)
            continue
        if as_json:
            print_json({"id": id, "result": "removed"})
        else:
            print(f"{id} removed")
    return is_well


def _target(argv: list[str] | None, shell: str | None, http: str | None, null: bool) -> dict[str, Any]:
    kinds: list[dict[str, Any]] = [
        {"kind": "exec", "argv": argv} if argv else {},
        {"kind": "exec", "shell": shell} if shell is not None else {},
        {"kind": "http", "url": http} if http is not None else {},
        {"kind": "null"} if null else {},
    ]
    given = [kind for kind in kinds if kind]
    if len(given) != 1:
        raise InvalidInput(
            "there is nothing to launch" if not given else "there are several things to launch",
            field="target",
            value="",
            allowed="one of --shell LINE, --http URL, --null, or -- COMMAND...",
            hint="for example: tocsin add hello '* * * * *' --shell 'echo hello'",
        )
    return given[0]


def _payload(text: str | None) -> object:
    if text is None:
        return None
    import json

    try:
        return json.loads(text)
    except ValueError as wrong:
        raise InvalidInput(
            f"this is not JSON: {wrong}", field="payload", value=text, allowed="JSON"
        ) from None


def _retry(limit: int | None, backoff: str | None, max_backoff: str | None) -> dict[str, Any] | None:
    given = {"limit": limit, "backoff": backoff, "max_backoff": max_backoff}
    fields = {name: value for name, value in given.items() if value is not None}
    if fields and limit is None:
        raise InvalidInput("a wait without attempts", field="retry", value="", allowed="--retry N beside it")
    return fields or None
