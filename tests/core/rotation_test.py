"""What ``tocsin cluster`` says to do next while the cluster's secret is being changed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tocsin.decide.rotation import next_step

OLD, BOTH, TURNED, NEW = ["old"], ["old", "new"], ["new", "old"], ["new"]


@pytest.mark.parametrize("alike", [OLD, []])
def where_all_have_one_secret_there_is_nothing_to_do(alike: Sequence[str]) -> None:
    assert next_step({"a": alike, "b": alike, "c": alike}) == ""
    assert next_step({"a": alike, "b": alike, "c": None}) == ""


@pytest.mark.parametrize(
    ("a", "b", "c", "step"),
    [
        (BOTH, OLD, OLD, "only a trusts new: if that is the new secret, add it to b, c before"),
        (BOTH, BOTH, OLD, "only a, b trust new: if that is the new secret, add it to c before"),
        (
            BOTH,
            BOTH,
            BOTH,
            "all replicas present old and trust new too: if that is the new secret, put it first",
        ),
        (TURNED, BOTH, BOTH, "a presents new and b, c present old: put the new secret first on all"),
        (TURNED, TURNED, TURNED, "all replicas present new and trust old too"),
        (NEW, TURNED, TURNED, "only b, c trust old: if that is the new secret, add it to a before it is put"),
        (NEW, TURNED, TURNED, "if it is the old one, remove it from b, c"),
    ],
)
def each_round_has_its_next_step(a: Sequence[str], b: Sequence[str], c: Sequence[str], step: str) -> None:
    assert step in next_step({"a": a, "b": b, "c": c})


def a_replica_that_does_not_answer_comes_first() -> None:
    told = next_step({"a": BOTH, "b": OLD, "c": None})
    assert "c does not answer: start it with the same file" in told
    assert "b, c do not answer: start them" in next_step({"a": BOTH, "b": None, "c": None})


def a_secret_that_another_does_not_trust_is_added_there() -> None:
    told = next_step({"a": TURNED, "b": OLD, "c": BOTH})
    assert told == "a presents new, and b does not trust it: add it there as the last line, and restart"
