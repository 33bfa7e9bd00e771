"""Orders that a keeper has taken on some machine, and of which the journal does not know whether they were begun."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.replica.several import EXEC, Town, in_town, put, state_of

from tocsin.model.command import LaunchNow
from tocsin.replica.replica import Replica
from tocsin.state import views


async def _ask_for_one(town: Town, leader: Replica) -> str:
    """Its keeper takes it, and does not get to its start. Returns the launch's name."""
    workshop = town.workshops[town.folder / leader.name]
    workshop.are_keepers_frozen = True
    await leader.propose(put("s", target=EXEC))
    await leader.propose(LaunchNow("s"))
    await town.until(lambda: workshop.claims or None)
    return (await leader.read(views.launches, schedule_id="s")).items[0].name


@pytest.mark.parametrize("is_restarted", [True, False])
def a_keeper_that_dies_before_the_start_leaves_a_doubt_without_a_start(
    is_restarted: bool, tmp_path: Path
) -> None:
    """Whoever asks for its record meanwhile: the process behind it, or another leader."""

    async def work(town: Town) -> None:
        former = await town.leader()
        workshop = town.workshops[tmp_path / former.name]
        name = await _ask_for_one(town, former)
        if is_restarted:
            await town.restart(former.name)
            leader = await town.leader()
            await town.until(lambda: workshop.lookups or None)
        else:
            await former.step_down()
            leader = await town.leader(but=former.name)
            await town.until(lambda: (leader.name, former.name, leader.meta.term) in town.asked or None)
        for _ in range(3):  # entries, in which that it runs would be told
            await leader.propose(put("another"))
        assert (await leader.read(views.launch, name)).state == "started"
        workshop.kill_keepers()
        view = await state_of(leader, name, "in_doubt")
        assert view.started_at is None

    in_town(tmp_path, work, "a" if is_restarted else "ab")
