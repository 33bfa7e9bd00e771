"""``completion``: what a shell needs to know, so that the Tab key works."""

from __future__ import annotations

import enum
import os
from typing import Annotated

import typer

from tocsin.cli.command import Json
from tocsin.cli.printing import print_json

_VARIABLE = "_TOCSIN_COMPLETE"
"""Set by the script when the shell wants to know what could come next."""


class Shell(enum.StrEnum):
    """The shells that are understood."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", show_default=False)],
    as_json: Json = False,
) -> None:
    """Print a script that teaches a shell to complete commands, options, ids and names.

    bash: source <(tocsin completion bash), in ~/.bashrc

    zsh: source <(tocsin completion zsh), in ~/.zshrc, behind compinit

    fish: tocsin completion fish > ~/.config/fish/completions/tocsin.fish

    Example: source <(tocsin completion bash)
    """
    from typer._completion_shared import get_completion_script

    script = get_completion_script(prog_name="tocsin", complete_var=_VARIABLE, shell=shell.value)
    if as_json:
        print_json({"shell": shell.value, "script": script})
    else:
        print(script)


def answer_shells() -> None:
    """If it is a shell that asks, be able to answer it."""
    if _VARIABLE in os.environ:
        from typer._completion_classes import completion_init

        completion_init()
