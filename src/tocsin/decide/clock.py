"""Is this replica's wall clock to be believed?

Each replica knows by itself whether its wall clock stepped against the clock that counts since boot. Where it did, or
where nothing is known (a cold start long after the last entry), the other replicas are asked:

1. Those whose clocks are known to be steady are right, if they agree with each other. With two replicas this is the one
   that did not step.
2. Otherwise a majority of all replicas is right whose clocks did not step and agree with each other; clocks that were
   just started and are plausible count for it. Where none is steady, all of these are right if they agree.
3. Otherwise nobody can tell, and a person has to. Where clocks that are believed differ, the replica that agrees with
   the clock of the last leader is the first to stand for election.

A clock that stepped never counts as a witness: when one bad time server moves all of them, they agree and are wrong.
Nor does one that is far from the last entry after a cold start, or that agrees with one that stepped and knows nothing
of its own past because its machine was started again: the same time server may have set them all. It does count if
the other one saw it at this time before it stepped there: then the one that was behind was set right.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

from tocsin.model.cluster import ClockState

AGREE_MS = 10_000
"""Clocks that differ by no more than this agree."""


class Opinion(NamedTuple):
    """What one replica says."""

    ahead_ms: int
    """Of the clock of the replica that judges."""
    state: ClockState = "steady"
    name: str = ""
    preceded_by: Sequence[str] = ()
    """If it stepped: the replicas whose clocks were there before."""


class Verdict(enum.Enum):
    """What the replicas that answer conclude about the clock of one of them."""

    RIGHT = "right"
    WRONG = "wrong"
    OPEN = "open"
    """Nobody can tell."""


def judge(own: Opinion, others: Sequence[Opinion], known: int) -> Verdict:
    """``known``: how many replicas there are in all, also those that do not answer."""
    everybody = [own, *others]
    witnesses = [opinion for opinion in everybody if _is_witness(opinion, everybody)]
    if (steady_ms := steady_ahead_ms(everybody)) is not None:
        return _of(steady_ms)
    enough = max(2, known // 2 + 1)
    all_ms = [opinion.ahead_ms for opinion in witnesses]
    for witness_ms in all_ms:
        agreeing = [ahead_ms for ahead_ms in all_ms if abs(ahead_ms - witness_ms) <= AGREE_MS]
        if len(agreeing) >= enough:
            return _of(_middle(agreeing))
    is_any_steady = any(opinion.state == "steady" for opinion in everybody)
    return _of(_middle(all_ms)) if all_ms and not is_any_steady and _agree(all_ms) else Verdict.OPEN


def judge_by_leader(leader_ahead_ms: int | None, others: Sequence[Opinion]) -> Verdict:
    """Breaks a tie: the clocks of those who answer differ, and there is no majority. ``leader_ahead_ms``: by how much
    the clock of the last leader is ahead of ours; None: not known. ``others``: of replicas that could lead."""
    if leader_ahead_ms is None:
        return Verdict.OPEN
    if abs(leader_ahead_ms) <= AGREE_MS:
        return Verdict.RIGHT
    believed_ms = [opinion.ahead_ms for opinion in others if opinion.state in ("steady", "fresh")]
    is_another_right = any(abs(ahead_ms - leader_ahead_ms) <= AGREE_MS for ahead_ms in believed_ms)
    return Verdict.WRONG if is_another_right else Verdict.OPEN


def steady_ahead_ms(opinions: Sequence[Opinion]) -> int | None:
    """By how much the steady clocks are ahead of ours; None: there are none, or they do not agree."""
    steady = [opinion.ahead_ms for opinion in opinions if opinion.state == "steady"]
    return _middle(steady) if steady and _agree(steady) else None


def _agree(clocks_ms: Sequence[int]) -> bool:
    return max(clocks_ms) - min(clocks_ms) <= AGREE_MS


def is_vouched_for(own: Opinion, others: Sequence[Opinion]) -> bool:
    """Does any witness agree with our clock?"""
    everybody = [own, *others]
    return any(_is_witness(other, everybody) and abs(other.ahead_ms) <= AGREE_MS for other in others)


def _is_witness(opinion: Opinion, everybody: Sequence[Opinion]) -> bool:
    if opinion.state != "fresh":
        return opinion.state == "steady"
    return not any(is_suspected_by(other, opinion) for other in everybody)


def is_suspected_by(stepped: Opinion, fresh: Opinion) -> bool:
    """A clock that was just started and agrees with one that stepped was set by whatever moved that one, unless it was
    there before."""
    agrees = abs(stepped.ahead_ms - fresh.ahead_ms) <= AGREE_MS
    return stepped.state == "stepped" and agrees and fresh.name not in stepped.preceded_by


def _middle(clocks_ms: Sequence[int]) -> int:
    return sorted(clocks_ms)[len(clocks_ms) // 2]


def _of(right_ms: int) -> Verdict:
    """Our clock, compared with one that is right."""
    return Verdict.RIGHT if abs(right_ms) <= AGREE_MS else Verdict.WRONG


class Bounds(NamedTuple):
    """How far the wall clock may be from what is expected."""

    step_ms: int = 30_000
    """While the machine runs."""
    gap_ms: int = 7 * 86_400_000
    """Ahead of the last entry after a cold start."""


class Expected(NamedTuple):
    """What the wall clock should show, if it is right."""

    at_ms: int
    is_cold: bool = False
    """The machine was started since, so that it is not known how much time has passed."""


def step_of(expected: Expected, wall_ms: int, bounds: Bounds) -> int:
    """By how much the wall clock is further off than it may be from what is expected; 0: it is not."""
    ahead_ms = wall_ms - expected.at_ms
    most_ms = bounds.gap_ms if expected.is_cold else bounds.step_ms
    return 0 if -bounds.step_ms <= ahead_ms <= most_ms else ahead_ms
