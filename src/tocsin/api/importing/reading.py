"""A block of lines becomes columns of new schedules, and a list of what was wrong with the others."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from tocsin.api import texts
from tocsin.api.warnings import literal_credential
from tocsin.decide.settling import new_row
from tocsin.errors import TocsinError
from tocsin.model.ids import ID_LENGTH_MAX
from tocsin.model.lines import ImportLine
from tocsin.model.new import NewRow, NewSchedules, columns_of
from tocsin.model.problem import problem_of
from tocsin.model.rights import require_reach, require_target
from tocsin.model.token import Caller
from tocsin.targets.permissions import Permissions

ROWS_MAX = 800
REPLACED_MAX = 200
"""Of schedules that may be there already. Each of them costs the leader several times as much as a new one, and what is
due waits for it."""


class Block(NamedTuple):
    """Whole lines, and the number of the first of them."""

    first: int
    text: bytes


class Rules(msgspec.Struct, frozen=True):
    """Who imports, and what schedules may do here."""

    caller: Caller
    permissions: Permissions
    rows_max: int = ROWS_MAX
    """The number of schedules that are written in one command."""


class Read(msgspec.Struct):
    """Some lines of a block. No id stands in it twice: what comes again is in the next one."""

    new: NewSchedules
    lines: list[int]
    """The number of each one's line."""
    refused: list[ImportLine]
    credentials: list[tuple[int, str]] = []
    """Lines with a header that seems to hold a credential in clear, and its name."""


class _Part:
    """What is being read."""

    def __init__(self) -> None:
        self.rows: list[NewRow] = []
        self.lines: list[int] = []
        self.seen: set[str] = set()
        self.refused: list[ImportLine] = []
        self.credentials: list[tuple[int, str]] = []

    def read(self) -> Read:
        return Read(columns_of(self.rows), self.lines, self.refused, self.credentials)


class _Named(msgspec.Struct):
    id: str


def read(block: Block, rules: Rules, now_s: int) -> list[Read]:
    """All of a block, in order."""
    found: list[Read] = []
    part = _Part()
    for number, text in enumerate(block.text.split(b"\n"), block.first):
        if not text or text.isspace():
            continue
        try:
            checked, spec = texts.checked(text)
            schedule = checked.schedule
            require_reach(rules.caller, schedule.id)
            require_target(rules.caller, schedule.target)
            rules.permissions.check(schedule)
            row = new_row(checked, spec, now_s)
            if schedule.id in part.seen or len(part.rows) >= rules.rows_max:
                found.append(part.read())
                part = _Part()
            part.seen.add(schedule.id)
            part.rows.append(row)
            part.lines.append(number)
            if header := literal_credential(schedule.target):
                part.credentials.append((number, header))
        except TocsinError as wrong:
            part.refused.append(ImportLine(line=number, id=_id_of(text), error=problem_of(wrong)))
    found.append(part.read())
    return found


def _id_of(text: bytes) -> str | None:
    """The id that a line seems to have, for whoever looks for the mistake."""
    try:
        return msgspec.json.decode(text, type=_Named).id[:ID_LENGTH_MAX]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
