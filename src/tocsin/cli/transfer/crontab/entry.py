"""One line that is neither blank nor comment nor setting: when, who, what."""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import NamedTuple

from tocsin.cli.transfer.crontab.text import setting, split_input
from tocsin.cron import Expression
from tocsin.errors import InvalidInput

_GAP = re.compile(r"[ \t]+")
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}\$?")
_LIKE_A_FIELD = re.compile(r"[0-9*?][-0-9*?/,~]*|(?i:mon|tue|wed|thu|fri|sat|sun)([-,].*)?")
_BEGINNING_OF_A_NAME = re.compile(
    "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|sun|mon|tue|wed|thu|fri|sat"
)
_MONTHS = "january february march april june july august september october november december"
_WEEKDAYS = "sunday monday tuesday wednesday thursday friday saturday"
_NAMES = f"{_MONTHS} {_WEEKDAYS}".split()
_NICKNAMES = "@yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly"
_USERS = "root nobody daemon www-data apache nginx http postgres ubuntu debian debian-spamd ec2-user"
_USUAL_USERS = frozenset(_USERS.split())
_COMMANDS = (
    "awk bash bundle cat cd chmod chown command cp curl date docker echo env exec export find flock for git "
    "gzip if ionice java kill logger ls make mkdir mv mysqldump nice node nohup npm perl pg_dump php python "
    "python3 rm rsync ruby run-parts sed service sh sleep ssh sudo systemctl tar test timeout touch true wget "
    "xargs"
)
_USUAL_COMMANDS = frozenset(_COMMANDS.split())
_ELSEWHERE = {
    "@every_minute": "* * * * *",
    "@minutely": "* * * * *",
    "@every_second": "@every 1s",
    "@quarterly": "0 0 1 1,4,7,10 *",
    "@semi-annually": "0 0 1 1,7 *",
    "@bi-annually": "0 0 1 1,7 *",
}


class SkippedLine(InvalidInput):
    """Correct, but without meaning here."""


class SuspiciousLine(InvalidInput):
    """It can be read, but hardly as it was meant."""


class Entry(NamedTuple):
    """When, who and what. ``user`` only in a system crontab; ``input`` is what the command reads, if given."""

    when: str
    user: str | None
    command: str
    input: str | None
    remarks: tuple[str, ...]


def read_entry(
    text: str, *, system: bool, guessed: bool, knows_user: Callable[[str], bool] | None = None
) -> Entry:
    """Take a line apart. When it is due is checked here, so that its mistake is told before any doubt."""
    remarks: tuple[str, ...] = ()
    if re.match(r"-[0-9*@]", text):
        text = text[1:]
        remarks = ("the leading - (cronie: do not log it) is left out",)
    when, rest = _when(text)
    _check_rest(text, rest)
    user = None
    if system:
        user, rest = _user(rest, knows_user or (lambda user: True))
    elif guessed:
        _doubt_format(rest)
    if rest.startswith("-"):
        raise InvalidInput(
            f"the command begins with {rest.split()[0]!r}",
            field="command",
            value=rest,
            allowed="a command",
            hint="flags of the BSDs (-n, -q, -s) are not known here: leave them out; for -s set overlap: forbid",
        )
    command, given = split_input(rest)
    return Entry(when, user, command.strip(" \t"), given, remarks)


def _when(text: str) -> tuple[str, str]:
    """The schedule text and the rest of the line."""
    if text.startswith("@"):
        words = [*_GAP.split(text, maxsplit=1), ""][:2]
        if words[0] == "@every":
            length, _, rest = _GAP.sub(" ", words[1], count=1).partition(" ")
            words = [f"@every {length}", rest]
        _check_nickname(words[0])
    else:
        fields = _GAP.split(text, maxsplit=5)
        _check_count(text, fields)
        words = [" ".join(fields[:5]), fields[5] if len(fields) == 6 else ""]
    Expression.parse(words[0])
    return words[0], words[1].lstrip(" \t")


def _check_nickname(word: str) -> None:
    if word == "@reboot":
        raise SkippedLine(
            "@reboot has no meaning here: a service has no boot",
            field="cron",
            value=word,
            hint="let the system's own start do it: a systemd unit with WantedBy=multi-user.target, or keep the line "
            "in cron",
        )
    if word in _ELSEWHERE:
        raise InvalidInput(
            f"Debian's cron does not know {word}",
            field="cron",
            value=word,
            allowed=_NICKNAMES,
            hint=f"write {_ELSEWHERE[word]}",
        )

    if word not in _NICKNAMES.split(", ") and not word.startswith("@every "):
        near = get_close_matches(word.lower(), _NICKNAMES.split(", "), n=1)
        raise InvalidInput(
            f"{word[:40]!r} is not a nickname",
            field="cron",
            value=word,
            allowed=_NICKNAMES,
            hint=f"did you mean {near[0]}?" if near else "",
        )


def _check_count(text: str, fields: list[str]) -> None:
    if len(fields) < 5 and re.match(r"[^\s=]+\s*=\s*$", text):
        raise InvalidInput(
            "a setting without a value",
            field="environment",
            value=text.strip(),
            allowed="NAME=value",
            hint=f'if it is to be empty, write {text.split("=")[0].strip()}=""',
        )
    if setting(re.sub(r"^export\s+", "", text)) is not None:
        raise InvalidInput(
            "a crontab is not a shell script",
            field="environment",
            value=text,
            allowed="NAME=value",
            hint="leave out export",
        )
    if re.match(r"""[A-Za-z_]\w*\s*=\s*["']""", text):
        raise InvalidInput(
            "the quotes of this setting do not match, or something follows them",
            field="environment",
            value=text,
            allowed="NAME=value, NAME=\"value\" or NAME='value'",
        )
    strange = next((at for at, word in enumerate(fields[:5]) if not _could_be_a_field(word)), None)
    if strange is not None or len(fields) < 5:
        count = len(fields) if strange is None else strange
        behind = " there" if strange is None else f" before {fields[strange][:40]!r}"
        are = "field stands" if count == 1 else "fields stand"
        raise InvalidInput(
            f"only {count} {are}{behind}"
            if count
            else f"{fields[0][:40]!r} is no beginning of a crontab line",
            field="cron",
            value=text,
            allowed="5 fields (minute hour day month weekday), then the command",
            hint="is a * missing?"
            if count == 4
            else "if this is a comment, begin it with #"
            if not count
            else "",
        )


def _could_be_a_field(word: str) -> bool:
    """Wrong fields are told by what reads fields; here it is only about a command that begins too early."""
    if not re.fullmatch(r"[-0-9A-Za-z*?/,~#+()]+", word) or re.match("/[^0-9]", word):
        return False
    if not re.match("[a-z]{4,}", word):
        return True
    return _BEGINNING_OF_A_NAME.match(word) is not None or bool(
        get_close_matches(word, _NAMES, n=1, cutoff=0.75)
    )


def _check_rest(text: str, rest: str) -> None:
    if not rest:
        raise InvalidInput(
            "there is no command", field="command", value=text, allowed="a command behind the time"
        )
    first = rest.split()[0]
    if first.startswith("*") or (_LIKE_A_FIELD.fullmatch(first) and not text.startswith("@")):
        raise InvalidInput(
            f"behind the weekday stands {first!r}, as if there were 6 fields",
            field="command",
            value=rest,
            allowed="5 fields (minute hour day month weekday), then the command",
            hint="a crontab has no seconds; with seconds first, use 'tocsin add' or a file for 'tocsin apply'",
        )


def _user(rest: str, knows_user: Callable[[str], bool]) -> tuple[str, str]:
    user, command = [*_GAP.split(rest, maxsplit=1), ""][:2]
    doubt = ""
    if not _USER.fullmatch(user):
        doubt = f"the sixth field, {user[:40]!r}, is hardly a user's name"
    elif not command:
        doubt = f"behind the user {user!r} there is no command"
    elif not knows_user(user) and (command.startswith("-") or user in _USUAL_COMMANDS):
        doubt = f"the sixth field, {user!r}, is rather a command than a user's name"
    if doubt:
        raise SuspiciousLine(
            doubt,
            field="user",
            value=user,
            allowed="in a system crontab: 5 fields, the user, the command",
            hint="if this is the crontab of one user, give --user-format",
        )
    return user, command


def _doubt_format(rest: str) -> None:
    first, *others = rest.split()
    if first in _USUAL_USERS and others:
        raise SuspiciousLine(
            f"the command begins with {first!r}, which is rather a user's name",
            field="command",
            value=rest,
            allowed="in the crontab of one user: 5 fields, the command",
            hint=f"if this is a system crontab, give --system; if {first} is the command, give --user-format",
        )
