"""``add``: one schedule, each of its fields an option."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tocsin.cli.command import Id, Json, Url, ask, pairs
from tocsin.cli.printing import print_json, say
from tocsin.cli.warned import warn
from tocsin.errors import InvalidInput

if TYPE_CHECKING:
    from tocsin.model.schedule import Schedule


def _target(name: str, help: str, metavar: str | None = None) -> Any:
    return typer.Option(name, help=help, metavar=metavar, rich_help_panel="Target: what is launched")


def _policy(name: str, help: str, metavar: str | None = None) -> Any:
    return typer.Option(name, help=help, metavar=metavar, rich_help_panel="Policies")


def add(
    id: Id,
    cron: Annotated[str, typer.Argument(metavar="CRON", help="When, in quotes.", show_default=False)],
    argv: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND...", help="The command and its words.")
    ] = None,
    tz: Annotated[str, typer.Option("--tz", help="Time zone, such as Europe/Berlin.")] = "UTC",
    label: Annotated[list[str] | None, typer.Option("--label", metavar="K=V", help="Several.")] = None,
    description: Annotated[str, typer.Option("--description", help="What it is for.")] = "",
    paused: Annotated[bool, typer.Option("--paused", help="Do not launch it yet.")] = False,
    shell: Annotated[str | None, _target("--shell", "A line for /bin/sh.")] = None,
    http: Annotated[str | None, _target("--http", "A URL to POST to.", "URL")] = None,
    kafka: Annotated[str | None, _target("--kafka", "A topic to send an event to.", "TOPIC")] = None,
    nats: Annotated[str | None, _target("--nats", "A subject to send an event to.", "SUBJECT")] = None,
    null: Annotated[bool, _target("--null", "Launch nothing: a rehearsal.")] = False,
    payload: Annotated[str | None, _target("--payload", "Goes with it.", "JSON")] = None,
    env: Annotated[list[str] | None, _target("--env", "Variable of a command; several.", "K=V")] = None,
    cwd: Annotated[str | None, _target("--cwd", "Where a command works.", "DIR")] = None,
    user: Annotated[str | None, _target("--user", "Who a command runs as.")] = None,
    memory_mb: Annotated[int | None, _target("--memory-mb", "Memory of a command at most.")] = None,
    cpu_seconds: Annotated[int | None, _target("--cpu-seconds", "CPU time of a command at most.")] = None,
    processes: Annotated[int | None, _target("--processes", "Processes of a command at most.")] = None,
    method: Annotated[str | None, _target("--method", "Of an HTTP call, instead of POST.")] = None,
    header: Annotated[list[str] | None, _target("--header", "Of a call or an event; several.", "K:V")] = None,
    key: Annotated[str | None, _target("--key", "Of an event on a topic, instead of the ID.")] = None,
    secret: Annotated[str | None, _target("--secret", "Signs an HTTP call.", "env:NAME|file:PATH")] = None,
    idempotent: Annotated[bool, _target("--idempotent", "The receiver heeds Idempotency-Key.")] = False,
    on_doubt: Annotated[str | None, _policy("--on-doubt", "skip or relaunch.")] = None,
    missed: Annotated[str | None, _policy("--missed", "skip, last or all.")] = None,
    catch_up_spread: Annotated[
        str | None, _policy("--catch-up-spread", "Spread what was missed over, such as 5m.")
    ] = None,
    overlap: Annotated[str | None, _policy("--overlap", "allow, forbid, replace or queue.")] = None,
    deadline: Annotated[str | None, _policy("--deadline", "Not later than, such as 10m.")] = None,
    timeout: Annotated[str | None, _policy("--timeout", "An attempt's limit, such as 1h.")] = None,
    jitter: Annotated[str | None, _policy("--jitter", "Spread over, such as 30s.")] = None,
    retry: Annotated[int | None, _policy("--retry", "Further attempts.", "N")] = None,
    backoff: Annotated[str | None, _policy("--backoff", "Wait before the first of them.")] = None,
    max_backoff: Annotated[str | None, _policy("--max-backoff", "The longest wait.")] = None,
    start: Annotated[str | None, _policy("--start", "Not before (RFC 3339).", "MOMENT")] = None,
    end: Annotated[str | None, _policy("--end", "Not after (RFC 3339).", "MOMENT")] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Add a schedule.

    Examples:

    tocsin add backup '30 2 * * *' --tz Europe/Berlin --retry 3 -- /usr/bin/backup --all

    tocsin add ping '*/5 * * * *' --http http://localhost:9000/ping --timeout 10s
    """
    of_exec = {
        "env": pairs(env, "env") or None,
        "cwd": cwd,
        "user": user,
        "limits": _given(memory_mb=memory_mb, cpu_seconds=cpu_seconds, processes=processes) or None,
    }
    of_http = {
        "method": method,
        "secret": secret,
        "idempotent": idempotent or None,
    }
    of_kafka = {"key": key}
    of_message = {"headers": _headers(header) or None}
    fields = _given(
        id=id,
        cron=cron,
        timezone=tz,
        target=_whole_target(
            _kind(argv, shell, http, kafka, nats, null),
            _given(**of_exec),
            _given(**of_http),
            _given(**of_kafka),
            _given(**of_message),
        ),
        payload=_payload(payload),
        on_doubt=on_doubt,
        missed=missed,
        catch_up_spread=catch_up_spread,
        overlap=overlap,
        deadline=deadline,
        timeout=timeout,
        jitter=jitter,
        retry=_retry(retry, backoff, max_backoff),
        labels=pairs(label, "label"),
        description=description,
        enabled=not paused,
        start=start,
        end=end,
    )
    _send(fields, url, as_json)


def _send(fields: dict[str, Any], url: str | None, as_json: bool) -> None:
    from tocsin.model.schedule import convert

    schedule = convert(fields)
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
    warn(view)
    if is_new:
        _warn_of_the_past(schedule)


def _warn_of_the_past(schedule: Schedule) -> None:
    """A year mistyped is a launch now: whoever did not mean that should hear of it."""
    from datetime import UTC, datetime

    once_s = schedule.expression().next_unix(-1) if schedule.cron.lower().startswith("@at") else None
    if once_s is None or once_s > datetime.now(UTC).timestamp() or not schedule.enabled:
        return
    then = "it is not launched" if schedule.missed == "skip" else "it is launched now"
    say(f"that moment has passed, so it counts as missed; missed: {schedule.missed}, so {then}")


def _given(**fields: Any) -> dict[str, Any]:
    """What was not left out."""
    return {name: value for name, value in fields.items() if value is not None}


def _kind(
    argv: list[str] | None,
    shell: str | None,
    http: str | None,
    kafka: str | None,
    nats: str | None,
    null: bool,
) -> dict[str, Any]:
    kinds: list[dict[str, Any]] = [
        {"kind": "exec", "argv": argv} if argv else {},
        {"kind": "exec", "shell": shell} if shell is not None else {},
        {"kind": "http", "url": http} if http is not None else {},
        {"kind": "kafka", "topic": kafka} if kafka is not None else {},
        {"kind": "nats", "subject": nats} if nats is not None else {},
        {"kind": "null"} if null else {},
    ]
    given = [kind for kind in kinds if kind]
    if len(given) != 1:
        raise InvalidInput(
            "there is nothing to launch" if not given else "there are several things to launch",
            field="target",
            value="",
            allowed="one of --shell LINE, --http URL, --kafka TOPIC, --nats SUBJECT, --null, or -- COMMAND...",
            hint="for example: tocsin add hello '* * * * *' --shell 'echo hello'",
        )
    return given[0]


def _whole_target(
    target: dict[str, Any],
    of_exec: dict[str, Any],
    of_http: dict[str, Any],
    of_kafka: dict[str, Any],
    of_message: dict[str, Any],
) -> dict[str, Any]:
    kind = target["kind"]
    for owners, what, fields, beside in (
        (("exec",), "a command", of_exec, "--shell LINE or -- COMMAND..."),
        (("http",), "an HTTP call", of_http, "--http URL"),
        (("kafka",), "an event on a topic", of_kafka, "--kafka TOPIC"),
        (
            ("http", "kafka", "nats"),
            "an HTTP call or an event",
            of_message,
            "--http URL, --kafka TOPIC or --nats SUBJECT",
        ),
    ):
        if fields and kind not in owners:
            field = next(iter(fields))
            raise InvalidInput(
                f"it belongs to {what}, and the target is of kind {kind!r}",
                field=_OPTIONS.get(field, f"--{field}"),
                value="",
                allowed=f"{beside} beside it",
            )
    return {**target, **of_exec, **of_http, **of_kafka, **of_message}


_OPTIONS = {"limits": "--memory-mb, --cpu-seconds", "headers": "--header"}
"""Where the option is called otherwise than the field."""


def _headers(given: list[str] | None) -> dict[str, str]:
    return {name.strip(): value.strip() for name, value in pairs(given, "header", ":").items()}


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
    fields = _given(limit=limit, backoff=backoff, max_backoff=max_backoff)
    if fields and limit is None:
        raise InvalidInput("a wait without attempts", field="retry", value="", allowed="--retry N beside it")
    return fields or None
