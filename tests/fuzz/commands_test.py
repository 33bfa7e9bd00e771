"""Whatever callers ask for, in whatever order: the leader can apply what it writes, and nothing is called twice.

``TOCSIN_FUZZ_S=600 TOCSIN_FUZZ_SEED=7 python -m pytest tests/fuzz/commands_test.py`` plays for longer.
"""

from __future__ import annotations

from tests.fuzz.commands import play, shrink
from tests.fuzz.mutation import SEED, worlds

WORLDS = 60
TURNS = 60


def any_sequence_of_commands_can_be_applied_and_calls_nothing_twice() -> None:
    for world in worlds(WORLDS):
        seed = f"{SEED} {world}"
        wrong = play(seed, range(TURNS))
        if wrong is not None:
            turns = shrink(seed, range(TURNS))
            wrong.add_note(f"TOCSIN_FUZZ_SEED={SEED} TOCSIN_FUZZ_FROM={world}, needed turns: {turns}")
            raise wrong
