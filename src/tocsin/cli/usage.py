"""What was typed and not understood is told like every other mistake: in two lines, or with ``--json`` as a problem."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from tocsin.cli.command import told
from tocsin.cli.help import tidied
from tocsin.cli.printing import REFUSED, report, say
from tocsin.errors import InvalidInput

MISUNDERSTOOD = 2
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""Of the click that typer brings along, or of click itself: that depends on the version of typer."""


class Family(TyperGroup):
    """Commands under a common name."""

    def get_params(self, ctx: Any) -> list[Any]:
        return tidied(super().get_params(ctx))


class ActingFamily(Family):
    """Commands under a common name, which is a command itself."""

    def invoke(self, ctx: Any) -> Any:
        return told(ctx, super().invoke)


class Program(Family):
    """The whole command."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        *others: Any,
        **more: Any,
    ) -> Any:
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, False, *others, **more)
        words = sys.argv[1:] if args is None else list(args)
        try:
            status = super().main(words, prog_name, complete_var, False, *others, **more)
        except _UsageError as wrong:
            if type(wrong).__name__ != "NoArgsIsHelpError":  # then its help has just been printed
                report(_explained(wrong, words, self), _wants_json(words))
            sys.exit(MISUNDERSTOOD)
        except typer.Abort:
            say("tocsin: stopped")
            sys.exit(REFUSED)
        sys.exit(status if isinstance(status, int) else 0)


def _wants_json(words: list[str]) -> bool:
    return "--json" in words[: words.index("--") if "--" in words else None]


def _explained(wrong: Any, words: list[str], program: Program) -> InvalidInput:
    """In our words: the field, the complaint, what is allowed, and where all of it is told."""
    message = wrong.format_message()
    hint = f"see: {_path(wrong, words, program)} --help"
    near = re.search(r"Possible options: ([^)]*)\)|Did you mean '([^']*)'", message)
    if near is not None:
        hint = f"did you mean {near[1] or near[2]}? {hint}"
    field, complaint, allowed = _told(wrong, message, words)
    return InvalidInput(complaint, field=field, value="", allowed=allowed, hint=hint)


def _told(wrong: Any, message: str, words: list[str]) -> tuple[str, str, str]:
    """Field, complaint and what is allowed."""
    param, option = getattr(wrong, "param", None), getattr(wrong, "option_name", "")
    if param is not None:
        field = _name(param, words)
        if type(wrong).__name__ == "MissingParameter":
            return field, "it is missing", ""
        return field, *_complaint(wrong.message, param)
    if option:
        is_known = "requires an argument" in message
        return option, "a value must follow it" if is_known else "there is no such option", ""
    if (found := re.search(r"No such command '(.*?)'\.", message)) is not None:
        return "command", f"there is no {found[1]!r}", ""
    if (found := re.search(r"unexpected extra argument\S* \((.*)\)", message)) is not None:
        return "arguments", f"{found[1]!r} is more than is understood", ""
    return "command", _begun_small(message), ""


def _complaint(message: str, param: Any) -> tuple[str, str]:
    """The complaint about a value, and what is allowed."""
    if (found := re.search(r"('.*') is not one of (.*?)\.?$", message)) is not None:
        return f"{found[1]} is not known", found[2].replace("'", "")
    if re.search(r"valid (int|number|float)", message):
        return "it is not a whole number", _range(param)
    if re.search(r"(greater|less) than|in the range", message):
        return "it is out of range", _range(param)
    return _begun_small(message.removeprefix("Value error, ")), ""


def _range(param: Any) -> str:
    low, high = getattr(param, "min", None), getattr(param, "max", None)
    if low is None or high is None:
        return "" if low is None else f"{low} or more"
    return f"{low} to {high}"


def _name(param: Any, words: list[str]) -> str:
    """As it was given: an option may stand in the environment."""
    if param.param_type_name == "argument":
        return str(param.metavar or param.name.upper())
    longest = str(max(param.opts, key=len))
    variable = param.envvar if isinstance(param.envvar, str) else ""
    is_typed = any(word.partition("=")[0] in param.opts for word in words)
    return variable if variable in os.environ and not is_typed else longest


def _path(wrong: Any, words: list[str], program: Program) -> str:
    """``tocsin token create``, however the program was called."""
    names: list[str] = []
    context = getattr(wrong, "ctx", None)
    while context is not None and context.parent is not None:
        names.insert(0, context.info_name)
        context = context.parent
    if not names:
        known: Any = program
        for word in words:
            known = getattr(known, "commands", {}).get(word)
            if known is None:
                break
            names.append(word)
    return " ".join(["tocsin", *names])


def _begun_small(text: str) -> str:
    return (text[:1].lower() + text[1:]).rstrip(".")
