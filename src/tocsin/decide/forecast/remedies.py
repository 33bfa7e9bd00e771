"""What ``?`` and ``jitter`` would make of the peak: the same count again, with the texts that meet there changed.

Up to a number of schedules each gets the very value that its id would give it. Beyond that every value gets its share:
where so many are spread, chance hardly matters any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from tocsin.cron.outline import Outline, outline
from tocsin.cron.settle import choice
from tocsin.decide.forecast.tally import AnyText, Tally
from tocsin.decide.timeline import plan
from tocsin.model.rule import decode_rule, encode_rule

EXACTLY_MAX = 100_000
"""So many values are chosen one by one."""
JITTER_S = 300
_ALL = tuple(range(60))


class Outcome(NamedTuple):
    """A remedy, what it would be applied to, and the worst second before and after."""

    change: str
    schedules: int
    before: float
    after: float
    after_at_s: int


def outcomes(
    tally: Tally, texts: Mapping[AnyText, int], members: Mapping[AnyText, Sequence[str]]
) -> list[Outcome]:
    """For the cron texts without jitter that meet in the worst seconds. ``members``: the ids of all schedules that have
    each; of a text that has others too nobody is moved one by one."""
    movable = {text: count for text, count in texts.items() if _may_move(text)}
    if not movable:
        return []
    ids = {text: members[text] for text, count in movable.items() if len(members.get(text, ())) == count}
    before = max(tally.counted())
    without = tally.copy()
    for text, count in movable.items():
        without.add_text(text, -count)
    told = []
    for change, changed in (
        ("? in second and minute", _chosen(without, movable, ids)),
        (f"jitter: {JITTER_S // 60}m", _jittered(without, movable, ids)),
    ):
        counts = changed.counted()
        after = max(counts)
        told.append(Outcome(change, sum(movable.values()), before, after, tally.from_s + counts.index(after)))
    return told


def _may_move(text: AnyText) -> bool:
    """One second of its minute, and no jitter yet."""
    found = outline(text[0], text[1])
    return found is not None and len(found.seconds) == 1 and not decode_rule(text[2]).jitter_ms


def _chosen(without: Tally, movable: Mapping[AnyText, int], ids: Mapping[AnyText, Sequence[str]]) -> Tally:
    changed = without.copy()
    for text, count in movable.items():
        found = outline(text[0], text[1])
        assert found is not None
        shared, hours, minutes, _ = found
        is_free = len(minutes) == 1
        if text not in ids or count > EXACTLY_MAX:
            spread = Outline(shared, hours, _ALL if is_free else minutes, _ALL)
            changed.add_outline(spread, text[2], count / 60 / (60 if is_free else 1))
            continue
        places = Counter(
            (choice(id, "minute", 0, 60) if is_free else 0, choice(id, "second", 0, 60)) for id in ids[text]
        )
        for (minute, second), number in places.items():
            moved = Outline(shared, hours, (minute,) if is_free else minutes, (second,))
            changed.add_outline(moved, text[2], number)
    return changed


def _jittered(without: Tally, movable: Mapping[AnyText, int], ids: Mapping[AnyText, Sequence[str]]) -> Tally:
    changed = without.copy()
    room = EXACTLY_MAX
    seconds: Counter[int] = Counter()
    for text, count in movable.items():
        delayed = _delayed(text)
        settled = plan(*delayed)
        launches = settled.expression.count_between(without.from_s - 1, without.to_s - 1, room + 1) * count
        if text not in ids or launches > room:
            changed.add_text(delayed, count)
            continue
        room -= launches
        for instant in settled.instants(without.from_s - 1, without.to_s - 1):
            seconds.update(settled.slot(id, instant).planned_ms // 1000 for id in ids[text])
    changed.add_moments(seconds.items())
    return changed


def _delayed(text: AnyText) -> AnyText:
    resolved, zone, rule = text
    return resolved, zone, encode_rule(msgspec.structs.replace(decode_rule(rule), jitter_ms=JITTER_S * 1000))
