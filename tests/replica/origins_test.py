"""Replicas that begin with nothing, and a place for backups: what is restored without anybody asking for it."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.replica.several import Town, in_town, put

from tocsin.backup.manifest import Owner
from tocsin.backup.store import Backups
from tocsin.errors import ClusterError, StateDamaged
from tocsin.replica.replica import Replica
from tocsin.state import views

MEMBERS = ["a=10.0.0.1:8410", "b=10.0.0.2:8410"]


def _owner(secret: str) -> Owner:
    def sign(text: str) -> str:
        return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()

    return Owner(sign, lambda: MEMBERS)


def _backups(folder: Path, secret: str = "ours") -> Backups:
    return Backups(str(folder / "backups"), owner=_owner(secret) if secret else None)


async def _no_objection(members: Sequence[str]) -> str:
    assert list(members) == MEMBERS
    return ""


async def _ids(replica: Replica) -> list[str]:
    return sorted(view.id for view in (await replica.read(views.schedules)).items)


async def _backed_up(town: Town, folder: Path, *secrets: str) -> int:
    """For each of them a backup of its own, the last one the newest, and in each a schedule of its writer."""
    leader = await town.leader()
    for secret in secrets:
        await leader.propose(put(f"by-{secret or 'nobody'}"))
        made = await leader.snapshot_now()
        _backups(folder, secret).put(folder / leader.name / "snapshots", made)
    return made.seq


def the_newest_backup_that_the_cluster_wrote_is_restored(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        await _backed_up(town, tmp_path, "ours", "theirs", "")
        anew = Town(tmp_path / "anew")
        try:
            with capture_logs() as told:
                first = await anew.start("a", backups=_backups(tmp_path), objection=_no_objection)
            assert await _ids(first) == ["by-ours"]
            assert any("not written" in line["event"] for line in told)
        finally:
            await anew.close()

    in_town(tmp_path, work)


@pytest.mark.parametrize("secret", ["theirs", ""])
def what_somebody_else_put_there_is_not_restored(tmp_path: Path, secret: str) -> None:
    """Whoever can write to the place could have anything run."""

    async def work(town: Town) -> None:
        await _backed_up(town, tmp_path, secret)
        anew = Town(tmp_path / "anew")
        try:
            first = await anew.start("a", backups=_backups(tmp_path), objection=_no_objection)
            assert await _ids(first) == []
            assert anew.ledger.birth is not None
            assert anew.ledger.birth.after == 0
        finally:
            await anew.close()

    in_town(tmp_path, work)


def nothing_is_restored_while_the_cluster_may_go_on_elsewhere(tmp_path: Path) -> None:
    async def objection(members: Sequence[str]) -> str:
        return f"{members[1]} is not in --cluster"

    async def work(town: Town) -> None:
        await _backed_up(town, tmp_path, "ours")
        anew = Town(tmp_path / "anew")
        with pytest.raises(ClusterError, match=r"b=10\.0\.0\.2:8410 is not in --cluster") as refused:
            await anew.make("a", backups=_backups(tmp_path), objection=objection).start()
        assert "tocsin restore" in refused.value.hint
        assert anew.ledger.birth is None  # it can still be put right
        assert not (tmp_path / "anew" / "a" / "snapshots").exists()

    in_town(tmp_path, work)


def where_nobody_was_asked_nothing_is_restored(tmp_path: Path) -> None:
    """On an etcd that all replicas share, a wrong prefix looks like a journal that was lost."""

    async def work(town: Town) -> None:
        await _backed_up(town, tmp_path, "ours")
        with pytest.raises(ClusterError, match="--journal"):
            await Town(tmp_path / "anew").make("a", backups=_backups(tmp_path)).start()

    in_town(tmp_path, work)


async def _waits(replica: Replica) -> None:
    """There is nothing it could begin with: it waits for another replica that has a snapshot."""
    starting = asyncio.create_task(replica.start())
    done, _ = await asyncio.wait([starting], timeout=2.0)
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    assert not done


@pytest.mark.parametrize(("secret", "is_restored"), [("ours", True), ("theirs", False), ("", False)])
def a_replica_that_lost_its_disk_fetches_only_what_the_cluster_wrote(
    tmp_path: Path, secret: str, is_restored: bool
) -> None:
    """Its journal was born to go on from a backup, and nobody else is there to ask."""

    async def work(town: Town) -> None:
        await _backed_up(town, tmp_path, secret)
        anew = Town(tmp_path / "anew")
        shutil.copytree(
            tmp_path / (await town.leader()).name / "snapshots", tmp_path / "anew" / "a" / "restore"
        )
        await anew.start("a")
        await anew.close()
        shutil.rmtree(tmp_path / "anew" / "a")
        try:
            if is_restored:
                again = await anew.start("a", backups=_backups(tmp_path))
                assert await _ids(again) == ["by-ours"]
            else:
                await _waits(anew.make("a", backups=_backups(tmp_path)))
        finally:
            await anew.close()

    in_town(tmp_path, work)


def on_one_machine_nobody_can_tell_whose_it_is(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        seq = await _backed_up(town, tmp_path, "")
        anew = Town(tmp_path / "anew")
        shutil.copytree(
            tmp_path / (await town.leader()).name / "snapshots", tmp_path / "anew" / "a" / "restore"
        )
        await anew.start("a")
        await anew.close()
        shutil.rmtree(tmp_path / "anew" / "a")
        with capture_logs() as told:
            await _waits(anew.make("a", backups=_backups(tmp_path, "")))
        assert any(f"--seq {seq}" in line.get("remedy", "") for line in told)

    in_town(tmp_path, work)


class _Recovering:
    """This replica goes on alone, with what is left."""

    are_to_be_noted = may_leave_state_ahead = True
    may_leave_foreign_state = False

    def noted(self) -> None:
        self.are_to_be_noted = self.may_leave_state_ahead = False

    def state_begun(self) -> None:
        return


async def _left_behind(town: Town, folder: Path) -> tuple[str, list[str]]:
    """A replica that was away while the others trimmed the journal, and they are lost. Returns its name, and what there
    was."""
    leader = await town.leader()
    await leader.propose(put("first"))
    away = next(name for name in town.replicas if name != leader.name)
    await town.until(lambda: town.replicas[away].meta.seq >= leader.meta.seq)
    await town.stop(away)
    for number in range(3):
        await leader.propose(put(f"later-{number}"))
        made = await leader.snapshot_now()
        _backups(folder).put(folder / leader.name / "snapshots", made)
    await town.handles[leader.name].trim(made.seq)
    await leader.propose(put("last"))
    there = await _ids(leader)
    for name in list(town.replicas):
        if name != away:
            await town.stop(name)
    return away, there


def a_survivor_that_had_been_away_too_long_says_how_to_go_on(tmp_path: Path) -> None:
    """To wait for the others would be to wait for those who wait for it."""

    async def work(town: Town) -> None:
        away, _ = await _left_behind(town, tmp_path)
        with pytest.raises(StateDamaged, match="tocsin restore") as told:
            await town.make(away, losses=_Recovering()).start()
        assert "--data NEW" in str(told.value)
        assert (tmp_path / away / "state.db").exists()

    in_town(tmp_path, work)


def a_survivor_that_had_been_away_too_long_goes_on_from_a_backup_of_the_cluster(tmp_path: Path) -> None:
    async def work(town: Town) -> None:
        away, there = await _left_behind(town, tmp_path)
        survivor = await town.start(away, losses=_Recovering(), backups=_backups(tmp_path))
        assert await _ids(survivor) == there

    in_town(tmp_path, work)
