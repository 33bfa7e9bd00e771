"""A crontab, line by line: what each line became, or why it became nothing.

Pure: text in, reports out. Every line has exactly one report, also blank ones, so that the sum can be checked.

``blank``, ``comment``   nothing to do; a comment right above a line becomes its description
``environment``          a setting for the lines below it
``schedule``             a line that can be imported
``skipped``              correct for cron, but without meaning here (@reboot)
``suspicious``           it can be read, but hardly as it was meant: the file is probably of the other format
``refused``              cron would not take it, or Tocsin cannot
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from tocsin.cli.transfer.crontab.entry import Entry, SkippedLine, SuspiciousLine, read_entry
from tocsin.cli.transfer.crontab.ids import Identity, Names
from tocsin.cli.transfer.crontab.text import setting, target
from tocsin.cron import Expression, format_duration
from tocsin.errors import InvalidInput, InvalidSchedule
from tocsin.model.schedule import Schedule, convert

Kind = Literal["blank", "comment", "environment", "schedule", "skipped", "suspicious", "refused"]

_NOT_FOR_COMMANDS = frozenset({"CRON_TZ", "RANDOM_DELAY", "LOGNAME", "SHELL"})
_DELAY_MINUTES_MAX = 7 * 24 * 60
_OF_TIME = re.compile(r"""(?:export\s+)?["']?(CRON_TZ|RANDOM_DELAY)["']?\s*=""")


class Options(NamedTuple):
    """How a crontab is to be read."""

    timezone: str
    system: bool = False
    guessed: bool = False
    """Nobody said which format it is: a line of the other one is worth a doubt."""
    user: str | None = None
    labels: Mapping[str, str] = {}
    home_of: Callable[[str], str | None] = lambda user: None
    """None: there is no such user here."""


class Line(NamedTuple):
    """The report of one line."""

    number: int
    kind: Kind
    text: str
    schedule: Schedule | None = None
    problem: InvalidInput | None = None
    remarks: tuple[str, ...] = ()


class Crontab(NamedTuple):
    """All lines, and what is to be said once."""

    lines: list[Line]
    notes: list[str]
    held_ids: frozenset[str] = frozenset()
    """Of lines that were refused although it is known which they are: what they once became is still theirs."""


def read_crontab(text: str, options: Options, names: Names) -> Crontab:
    """``text``: bytes that are not UTF-8 stand in it as lone surrogates."""
    reader = _Reader(options, names)
    notes = []
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    elif not _is_blank(lines[-1]):
        notes.append(
            "The last line has no line break at its end: cron would not take this file. It was read."
        )
    if any(line.endswith("\r") for line in lines):
        notes.append("Lines end as on Windows: cron would hand the \\r to the commands. It was removed.")
    reports = [reader.read(number, line.removesuffix("\r")) for number, line in enumerate(lines, 1)]
    # Named when all are known, because an id says whether its command stands in other lines too.
    ids = dict(zip(reader.identities, names.give(list(reader.identities.values())), strict=True))
    named = [_named(line, ids) for line in reports]
    held = frozenset(id for number, id in ids.items() if reports[number - 1].schedule is None)
    return Crontab(named, notes + reader.notes(), held)


def _named(line: Line, ids: Mapping[int, str]) -> Line:
    if line.schedule is None:
        return line
    return line._replace(schedule=msgspec.structs.replace(line.schedule, id=ids[line.number]))


class _Reader:
    def __init__(self, options: Options, names: Names) -> None:
        self._options = options
        self._names = names
        self._env: dict[str, str] = {}
        self.identities: dict[int, Identity] = {}
        """By the numbers of the lines."""
        self._comment = ""
        self._homeless: list[int] = []
        self._mailed: list[int] = []
        self._strangers: dict[str, list[int]] = {}
        self._void: dict[str, int] = {}
        """Settings of the time that were refused, and in which line: what stands below cannot be timed."""

    def read(self, number: int, text: str) -> Line:
        above, self._comment = self._comment, ""
        if _is_blank(text):
            return Line(number, "blank", text)
        bare = text.lstrip(" \t")
        if bare.startswith("#"):
            self._comment = _described(bare)
            return Line(number, "comment", text)
        try:
            _check_text(text)
            found = setting(bare)
            if found is not None:
                return Line(number, "environment", text, remarks=self._set(*found))
            return self._schedule(number, text, bare, above)
        except SkippedLine as wrong:
            return Line(number, "skipped", text, problem=wrong)
        except SuspiciousLine as wrong:
            return Line(number, "suspicious", text, problem=wrong)
        except InvalidInput as wrong:
            self._hold_back(number, bare, wrong)
            return Line(number, "refused", text, problem=wrong)

    def _hold_back(self, number: int, bare: str, wrong: InvalidInput) -> None:
        """Below a zone that could not be read, the zone before it is not what was meant."""
        found = _OF_TIME.match(bare)
        if found is not None and setting(bare) is None:
            self._void[found[1]] = number
            wrong.message += ", and so the lines below are refused"

    def notes(self) -> list[str]:
        found = []
        if self._mailed:
            found.append(
                f"MAILTO ({_lines(self._mailed)}): Tocsin does not mail. It keeps what a command prints: see "
                "'tocsin launches' and 'tocsin output'. The address is kept as the label mailto. To have mail, let "
                "the command send it: ... 2>&1 | mail -E -s SUBJECT ADDRESS"
            )
        if self._homeless:
            found.append(
                f"The home directory is not known ({_lines(self._homeless)}): cron would work there, Tocsin works "
                "in /. If that matters, write HOME=/home/... above these lines, or give --user"
            )
        for user, numbers in self._strangers.items():
            found.append(
                f"This machine has no user {user!r} ({_lines(numbers)}): the service's must have one"
            )
        return found

    def _set(self, name: str, value: str) -> tuple[str, ...]:
        """Take a setting; what is to be said about it."""
        if not name:
            raise InvalidInput("a setting without a name", field="environment", value=value)
        self._env[name] = value
        self._void.pop(name, None)
        if name == "CRON_TZ" and value:
            _check_zone(value)
        if name == "RANDOM_DELAY":
            _delay_minutes(value)
        if name == "LOGNAME":
            return ("cron does not let a crontab change LOGNAME: it is left out",)
        if name == "TZ":
            return ("as in cron, TZ goes to the commands and does not move the schedules: CRON_TZ would",)
        if name == "HOME" and not value.startswith("/"):
            return ("not an absolute path: the commands work in /",)
        if "$" in value:
            return ("cron expands nothing: the $ stays as it is",)
        return ()

    def _schedule(self, number: int, text: str, bare: str, above: str) -> Line:
        options = self._options
        knows_user = None if not options.system else lambda user: options.home_of(user) is not None
        entry = read_entry(bare, system=options.system, guessed=options.guessed, knows_user=knows_user)
        user = entry.user if options.system else options.user
        # Known before the rest is checked: to correct a zone above must not rename the lines below it.
        settings = repr(sorted(self._env.items()))
        self.identities[number] = identity = Identity(
            user or "", entry.command, entry.input or "", entry.when, settings
        )
        fields = {"id": self._names.give([identity])[0], **self._fields(entry, user)}
        schedule = convert({**fields, "description": above})
        if "cwd" not in fields["target"] and "HOME" not in self._env:
            self._homeless.append(number)
        if self._env.get("MAILTO"):
            self._mailed.append(number)
        if user and options.home_of(user) is None:
            self._strangers.setdefault(user, []).append(number)
        return Line(number, "schedule", text, schedule, remarks=entry.remarks)

    def _fields(self, entry: Entry, user: str | None) -> dict[str, Any]:
        env = self._env
        for name, number in self._void.items():
            raise InvalidInput(
                f"{name} in line {number} was refused, and so it is not known when this line is due",
                field=name,
                value="",
                hint=f"correct line {number}",
            )
        shell = env.get("SHELL", "/bin/sh")
        kept = {name: value for name, value in env.items() if name not in _NOT_FOR_COMMANDS}
        if shell != "/bin/sh":
            kept["SHELL"] = shell
        home = env.get("HOME") or (self._options.home_of(user) if user else None) or ""
        exact: dict[str, Any] = target(shell, entry.command, entry.input)
        optional = {"env": kept, "cwd": home if home.startswith("/") else None, "user": user}
        minutes = _delay_minutes(env.get("RANDOM_DELAY", "0"))
        mailto = env.get("MAILTO", "")
        labels = {"mailto": mailto} if mailto.strip() and mailto.isprintable() and len(mailto) <= 200 else {}
        return {
            "cron": entry.when,
            "timezone": env.get("CRON_TZ") or self._options.timezone,
            "target": {**exact, **{name: value for name, value in optional.items() if value}},
            "jitter": format_duration(minutes * 60) if minutes else None,
            "labels": {**labels, **self._options.labels},
        }


def _is_blank(text: str) -> bool:
    return not text.strip(" \t\r")


def _check_text(text: str) -> None:
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise InvalidInput(
            "there are bytes in it that are not UTF-8",
            field="line",
            value="",
            allowed="UTF-8",
            hint="convert the file: iconv -f LATIN1 -t UTF-8",
        )


def _check_zone(value: str) -> None:
    try:
        Expression.parse("@daily", timezone=value)
    except InvalidSchedule as wrong:
        hint = wrong.hint
        if " " in value:
            hint = "to cron the whole rest of the line is the zone: give CRON_TZ a line of its own"
        raise InvalidInput(
            f"{wrong.message}, and so the lines below are refused",
            field="CRON_TZ",
            value=value,
            allowed=wrong.allowed,
            hint=hint,
        ) from None


def _delay_minutes(value: str) -> int:
    if not re.fullmatch("[0-9]{1,6}", value) or int(value) > _DELAY_MINUTES_MAX:
        raise InvalidInput(
            f"{value[:40]!r} is not a number of minutes, and so the lines below are refused",
            field="RANDOM_DELAY",
            value=value,
            allowed=f"0 to {_DELAY_MINUTES_MAX}",
        )
    return int(value)


def _described(comment: str) -> str:
    """The comment, unless it is a rule of dashes, a heading of the columns, or a line that was put out of use."""
    words = comment.strip("# \t-=*").split()
    text = " ".join("".join(letter if letter.isprintable() else " " for letter in word) for word in words)
    if not any(letter.isalpha() for letter in text) or re.match(r"(m|min|minute)s? +(h|hour)", text.lower()):
        return ""
    bare = comment.lstrip("# \t").split()
    try:
        Expression.parse(" ".join(bare[:1] if bare[0].startswith("@") else bare[:5]))
    except InvalidSchedule:
        return text[:2000] if not bare[0].startswith("@reboot") else ""
    return ""


def _lines(numbers: list[int]) -> str:
    """``line 3``, ``lines 3, 4 and 9``, or how many where nobody would read the list."""
    if len(numbers) > 6:
        return f"{len(numbers)} lines, the first is {numbers[0]}"
    texts = [str(number) for number in numbers]
    return f"line {texts[0]}" if len(texts) == 1 else f"lines {', '.join(texts[:-1])} and {texts[-1]}"
