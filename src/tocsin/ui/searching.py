"""What a person writes to find schedules, and what they mean by it::

    billing/                     ids that begin so
    billing/ nightly             and that have this in them; *nightly alone: wherever they begin
    label:team=finance           with this label; label:team: whatever its value
    target:http  state:paused    with this kind of target, in this state

All that is written must hold. What is not understood is told and finds nothing: somebody who mistypes a word must not
be shown everything, and delete it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from tocsin.model.ids import ID_LENGTH_MAX
from tocsin.model.target import KINDS
from tocsin.state.rows import Search

STATES = ("enabled", "paused", "trouble")
ORDERS = ("id", "-id", "next")
_TERM = re.compile(r'[^\s"]*"[^"]*"?|\S+')
_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+/-]*")
_PART = re.compile(r"[A-Za-z0-9._@+/-]+")
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}")
_ID_WORDS = "letters, digits and . _ @ + - /"


class Sought(NamedTuple):
    """What was understood, and what was not."""

    search: Search
    state: str
    problem: str = ""


def understood(text: str, within: tuple[str, ...], trouble_since_ms: int) -> Sought:
    """``trouble_since_ms``: what came before is no trouble any more."""
    search, state, problem = Search(within=within), "", ""
    for place, term in enumerate(_TERM.findall(text)):
        kind, colon, value = term.partition(":")
        value = value.strip('"')
        if colon and not value:
            wrong = _is_to_follow(kind)
        elif kind == "label" and colon:
            search, wrong = _with_label(search, value)
        elif kind == "target" and colon:
            search, wrong = search._replace(target=value), _one_of(kind, value, KINDS)
        elif kind == "state" and colon:
            state, wrong = value, _one_of(kind, value, STATES)
        else:
            search, wrong = _with_id(search, term, is_first=place == 0)
        problem = problem or wrong
    if state == "trouble":
        search = search._replace(troubled_since_ms=trouble_since_ms)
    elif state:
        search = search._replace(enabled=state == "enabled")
    return Sought(search, state, problem)


def _with_label(search: Search, pair: str) -> tuple[Search, str]:
    key, sign, value = pair.partition("=")
    if not _KEY.fullmatch(key) or len(value) > 200:
        return search, f"{pair[:60]!r} is no label: write label:key=value, or label:key for any value"
    return search._replace(labels=(*search.labels, (key, value if sign else None))), ""


def _with_id(search: Search, term: str, *, is_first: bool) -> tuple[Search, str]:
    is_begin = is_first and not term.startswith("*")
    part = term.strip("*").strip('"')
    if len(part) > ID_LENGTH_MAX or not (_PREFIX if is_begin else _PART).fullmatch(part):
        return search, f"no id has {term[:60]!r} in it: ids are of {_ID_WORDS}"
    if is_begin:
        return search._replace(prefix=part), ""
    return search._replace(contains=(*search.contains, part.lower())), ""


def _one_of(kind: str, value: str, known: Sequence[str]) -> str:
    return "" if value in known else f"there is no {kind} {value[:40]!r}: {', '.join(known)}"


def _is_to_follow(kind: str) -> str:
    words = {
        "target": ", ".join(KINDS),
        "state": ", ".join(STATES),
        "label": "key=value, or key for any value",
    }
    known = words.get(kind)
    if known is None:
        return f"{kind[:40]}: is not known; there are label:, target: and state:"
    return f"{kind}: what? {known}"
