"""Who stands in which line, and in which place: the memory of a ``lineup``.

A line remembers its first ones, without a gap, and no more than so many: what is behind them is known only by number.
"""

from __future__ import annotations

import heapq
from collections.abc import ItemsView

import msgspec

from tocsin.replica.lanes import Line

LINE_MAX = 20_000
ALL_MAX = 200_000
LINE_MIN = 100
"""So many are remembered of one line, and of all; but of each line at least so many."""
GAPS_MAX = 500

Place = tuple[int, int]
"""When it was due, and its number: the order in which rows are served."""


class Waiting(msgspec.Struct):
    """One line."""

    places: list[Place] = msgspec.field(default_factory=list)
    """A heap. Some may have left."""
    live: int = 0
    """How many of these still wait."""
    upto: Place = (0, 0)
    """The last place that was ever remembered."""
    is_whole: bool = True
    """All who stand in it are remembered."""
    is_refilled: bool = False
    """More of them are being looked for."""
    beyond: int = 0
    """Who stand in it and are not remembered, as far as is known."""
    met: int = 0
    """The same, counted by the round that is under way."""

    @property
    def number(self) -> int:
        return self.live + max(self.beyond, self.met)

    def filled_up(self) -> None:
        """There are no more of them."""
        self.is_refilled, self.is_whole, self.beyond, self.met = False, True, 0, 0


class Lines:
    """All lines."""

    def __init__(self) -> None:
        self._lines: dict[Line, Waiting] = {}
        self._known: dict[int, tuple[int, Line]] = {}
        """By number: when it was due, and where it stands."""
        self._expiries: list[tuple[int, int]] = []
        """A heap: when, and the number."""

    def __bool__(self) -> bool:
        return bool(self._lines)

    def items(self) -> ItemsView[Line, Waiting]:
        return self._lines.items()

    def get(self, key: Line) -> Waiting | None:
        return self._lines.get(key)

    @property
    def are_whole(self) -> bool:
        return all(line.is_whole for line in self._lines.values())

    def short(self) -> list[Waiting]:
        """Those that should be filled up, as far as there is room to remember."""
        if len(self._known) >= ALL_MAX:
            return []
        return [line for line in self._lines.values() if not line.is_whole and line.live < LINE_MAX // 2]

    def stands(self, place: Place) -> bool:
        """Does it stand in a line, at that place?"""
        known = self._known.get(place[1])
        return known is not None and known[0] == place[0]

    def is_known(self, number: int) -> bool:
        return number in self._known

    def line_of(self, number: int) -> Line:
        return self._known[number][1]

    def line_up(self, key: Line, place: Place, expires_ms: int | None, *, in_round: bool) -> bool:
        """At the end; who came late stands before those who are remembered. True: it was not counted before."""
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = Waiting()
        if (line.is_whole or place < line.upto) and self._has_place(line):
            self.remember(key, place, expires_ms)
            return True
        line.is_whole = False
        if in_round:
            line.met += 1
        else:
            line.beyond += 1
        return not in_round

    def remember(self, key: Line, place: Place, expires_ms: int | None) -> None:
        line = self._lines[key]
        if not self._has_place(line):
            line.is_refilled = False
            return
        self.strike(place[1])
        heapq.heappush(line.places, place)
        line.live += 1
        line.upto = max(line.upto, place)
        if line.is_refilled:
            line.beyond, line.met = max(0, line.beyond - 1), max(0, line.met - 1)
        self._known[place[1]] = (place[0], key)
        if expires_ms is not None:
            heapq.heappush(self._expiries, (expires_ms, place[1]))

    def strike(self, number: int) -> None:
        """It stands in no line any more. Its place is found empty when its turn comes."""
        known = self._known.pop(number, None)
        line = None if known is None else self._lines.get(known[1])
        if line is not None:
            line.live -= 1
            if len(line.places) > 2 * line.live + GAPS_MAX:
                line.places = [place for place in line.places if self.stands(place)]
                heapq.heapify(line.places)

    def expired(self, now_ms: int, limit: int) -> list[int]:
        """Numbers whose time is over, each once."""
        found: list[int] = []
        while self._expiries and self._expiries[0][0] <= now_ms and len(found) < limit:
            number = heapq.heappop(self._expiries)[1]
            if number in self._known:
                found.append(number)
        return found

    @property
    def next_expiry_ms(self) -> int | None:
        return self._expiries[0][0] if self._expiries else None

    def tidy(self) -> None:
        """Lines in which nobody stands are none."""
        for key in [key for key, line in self._lines.items() if line.is_whole and not line.live]:
            del self._lines[key]
        if not self._lines:
            self._expiries = []
            self._known.clear()

    def _has_place(self, line: Waiting) -> bool:
        return line.live < LINE_MAX and (len(self._known) < ALL_MAX or line.live < LINE_MIN)
