"""A clone or a snapshot of a machine has the files of its original, so its etcd data is not recognised as a copy."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from pathlib import Path

import pytest
from tests.member.town import PATIENCE_S, House, Town, a_town, ids, joins_anew, keeps, lead, remembers

from tocsin.errors import ClusterError
from tocsin.journal.etcd.messages import EtcdMember as Voter
from tocsin.member.address import raft_url
from tocsin.member.chatter import Chatter
from tocsin.member.health import other_address
from tocsin.member.record import Memory
from tocsin.model.cluster import Member

OUT_OF_RANGE = "tocommit(54) is out of range [lastIndex(32)]. Was the raft log corrupted, truncated, or lost?"


def _take_image(house: House) -> Path:
    """The marks in the copy are made anew: like this it is as little recognised as the image of a machine."""
    image = house.town.folder / f"{house.name}.image"
    shutil.copytree(house.data, image)
    Memory(image / "member", house.name).sign()
    return image


def _clone(town: Town, house: House, image: Path) -> House:
    """A second machine with this image, at another address. The others are the same."""
    elsewhere = Town(town.folder / "elsewhere")
    elsewhere.folder.mkdir()
    elsewhere.clients = town.clients
    clone = elsewhere.move(House(elsewhere, house.name, house.settings.cluster))
    shutil.move(image, clone.data)
    town.houses["clone"] = clone
    return clone


def an_original_stops_when_a_clone_has_taken_its_address(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, b, c = await town.founded()
            await b.stop()
            image = _take_image(b)
            original = await b.start()
            await lead(a, [a, b, c])
            pid = b.pid()
            assert pid is not None
            os.kill(
                pid, signal.SIGSTOP
            )  # it is killed like this, and cannot end by itself before it is noticed
            # A new leader does not know how much of the log b has had, so the clone is not found out by its log.
            await lead(c, [a, c])
            clone = _clone(town, b, image)
            await clone.start()
            said = await asyncio.wait_for(original.lost(), PATIENCE_S)
            assert "another machine runs as b" in str(said)
            assert raft_url(Member("b", clone.address())) in str(said)
            assert "one of the two is a clone" in said.hint
            assert b.pid() is None
            await b.stop()
            with pytest.raises(ClusterError, match="the etcd of b runs at"):
                await b.start()
            await keeps(a)
            assert await remembers(clone)
            # The clone has voted, and the data here knows nothing of it.
            before = await ids(a)
            await b.stop()
            await clone.die()
            await b.start()
            assert (await ids(a))["b"] != before["b"]
            assert await remembers(b)

    asyncio.run(story())


def only_another_address_of_the_same_number_is_a_displacement() -> None:
    here, there = "https://10.0.0.1:8411", "https://10.0.0.9:8411"
    peers = [Voter(1, "a", [there], [], False), Voter(2, "b", [here], [], False)]
    assert other_address(peers, 1, here) == there
    assert other_address(peers, 2, here) == ""
    assert other_address(peers, 3, here) == "", "it was removed, which is no displacement"
    assert other_address([], 1, here) == ""


def an_etcd_whose_log_went_back_is_not_started_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, b, c = await town.founded()
            before = await ids(a)
            await b.stop()
            image = _take_image(b)
            await b.start()
            await lead(a, [a, b, c])
            await keeps(a)
            assert await remembers(b)
            await b.stop()
            shutil.rmtree(b.data)
            shutil.move(image, b.data)
            with pytest.raises(
                ClusterError, match="its etcd data is older than what it has acknowledged"
            ) as refused:
                await b.start()
            assert "start this replica again" in refused.value.hint
            assert b.pid() is None
            assert Memory(b.data / "member", "b").is_copy()
            await b.stop()
            await joins_anew(b, a, before)

    asyncio.run(story())


def a_stranger_cannot_have_a_log_look_too_old(tmp_path: Path) -> None:
    said = Chatter(tmp_path / "etcd.log")
    with said.open() as file:
        file.write(
            b'{"level":"warn","msg":"rejected connection","server-name":"%s"}\n' % OUT_OF_RANGE.encode()
        )
        file.write(b'{"level":"warn","msg":"%s"}\n' % OUT_OF_RANGE.encode())
        file.write(b'{"level":"panic","msg":"no space: %s"}\n' % OUT_OF_RANGE.encode())
    assert not said.has_lost_log()
    with said.open() as file:
        file.write(b'{"level":"panic","msg":"%s"}\n' % OUT_OF_RANGE.encode())
    assert said.has_lost_log()
