"""What a checker is: one claim, and a function that finds where a history does not keep it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tocsin.simulation.history import History


class Finding(NamedTuple):
    """The claim was broken: where, and how one sees it."""

    at_ms: float
    text: str
    about: str = ""
    """The schedule or launch that it is about, if there is one: the trace is shown for it."""


class Checker(NamedTuple):
    name: str
    claim: str
    check: Callable[[History], Iterator[Finding]]
