"""``clock`` and ``clock confirm``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.asking import check_can_ask, confirm
from tocsin.cli.command import Command, Json, Url, ask
from tocsin.cli.printing import REFUSED, print_json, say
from tocsin.cli.usage import ActingFamily

if TYPE_CHECKING:
    from tocsin.model.clock import ClockView

app = typer.Typer(
    cls=ActingFamily,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def clock(context: typer.Context, url: Url = None, as_json: Json = False) -> None:
    """Show the leader's wall clock, and whether it is believed.

    A clock that steps by more than --clock-step, or that is far from the last entry after a reboot, is not: then
    nothing is launched until it is right again, or somebody confirms it. The exit status is 1 if it is not believed.

    Example: tocsin clock
    """
    if context.invoked_subcommand is not None:
        return
    found = ask(url, lambda client: client.clock())
    if as_json:
        print_json(found)
    else:
        _show(found)
    if not found.is_believed:
        raise typer.Exit(REFUSED)


@app.command("confirm", cls=Command)
def confirm_clock(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Say that the leader's wall clock is right, so that launching goes on by it.

    What fell due meanwhile was missed, and the policy of each schedule decides. If the clock has gone back behind what
    was decided already, 'tocsin repair due' is next.

    Example: tocsin clock confirm
    """
    check_can_ask("confirm the clock", yes=yes, preview=False, as_json=as_json)
    found = ask(url, lambda client: client.clock())
    if not yes:
        _show(found)
        confirm("Is what it shows the right time?")
    done = ask(url, lambda client: client.confirm_clock(found.shows.isoformat()))
    if as_json:
        print_json(done)
    else:
        print(f"the clock of {done.leader or 'the service'} is believed: {done.shows:%Y-%m-%d %H:%M:%S} UTC")
        _advise(done)


def _show(found: ClockView) -> None:
    print(f"the wall clock of {found.leader or 'the service'} shows {found.shows:%Y-%m-%d %H:%M:%S} UTC")
    if found.is_believed:
        print("it is believed")
    else:
        side = "ahead of" if found.step_s > 0 else "behind"
        print(
            f"it is not believed: it is {abs(found.step_s)} s {side} {found.believed:%Y-%m-%d %H:%M:%S} UTC"
        )
        say("nothing is launched until it is right again: 'tocsin clock confirm' says that it is")
    _advise(found)


def _advise(found: ClockView) -> None:
    if found.ahead_until is not None:
        say(
            f"next instants were computed under a clock that was ahead, up to {found.ahead_until:%Y-%m-%d %H:%M} UTC: "
            "'tocsin repair due' computes them anew"
        )
