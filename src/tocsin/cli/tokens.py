"""``token create``, ``token list``, ``token revoke`` and ``whoami``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tocsin.cli.command import Command, Json, Url, ask
from tocsin.cli.printing import a_person_looks, print_json, say
from tocsin.cli.usage import Family

if TYPE_CHECKING:
    from datetime import datetime

    from tocsin.model.token import NewTokenView, TokenView

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the token.", show_default=False)]

app = typer.Typer(
    help="Tokens: who may do what.",
    cls=Family,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command(cls=Command)
def create(
    name: Name,
    scope: Annotated[
        list[str],
        typer.Option(
            "--scope", help="read, write, exec, operate, admin. Several, or a,b.", show_default=False
        ),
    ],
    prefix: Annotated[
        list[str] | None,
        typer.Option("--prefix", help="Only schedules below this, such as billing/. Several."),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target", help="Only such targets may be written: http:*.example.org, nats:team-a.*. Several."
        ),
    ] = None,
    expires: Annotated[str, typer.Option("--expires", metavar="DURATION", help="Such as 30d.")] = "",
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Make a token and print it, this once.

    read: look. write: read, and change schedules. exec: with write, also schedules that run commands, which can read
    all that the service's user can. operate: read, and pause, resume, run, cancel, resolve, backfill. admin:
    everything, and tokens.

    Example: TOCSIN_TOKEN=$(tocsin token create ci --scope read,operate --prefix billing/ --expires 30d)
    """
    scopes: Any = [each for given in scope for each in given.replace(",", " ").split()]
    prefixes, targets = prefix or [], target or []
    _check(name, scopes, prefixes, targets, expires)
    made = ask(url, lambda client: client.create_token(name, scopes, prefixes, expires or None, targets))
    if as_json:
        print_json(made)
        return
    print(made.token)
    _remark(made)


@app.command("list", cls=Command)
def list_tokens(url: Url = None, as_json: Json = False) -> None:
    """List all tokens: what they may do, until when, when they were used last, and the logins at the console that they
    opened.

    Example: tocsin token list
    """
    found = ask(url, lambda client: client.tokens())
    if as_json:
        print_json({"items": found})
    elif found:
        _show(found)
    else:
        say("no tokens; make one: tocsin token create NAME --scope read")


@app.command(cls=Command)
def revoke(name: Name, url: Url = None, as_json: Json = False) -> None:
    """Make a token worthless, at once, with all logins at the console that it opened. By its name or id.

    With the id of a session, which 'tocsin token list' shows, only that login ends.

    Example: tocsin token revoke ci
    """
    ask(url, lambda client: client.revoke_token(name))
    if as_json:
        print_json({"token": name, "result": "revoked"})
    else:
        print(f"{name} revoked")


def whoami(url: Url = None, as_json: Json = False) -> None:
    """Who am I to the service, and how far may I go?

    Example: tocsin whoami
    """
    found = ask(url, lambda client: client.who_am_i())
    if as_json:
        print_json(found)
        return
    from tocsin.cli.present import facts

    facts(
        [
            ("name", found.name),
            ("token", found.token or "none, and none is needed here"),
            ("may", ", ".join(found.scopes)),
            ("reaches", ", ".join(found.prefixes) or "every schedule"),
            ("targets", ", ".join(found.targets) or "any that it may write"),
        ]
    )


def _check(name: str, scopes: list[str], prefixes: list[str], targets: list[str], expires: str) -> None:
    """Here, in the words of the options."""
    from tocsin.cron import parse_duration
    from tocsin.model.token import check_token

    check_token(name, scopes, prefixes, targets)
    if expires:
        parse_duration(expires, field="--expires")


def _remark(made: NewTokenView) -> None:
    from tocsin.cli.present import moment

    until = f", until {moment(made.expires_at)}" if made.expires_at else ""
    within = f" below {', '.join(made.prefixes)}" if made.prefixes else ""
    within += f" to {', '.join(made.targets)}" if made.targets else ""
    say(f"{made.name} may {', '.join(made.scopes)}{within}{until}; the token is told only this once")
    if "admin" in made.scopes:
        say("the file admin.token in the service's data directory is not needed any more: you may delete it")
    if a_person_looks():
        say("to use it: export TOCSIN_TOKEN=...")


def _show(items: list[TokenView]) -> None:
    from tocsin.cli.present import Column, is_narrow, moment, short_moment, table, zone_title

    is_short = is_narrow()
    times = [at for token in items for at in (token.created_at, token.expires_at, token.last_used_at)]

    def told(at: datetime | None, otherwise: str) -> str:
        if at is None:
            return otherwise
        return short_moment(at) if is_short else moment(at)

    columns = (
        Column("NAME"),
        Column("MAY"),
        Column("REACHES", may_be_cut=True),
        Column("EXPIRES"),
        Column(zone_title("LAST USED", times) if is_short else "LAST USED"),
        Column("MADE BY", may_be_cut=True),
        Column("MADE"),
        Column("ID"),
    )
    rows = (
        (
            token.name,
            ",".join(token.scopes),
            _reach(token),
            "expired" if _is_over(token) else told(token.expires_at, "never"),
            told(token.last_used_at, "not yet"),
            token.created_by,
            told(token.created_at, "-"),
            token.id,
        )
        for token in items
    )
    table(columns[:6] if is_short else columns, (row[:6] for row in rows) if is_short else rows)
    _show_sessions(items)


def _show_sessions(items: list[TokenView]) -> None:
    from tocsin.cli.present import Column, moment, table

    rows = [
        (
            token.name,
            session.address,
            moment(session.opened_at),
            moment(session.expires_at),
            moment(session.last_used_at) if session.last_used_at else "not yet",
            session.id,
        )
        for token in items
        for session in token.sessions
    ]
    if rows:
        print()
        names = ("LOGIN WITH", "FROM", "OPENED", "EXPIRES", "LAST USED", "SESSION")
        table(tuple(Column(name) for name in names), rows)


def _reach(token: TokenView) -> str:
    """Schedules, and where they may go."""
    prefixes = ", ".join(token.prefixes) or "everything"
    return f"{prefixes} to {', '.join(token.targets)}" if token.targets else prefixes


def _is_over(token: TokenView) -> bool:
    from datetime import UTC, datetime

    return token.expires_at is not None and token.expires_at <= datetime.now(UTC)
