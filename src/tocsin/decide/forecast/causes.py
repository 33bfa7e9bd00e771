"""Who it is: the texts that meet in a second, and what their schedules have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tocsin.cron.outline import outline
from tocsin.cron.zones import zone
from tocsin.decide.forecast.tally import AnyText, within
from tocsin.decide.timeline import plan
from tocsin.model.rule import decode_rule

NAMES_MAX = 20_000
_DEPTH_MAX = 3


def hits(texts: Mapping[AnyText, int], instants: Sequence[int]) -> dict[int, dict[AnyText, int]]:
    """For each instant the texts that have it, with how many schedules have each.

    A look at the hands of the clock sorts out nearly all of them; the real timeline has the last word.
    """
    found: dict[int, dict[AnyText, int]] = {instant: {} for instant in instants}
    hands: dict[str, list[tuple[int, int, int, int] | None]] = {}
    for text, count in texts.items():
        taken = outline(text[0], text[1])
        if taken is None:
            continue
        shared, hours, minutes, seconds = taken
        if shared.zone not in hands:
            hands[shared.zone] = [_hands(shared.zone, instant) for instant in instants]
        for instant, shown in zip(instants, hands[shared.zone], strict=True):
            if shown is not None:
                _, hour, minute, second = shown
                if second not in seconds or minute not in minutes or hour not in hours:
                    continue
            if _is_occurrence(text, instant):
                found[instant][text] = count
    return found


def _hands(name: str, instant: int) -> tuple[int, int, int, int] | None:
    """What the clocks show; None: in this second they are changed, and times that they leave out happen too."""
    start, _, offset, _ = zone(name).segment(instant)
    if start == instant:
        return None
    day, time = divmod(instant + offset, 86_400)
    return day, time // 3600, time // 60 % 60, time % 60


def _is_occurrence(text: AnyText, instant: int) -> bool:
    from_s, to_s = within(decode_rule(text[2]), instant, instant + 1)
    return from_s < to_s and plan(*text).expression.matches(instant)


class Company:
    """The schedules of one text: who they are and what they have in common."""

    __slots__ = ("ids", "labels", "prefixes")

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.labels: Counter[str] = Counter()
        self.prefixes: Counter[str] = Counter()

    def join(self, id: str, labels: Mapping[str, str]) -> None:
        self.ids.append(id)
        for key, value in labels.items():
            self.labels[f"{key}={value}"] += 1
        at = -1
        for _ in range(_DEPTH_MAX):
            at = id.find("/", at + 1)
            if at < 0:
                break
            self.prefixes[id[: at + 1]] += 1
        for counted in (self.labels, self.prefixes):
            if len(counted) > NAMES_MAX:
                rare = [name for name, _ in counted.most_common()[NAMES_MAX // 2 :]]
                for name in rare:
                    del counted[name]


def together(companies: Iterable[tuple[Counter[str], float]]) -> dict[str, float]:
    """Several counts in one, each taken as often as it stands for."""
    summed: dict[str, float] = {}
    for counted, weight in companies:
        for name, number in counted.items():
            summed[name] = summed.get(name, 0) + number * weight
    return summed


def top(counted: Mapping[str, float], most: int) -> list[tuple[str, float]]:
    """The most numerous. A folder of which all lie in one folder below it says less than that one."""
    ordered = sorted(counted.items(), key=lambda item: (-item[1], -len(item[0]), item[0]))
    told: list[tuple[str, float]] = []
    for name, count in ordered:
        if any(other.startswith(name) and number == count for other, number in told if name.endswith("/")):
            continue
        told.append((name, count))
        if len(told) == most:
            break
    return told
