"""A block of lines becomes columns of new schedules, and a list of what was wrong with the others."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from tocsin.api import texts
from tocsin.decide.settling import add_new
from tocsin.errors import TocsinError
from tocsin.model.ids import ID_LENGTH_MAX
from tocsin.model.lines import ImportLine
from tocsin.model.new import NewSchedules, none_yet
from tocsin.model.problem import problem_of
from tocsin.model.rights import require_reach
from tocsin.model.token import Caller
from tocsin.targets.permissions import Permissions

ROWS_MAX = 800


class Block(NamedTuple):
    """Whole lines, and the number of the first of them."""

    first: int
    text: bytes


class Rules(msgspec.Struct, frozen=True):
    """Who imports, and what schedules may do here."""

    caller: Caller
    permissions: Permissions


class Read(msgspec.Struct):
    """Some lines of a block. No id stands in it twice: what comes again is in the next one."""

    new: NewSchedules
    lines: list[int]
    """The number of each one's line."""
    refused: list[ImportLine]


class _Named(msgspec.Struct):
    id: str


def read(block: Block, rules: Rules, now_s: int) -> list[Read]:
    """All of a block, in order."""
    found = [_nothing_yet()]
    seen: set[str] = set()
    for number, text in enumerate(block.text.split(b"\n"), block.first):
        if not text or text.isspace():
            continue
        try:
            checked, spec = texts.checked(text)
            schedule = checked.schedule
            require_reach(rules.caller, schedule.id)
            rules.permissions.check(schedule)
            if schedule.id in seen or len(found[-1].lines) >= ROWS_MAX:
                found.append(_nothing_yet())
                seen.clear()
            add_new(found[-1].new, checked, spec, now_s)
            seen.add(schedule.id)
            found[-1].lines.append(number)
        except TocsinError as wrong:
            found[-1].refused.append(ImportLine(line=number, id=_id_of(text), error=problem_of(wrong)))
    return found


def _nothing_yet() -> Read:
    return Read(none_yet(), [], [])


def _id_of(text: bytes) -> str | None:
    """The id that a line seems to have, for whoever looks for the mistake."""
    try:
        return msgspec.json.decode(text, type=_Named).id[:ID_LENGTH_MAX]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
