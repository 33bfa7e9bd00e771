"""What all commands have in common: options, and how their errors end them."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand

from tocsin.cli.complete import schedule_ids
from tocsin.cli.help import tidied, usage_of
from tocsin.cli.printing import INTERRUPTED, exit_status, report, say
from tocsin.errors import InvalidInput, TocsinError

if TYPE_CHECKING:
    from tocsin.client import Client

_T = TypeVar("_T")

Json = Annotated[bool, typer.Option("--json", help="Print the API's JSON, for programs.")]
Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        envvar="TOCSIN_URL",
        help="Address of the service, or of several replicas with , (TOCSIN_TOKEN, TOCSIN_CA beside it). "
        "[dim]http://127.0.0.1:8400[/dim]",
    ),
]
Id = Annotated[
    str,
    typer.Argument(metavar="ID", help="Id of the schedule.", show_default=False, autocompletion=schedule_ids),
]
Limit = Annotated[int, typer.Option("--limit", "-n", min=0, help="How many at most; 0: all.")]


class Command(TyperCommand):
    """A command whose errors are sentences. A stack trace is for our mistakes, never for the user's."""

    def get_params(self, ctx: Any) -> list[Any]:
        return tidied(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return usage_of(self.get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        return told(ctx, super().invoke)


def told(ctx: Any, invoke: Callable[[Any], Any]) -> Any:
    """Invoke, and tell what goes wrong."""
    as_json = bool(ctx.params.get("as_json"))
    try:
        result = invoke(ctx)
        sys.stdout.flush()
        return result
    except TocsinError as error:
        report(error, as_json)
        raise typer.Exit(exit_status(error)) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        # Whoever reads has seen enough (`| head`): nothing may be written any more, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None


def ask(url: str | None, question: Callable[[Client], Awaitable[_T]], timeout_s: float = 30.0) -> _T:
    """Open a client, ask, close it."""
    import asyncio

    async def whole() -> _T:
        from tocsin.client import Client

        async with Client(url, timeout_s=timeout_s) as client:
            if client.exposed:
                say(f"tocsin: warning: {client.exposed} is not https: others can read your token on the way")
            try:
                return await question(client)
            except TocsinError as refused:
                from tocsin.cli.refusal import explained

                raise explained(refused, client.urls) from None

    return asyncio.run(whole())


def pairs(given: list[str] | None, field: str, sign: str = "=") -> dict[str, str]:
    """``k=v``, several times."""
    found = {}
    for pair in given or ():
        key, between, value = pair.partition(sign)
        if not key or not between:
            raise InvalidInput(f"{pair!r} is not a pair", field=field, value=pair, allowed=f"key{sign}value")
        found[key] = value
    return found
