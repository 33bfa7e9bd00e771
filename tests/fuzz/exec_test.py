"""Whatever dies or freezes in whatever order: a command is begun at most once, and its record tells the truth.

``TOCSIN_FUZZ_S=600 TOCSIN_FUZZ_SEED=7 python -m pytest tests/fuzz/exec_test.py`` plays for longer.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.fuzz.exec_world import World
from tests.fuzz.mutation import SEED, worlds

WORLDS = 6
TURNS = 120


def no_command_is_begun_twice_or_lost_when_its_owner_dies_and_its_helpers_freeze(tmp_path: Path) -> None:
    for number in worlds(WORLDS):
        place = tmp_path / str(number)
        place.mkdir()
        try:
            asyncio.run(World(f"{SEED} {number}", place).play(TURNS))
        except BaseException as wrong:
            wrong.add_note(f"TOCSIN_FUZZ_SEED={SEED} TOCSIN_FUZZ_FROM={number} in {place}")
            raise
