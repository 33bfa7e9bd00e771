"""The last outcomes of a schedule as small squares, the newest at the right.

A page has six hundred of them, so each is written in a few bytes: what it is, its instant, and why. A script makes each
a link to its launch, and tells its moment in the reader's zone (``static/squares.js``). For the keyboard a row of them
is one stop, within which arrows move.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from markupsafe import Markup

from tocsin.model.launch import CLOSED_FROM, LaunchState
from tocsin.state.rows import Outcome
from tocsin.ui.words import SIGNS

EACH = 12
"""So many are shown of a schedule."""
_STEP = 15
_SIDE = 13
_MISSED = "missed:"
"""How the reason begins of what was given up because nobody was in office."""
_REASON_LENGTH_MAX = 80
_KINDS = ("succeeded", "failed", "in_doubt", "skipped", "missed", "cancelled", "open")
_SIGNS = {**SIGNS, "open": "▸"}
_SYMBOL = Markup(
    '<symbol id="q-{kind}" viewBox="0 0 {side} {side}" width="{side}" height="{side}">'
    '<rect class="q-{kind}" width="{side}" height="{side}" rx="2.5"/>'
    '<text class="q-sign" x="6.5" y="10" text-anchor="middle">{sign}</text></symbol>'
)
_SQUARE = Markup('<use href="#q-{kind}" x="{x}" data-at="{at}"{by}{why}/>')


def symbols() -> Markup:
    """What the squares of a page are made of, once for all of them."""
    drawn = (_SYMBOL.format(kind=kind, side=_SIDE, sign=_SIGNS[kind]) for kind in _KINDS)
    return Markup('<svg class="symbols" aria-hidden="true" width="0" height="0">{}</svg>').format(
        Markup("").join(drawn)
    )


def squares(schedule: str, outcomes: Sequence[Outcome]) -> Markup:
    """Of one schedule, the oldest first."""
    if not outcomes:
        return Markup('<span class="soft">none yet</span>')
    first = EACH - len(outcomes)
    drawn = (_square(outcome, (first + place) * _STEP + 1) for place, outcome in enumerate(outcomes))
    width = EACH * _STEP + 1
    return Markup(
        '<svg class="squares" role="group" aria-label="{label}" data-of="{schedule}" viewBox="0 -1.5 {width} 16" '
        'width="{width}" height="16">{drawn}</svg>'
    ).format(label=_gist(outcomes), schedule=schedule, width=width, drawn=Markup("").join(drawn))


def _square(outcome: Outcome, x: int) -> Markup:
    reason = outcome.reason
    if len(reason) > _REASON_LENGTH_MAX:
        reason = reason[: _REASON_LENGTH_MAX - 1] + "…"
    return _SQUARE.format(
        kind=kind_of(outcome),
        x=x,
        at=outcome.instant_s,
        by=Markup(' data-by="hand"') if outcome.is_manual else "",
        why=Markup(' data-why="{}"').format(reason) if reason else "",
    )


def kind_of(outcome: Outcome) -> str:
    """What it counts as here: all that is open is one, and what nobody was there for is not what a policy left out."""
    if outcome.state < CLOSED_FROM:
        return "open"
    if outcome.state == LaunchState.SKIPPED and outcome.reason.startswith(_MISSED):
        return "missed"
    return LaunchState(outcome.state).name.lower()


def _gist(outcomes: Sequence[Outcome]) -> str:
    counted = Counter(map(kind_of, outcomes))
    words = ", ".join(f"{counted[kind]} {kind.replace('_', ' ')}" for kind in _KINDS if counted[kind])
    return f"Last outcomes: {words}; the newest {kind_of(outcomes[-1]).replace('_', ' ')}"
