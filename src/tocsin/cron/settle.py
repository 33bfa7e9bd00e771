"""``?`` and ``~``: "any value, you choose", chosen by hash and written down (rules 3 and 4).

The choice depends on the schedule's identity alone, so an edit elsewhere never moves it and every replica
agrees. A settled text contains only what a plain field may contain, keeps what rules 2 and 8 look at (it
never starts with ``*`` where the written one did not), and is what is stored and shown.
"""

from __future__ import annotations

import hashlib
import re

from tocsin.cron import fields
from tocsin.cron.fields import DAY, KINDS, VALUE, WEEKDAY, Kind
from tocsin.errors import InvalidSchedule

_ANY = re.compile(rf"\?(?:\(({VALUE})-({VALUE})\))?(?:/([0-9]+))?")
_BETWEEN = re.compile(rf"({VALUE})?~({VALUE})?(?:/([0-9]+))?")


def settle(words: list[str], identity: str) -> list[str]:
    """The six words with every ``?`` and ``~`` replaced by the value it stands for."""
    _refuse_ambiguous(words)
    return [_settle_field(kind, word, identity) for kind, word in zip(KINDS, words, strict=True)]


def choice(identity: str, name: str, index: int, span: int) -> int:
    """The hash of rule 3: a number below ``span`` for this item of this field of this schedule."""
    text = f"tocsin/1\0{identity}\0{name}\0{index}"
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") % span


def _refuse_ambiguous(words: list[str]) -> None:
    """A bare ``?`` in day or weekday means "no matter" in Quartz, AWS and Kubernetes; never guess."""
    second, minute, hour, _, month, _ = words
    if any("?" in word for word in (second, minute, hour, month)):
        return
    for kind in (DAY, WEEKDAY):
        word = words[KINDS.index(kind)]
        if "?" in word.removeprefix("+").split(","):
            raise InvalidSchedule(
                "? alone is ambiguous: elsewhere it means 'no matter', here it means 'choose one for me'",
                field=kind.name,
                value=word,
                allowed=kind.allowed,
                hint=f"write * for every {kind.name}, or ?({kind.low}-{kind.choice_high}) to have one chosen",
            )


def _settle_field(kind: Kind, word: str, identity: str) -> str:
    if "?" not in word and "~" not in word:
        return word
    if not word.isascii():
        raise fields.refused(kind, word, f"{word!r} is not plain ASCII")
    sign = "+" if kind is WEEKDAY and word.startswith("+") else ""
    items = word.removeprefix(sign).split(",")
    return sign + ",".join(_settle_item(kind, item, identity, index) for index, item in enumerate(items))


def _settle_item(kind: Kind, item: str, identity: str, index: int) -> str:
    if "?" not in item and "~" not in item:
        return item
    if shape := _ANY.fullmatch(item):
        low, high = kind.low, kind.choice_high
        if shape[1]:
            low, high = fields.bounds(kind, item, shape[1], shape[2])
    elif shape := _BETWEEN.fullmatch(item):
        low, high = _between(kind, item, shape[1], shape[2])
    else:
        raise fields.refused(
            kind, item, f"{item!r} is not understood", "write ?, ?(a-b), ?/n, ?(a-b)/n, ~ or a~b"
        )
    span = high - low + 1
    if shape[3] is None:
        return str(low + choice(identity, kind.name, index, span))
    every = fields.step(kind, item, shape[3])
    return f"{low + choice(identity, kind.name, index, min(every, span))}-{high}/{every}"


def _between(kind: Kind, item: str, start: str | None, end: str | None) -> tuple[int, int]:
    if end is not None:
        return fields.bounds(kind, item, start or str(kind.low), end)
    low = fields.number(kind, start, item) if start else kind.low
    # An open end stops where ? would (every month has a 28th), unless the range begins behind that.
    return low, kind.choice_high if low <= kind.choice_high else kind.high
