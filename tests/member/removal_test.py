"""Who belongs to a cluster does not give that up on anybody's word, and is not pushed out by another of its name."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.etcd import damage_log
from tests.member.town import PATIENCE_S, House, Town, a_town, ids, imposter, keeps, remembers, until

from tocsin.errors import ClusterError, JournalUnavailable, NotFound
from tocsin.journal.etcd.address import DEFAULT_PREFIX
from tocsin.journal.etcd.client import EtcdClient
from tocsin.journal.etcd.endpoints import Endpoint
from tocsin.journal.etcd.failures import Said
from tocsin.journal.etcd.messages import EtcdMember as Voter
from tocsin.journal.etcd.roster import EtcdRoster
from tocsin.member.chatter import Chatter
from tocsin.member.health import has_left
from tocsin.member.record import Memory

WORDS = "data-dir used by this member must be removed"
SAYS_SO = f"""case "$1" in --version|--help) exec etcd "$@";; esac
echo '{{"level":"warn","msg":"{WORDS}"}}' >&2"""


async def _greet(port: int, name: str) -> None:
    """As somebody does who does not have the secret, and names the server at will."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with suppress(OSError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
        await reader.read()
        writer.close()


def a_stranger_cannot_put_words_into_the_mouth_of_etcd(tmp_path: Path) -> None:
    said = Chatter(tmp_path / "etcd.log")
    with said.open() as file:
        file.write(b'{"level":"warn","msg":"rejected connection","server-name":"%s"}\n' % WORDS.encode())
        file.write(b'{"level":"warn","server-name":"\xc2\x85panic: %s"}\n' % WORDS.encode())
    assert not said.has_said(WORDS)
    assert said.last_words() == ""
    with said.open() as file:
        file.write(b'{"level":"warn","msg":"%s"}\n' % WORDS.encode())
    assert said.has_said(WORDS)


def a_stranger_cannot_have_a_replica_give_up_its_data(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, b, _ = await town.founded()
            await keeps(a)
            before, pid = await ids(a), b.pid()
            port = int(b.address().rpartition(":")[2])
            for offset in (1, 2):
                await _greet(port + offset, WORDS)

            async def is_in_the_log() -> bool:
                return WORDS in b.etcd.with_name("etcd.log").read_text()

            await until(is_in_the_log, "etcd to repeat what it was sent")
            b.kill()
            await until(lambda: remembers(b), "the etcd of b to be back")
            assert b.pid() not in (None, pid)
            assert await ids(a) == before

    asyncio.run(story())


def etcd_alone_is_not_believed_that_it_was_removed(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, b, _ = await town.founded()
            await keeps(a)
            await b.stop()
            member = b.prepare(program=imposter(tmp_path, SAYS_SO))
            trying = asyncio.create_task(member.start())

            async def is_told() -> bool:
                return trying.done() or "they do not confirm that" in member.problem

            await until(is_told, "b to ask the others")
            trying.cancel()
            with suppress(asyncio.CancelledError):
                await trying
            await b.start()
            assert await remembers(b)

    asyncio.run(story())


def nobody_founds_a_cluster_in_place_of_one_that_is_lost(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, b, c = await town.founded()
            for house in (a, b):
                await house.die()
                shutil.rmtree(house.etcd)
            await c.lose_disk()
            trying = [asyncio.create_task(house.start()) for house in (a, b, c)]

            async def all_wait() -> bool:
                members = [house.member for house in (a, b, c)]
                return all(one is not None and "a, b belonged to a cluster" in one.problem for one in members)

            await until(all_wait, "all of them to say what is lost")
            assert [house.pid() for house in (a, b, c)] == [None] * 3
            for one in trying:
                one.cancel()
            await asyncio.gather(*trying, return_exceptions=True)
            # The word that is needed: whoever empties the disks means it.
            for house in (a, b):
                await house.stop()
                shutil.rmtree(house.data)
            await asyncio.gather(*(house.start() for house in (a, b, c)))
            assert len(await ids(a)) == 3

    asyncio.run(story())


def who_lost_the_data_of_its_etcd_alone_joins_the_others(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, b, _ = await town.founded()
            await keeps(a)
            before = await ids(a)
            await b.die()
            shutil.rmtree(b.etcd)
            member = await b.start()
            assert await remembers(b)
            assert member.condition().condition == "founded"
            assert (await ids(a))["b"] != before["b"]

    asyncio.run(story())


def _another(town: Town, house: House) -> House:
    """A second replica of the same name, elsewhere and with an empty disk; the others are the same."""
    elsewhere = Town(town.folder / "elsewhere")
    elsewhere.folder.mkdir()
    elsewhere.houses = dict(town.houses)
    elsewhere.clients = town.clients
    again = House(elsewhere, house.name, house.settings.cluster)
    again = elsewhere.move(again)
    elsewhere.houses[house.name] = house
    town.houses["another"] = again
    return again


def an_empty_replica_does_not_push_out_one_of_its_name_that_runs(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, b, _ = await town.founded()
            await keeps(a)
            before = await ids(a)
            another = _another(town, b)
            with pytest.raises(ClusterError, match=f"b runs at {b.address()}") as refused:
                await another.start()
            assert "stop it first, or take another --name" in refused.value.hint
            await b.leave_etcd_alone()
            with pytest.raises(ClusterError, match="the etcd of b runs at https://"):
                await another.start()
            assert await ids(a) == before
            b.kill()
            await another.start()
            assert await remembers(another)

    asyncio.run(story())


def _damage(house: House) -> None:
    damage_log(house.etcd)
    house.kill()


async def _remove(town: Town, through: House, name: str) -> None:
    membership = town.membership(through)

    async def is_removed() -> bool:
        """etcd refuses it until its members have been connected for five seconds."""
        with suppress(ClusterError, NotFound):  # its answer may have been lost
            await membership.remove(name)
        return name not in await ids(through)

    await until(is_removed, f"{name} to be removed")


@pytest.mark.parametrize("through", ["a", "c"], ids=["asked of another", "asked of itself"])
def a_removal_whose_answer_is_lost_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, through: str
) -> None:
    """etcd ends as soon as it is removed, and may not answer any more."""
    sound = EtcdClient.remove_member

    async def unanswered(client: EtcdClient, id: int) -> None:
        await sound(client, id)
        raise JournalUnavailable("etcd says: etcdserver: server stopped")

    async def story() -> None:
        async with a_town(tmp_path) as town:
            houses = {house.name: house for house in await town.founded()}
            a, asked = houses["a"], houses[through]
            roster = EtcdRoster(a.client(), DEFAULT_PREFIX)
            with monkeypatch.context() as patched:
                patched.setattr(EtcdClient, "remove_member", unanswered)
                membership = town.membership(asked)

                async def is_removed() -> bool:
                    """etcd refuses it until its members have been connected for five seconds."""
                    with suppress(ClusterError):
                        await membership.remove("c")
                        return True
                    return False

                await until(is_removed, "c to be removed")
            assert set(await ids(a)) == {"a", "b"}
            assert {member.name for member in await roster.members()} == {"a", "b"}

    asyncio.run(story())


def a_server_that_is_ending_does_not_hide_what_the_others_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The etcd of a replica that was just removed answers for a moment that it has stopped."""
    sound = EtcdClient._ask

    async def story() -> None:
        async with a_town(tmp_path) as town:
            _, _, c = await town.founded()
            own = c.client().endpoints[0]

            async def ask(client: EtcdClient, endpoint: Endpoint, *args: Any, **more: Any) -> bytes:
                if endpoint == own:
                    raise Said(2, "raft: stopped")
                return await sound(client, endpoint, *args, **more)

            with monkeypatch.context() as patched:
                patched.setattr(EtcdClient, "_ask", ask)
                roster = EtcdRoster(c.client(), DEFAULT_PREFIX)
                await roster.strike("x")
                with pytest.raises(Said):  # it may have been carried out
                    await c.client().remove_member(1)

    asyncio.run(story())


def a_removal_after_which_the_list_cannot_be_written_is_told_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound, struck = EtcdRoster.strike, list[str]()

    async def strike(roster: EtcdRoster, name: str) -> None:
        struck.append(name)
        if len(struck) % 2 == 0:
            raise JournalUnavailable("etcd does not answer")
        await sound(roster, name)

    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, _, _ = await town.founded()
            membership, said = town.membership(a), list[str]()

            async def is_removed() -> bool:
                """etcd refuses it until its members have been connected for five seconds."""
                struck.clear()
                try:
                    await membership.remove("c")
                except ClusterError as wrong:
                    said.append(str(wrong))
                return "c" not in await ids(a)

            with monkeypatch.context() as patched:
                patched.setattr(EtcdRoster, "strike", strike)
                await until(is_removed, "c to be removed")
            assert "c has lost its vote, but it is not known whether it is off the list" in said[-1]

    asyncio.run(story())


def _hang(house: House) -> None:
    """As a disk that stands still does."""
    pid = house.pid()
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)


@pytest.mark.parametrize("fail", [_damage, _hang], ids=["damaged", "hung"])
def who_is_removed_while_its_etcd_does_not_work_stops(tmp_path: Path, fail: Callable[[House], None]) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, _, c = await town.founded()
            member = c.member
            assert member is not None
            fail(c)
            await until(lambda: _is_told(c), "c to know that its etcd does not work")
            assert not member._lost_event.is_set(), "an etcd that does not work is no reason to stop"
            await _remove(town, a, "c")
            said = await asyncio.wait_for(member.lost(), PATIENCE_S)
            assert "c was removed from the cluster" in str(said)
            await c.stop()
            assert c.pid() is None
            assert (c.etcd.with_name("etcd.removed") / "member" / "wal").is_dir()
            with pytest.raises(ClusterError, match="c is not a member"):
                await c.start()

    async def _is_told(house: House) -> bool:
        return house.member is not None and bool(house.member.problem)

    asyncio.run(story())


def who_is_removed_before_a_start_that_its_etcd_does_not_survive_stops(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, _, c = await town.founded()
            await c.leave_etcd_alone()
            _damage(c)
            trying = asyncio.create_task(c.start())

            async def waits() -> bool:
                return c.member is not None and "there is no majority yet: etcd ended" in c.member.problem

            await until(waits, "c to wait for its etcd")
            assert not trying.done(), "it is a member, and its etcd may come back"
            await _remove(town, a, "c")
            with pytest.raises(ClusterError, match="c was removed from the cluster"):
                await trying
            assert c.pid() is None

    asyncio.run(story())


def who_enlists_itself_after_its_removal_is_told(tmp_path: Path) -> None:
    """It was starting, and stood still between the two."""

    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, _, c = await town.founded()
            assert c.member is not None
            await c.member.check_membership()
            await _remove(town, a, "c")
            with pytest.raises(ClusterError, match="c was removed from the cluster"):
                await c.member.check_membership()

    asyncio.run(story())


def an_etcd_that_joins_again_after_its_data_was_lost_is_not_taken_for_removed(tmp_path: Path) -> None:
    """The number that it had is gone from the list."""

    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, _, c = await town.founded()
            await keeps(a)
            before = await ids(a)
            shutil.rmtree(c.etcd)
            c.kill()
            await until(lambda: remembers(c), "the etcd of c to be back")
            assert (await ids(a))["c"] != before["c"]
            assert c.member is not None
            await c.member.check_membership()
            assert not c.member._lost_event.is_set()
            assert Memory(c.data / "member", "c").record.member != before["c"]

    asyncio.run(story())


def only_a_number_that_the_list_lacks_has_left() -> None:
    peers = [Voter(1, "a", [], [], False), Voter(2, "", [], [], False)]
    assert has_left(peers, 3)
    assert not has_left(peers, 2), "its name comes when it has started"
    assert not has_left(peers, 0), "it may be joining"
    assert not has_left([], 3), "nobody has agreed on an empty list"
