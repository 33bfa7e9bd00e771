"""Two small languages inside a crontab: settings (``NAME = "value"``), and ``%`` in commands.

Both are read as Debian's cron reads them, letter for letter, because people rely on their oddities.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

from tocsin.errors import InvalidInput

_SETTING = re.compile(
    r"""
    (?: "(?P<name_in_double>[^"=]*)" | '(?P<name_in_single>[^'=]*)' | (?P<name>[^\s="'][^\s=]*) )
    \s* = \s*
    (?: "(?P<in_double>[^"]*)" | '(?P<in_single>[^']*)' | (?P<value>[^\s"'].*?) )
    \s*
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_LIKE_SH = frozenset({"sh", "bash", "dash", "ash", "ksh", "ksh93", "mksh", "zsh"})
_END_OF_INPUT = "CRON_INPUT"


def setting(line: str) -> tuple[str, str] | None:
    """Name and value, if cron takes the line for a setting. Nothing is expanded; an empty value needs quotes."""
    found = _SETTING.fullmatch(line.lstrip(" \t"))
    if found is None:
        return None
    names = ("name", "name_in_double", "name_in_single")
    values = ("value", "in_double", "in_single")
    return _first(found, names), _first(found, values)


def _first(found: re.Match[str], groups: tuple[str, ...]) -> str:
    return next(found[group] for group in groups if found[group] is not None)


def split_input(text: str) -> tuple[str, str | None]:
    r"""The command, and what it reads from standard input; None where the line does not speak of that.

    The first ``%`` without a backslash right before it ends the command, the others are line breaks, and ``\%`` is
    a percent sign. Every other backslash stays. Cron adds a line break at the end unless there is one.
    """
    percent = re.search(r"(?<!\\)%", text)
    if percent is None:
        return text.replace(r"\%", "%"), None
    command, rest = text[: percent.start()], text[percent.end() :]
    given = re.sub(r"\\?%", lambda sign: "\n" if sign[0] == "%" else "%", rest)
    # Cron looks at the last character that is not a backslash. So it does not end every input with a line break.
    last = given.rstrip("\\")[-1:]
    return command.replace(r"\%", "%"), given + ("\n" if last not in ("", "\n") else "")


def target(shell: str, command: str, given: str | None) -> dict[str, Any]:
    """The exec target that runs the command as cron would: by that shell, with that standard input."""
    is_plain = given is None or posixpath.basename(shell) in _LIKE_SH
    if is_plain:
        line = command if given is None else f"{_redirected(given)}\n{command}"
        return {"kind": "exec", "shell": line} if shell == "/bin/sh" else _by(shell, line)
    # A shell with another language (csh, fish) is handed its command by one that knows here-documents.
    first = _by("/bin/sh", f'{_redirected(given or "")}\nexec "$0" -c "$1"')
    return {**first, "argv": [*first["argv"], shell, command]}


def _by(shell: str, line: str) -> dict[str, Any]:
    return {"kind": "exec", "argv": [shell, "-c", line]}


def _redirected(given: str) -> str:
    """A first line that puts the text on standard input and leaves the command's own text as it is.

    A target's standard input is its payload as JSON, which is not what cron gives.
    """
    if not given:
        return "exec </dev/null"
    if not given.endswith("\n"):
        raise InvalidInput(
            "the input behind % ends with a backslash where a line would begin",
            field="command",
            value=given,
            allowed="input that ends with a line",
            hint="put the command into a script",
        )
    end = _END_OF_INPUT
    while end in given.split("\n"):
        end += "_"
    return f"exec <<'{end}'\n{given}{end}"
