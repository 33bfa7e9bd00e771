"""Questions and answers between replicas, over real sockets with certificates on both sides."""

from __future__ import annotations

import asyncio
import ssl

import aiohttp
import pytest

from tocsin.errors import ClusterError, NoLeader, Refused, Uncertain, Unreachable, VersionConflict
from tocsin.model.cluster import Asked, Hello, Member
from tocsin.model.command import LaunchNow
from tocsin.peers import client as asking
from tocsin.peers.client import PeerClient
from tocsin.peers.directory import Directory
from tocsin.peers.server import PeerServer
from tocsin.replica.peers import Fate, Peers
from tocsin.targets.contract import Outcome, Output, Verdict

NOBODY = Member("nobody", "127.0.0.1:1")
ASKED = Asked("a-1", 1, "exec", 5)


def it_is_the_port_that_a_replica_expects(running):
    async def whole() -> None:
        async with running() as (_, client):
            port: Peers = client
            assert await port.statuses() == {}

    asyncio.run(whole())


def every_question_gets_its_answer(running):
    async def whole() -> None:
        async with running("a", "b") as (cluster, client):
            a = cluster.replicas["a"]
            assert await client.hello(cluster.members["a"]) == Hello("a", "founded", "t")
            assert {name: found.name for name, found in (await client.statuses()).items()} == {
                "a": "a",
                "b": "b",
            }
            ended = Fate("ended", Outcome(Verdict.FAILED, "no", exit_code=3, ended_ms=9))
            a.told = [ended, Fate("unknown")]
            assert await client.fates("a", [ASKED, ASKED], 7) == [ended, Fate("unknown")]
            await client.cancel("a", ASKED, "enough")
            assert await client.output("a", "exec", "a-1", 2) is None
            a.printed = Output(b"head\xff", b"tail", 3, complete=False)
            assert await client.output("a", "exec", "a-1", 2) == a.printed
            await client.step_down("a")
            assert a.heard == [
                ([ASKED, ASKED], 7),
                (ASKED, "enough"),
                *[("exec", "a-1", 2)] * 2,
                "step down",
            ]

    asyncio.run(whole())


def a_leader_without_anything_to_ask_after_is_heard_all_the_same(running):
    """The question also tells a replica that it makes no call of an earlier term any more."""

    async def whole() -> None:
        async with running("a") as (cluster, client):
            assert await client.fates("a", [], 7) == []
            assert cluster.replicas["a"].heard == [([], 7)]

    asyncio.run(whole())


def many_attempts_are_asked_after_in_portions(running, monkeypatch):
    monkeypatch.setattr(asking, "PORTION", 3)

    async def whole() -> None:
        async with running("a") as (cluster, client):
            many = [Asked(f"a-{number}", 1, "exec", 5) for number in range(7)]
            assert len(await client.fates("a", many, 7)) == 7
            assert [len(some) for some, _ in cluster.replicas["a"].heard] == [3, 3, 1]

    asyncio.run(whole())


def a_starting_replica_says_hello_and_status_and_does_nothing_else(running, tmp_path):
    async def whole() -> None:
        async with running("a") as (cluster, client):
            cluster.replicas["a"].role = "starting"
            assert (await client.hello(cluster.members["a"])).name == "a"
            assert (await client.statuses())["a"].role == "starting"
            for question in (
                client.propose("a", LaunchNow("x")),
                client.step_down("a"),
            ):
                with pytest.raises(NoLeader, match="starting"):
                    await question
            for question in (client.fates("a", [], 1), client.output("a", "exec", "x", 1)):
                with pytest.raises(Unreachable, match="starting"):
                    await question
            with pytest.raises(Unreachable):
                await client.offers()
            assert cluster.replicas["a"].heard == []

    asyncio.run(whole())


def what_the_leader_raises_is_raised_here(running):
    async def whole() -> None:
        async with running("a") as (cluster, client):
            cluster.replicas["a"].answer = lambda _: VersionConflict("at version 3, not 2", hint="read it")
            with pytest.raises(VersionConflict) as raised:
                await client.propose("a", LaunchNow("x"))
            assert (raised.value.message, raised.value.hint) == ("at version 3, not 2", "read it")

    asyncio.run(whole())


def a_leader_that_takes_no_connection_has_done_nothing(running):
    async def whole() -> None:
        async with running("a") as (cluster, client):
            await cluster.servers["a"].stop()
            with pytest.raises(NoLeader) as refused:
                await client.propose("a", LaunchNow("x"))
            assert refused.value.retryable
            with pytest.raises(NoLeader):
                await client.propose("unheard-of", LaunchNow("x"))
            assert await client.statuses() == {"a": None}

    asyncio.run(whole())


def a_leader_that_dies_before_it_answers_leaves_it_uncertain(running):
    async def whole() -> None:
        async with running("a") as (cluster, client):
            heard = asyncio.Event()

            async def never() -> None:
                heard.set()
                await asyncio.Event().wait()

            cluster.replicas["a"].answer = lambda _: never()
            proposing = asyncio.create_task(client.propose("a", LaunchNow("x")))
            await heard.wait()
            await cluster.servers["a"].stop()
            with pytest.raises(Uncertain) as lost:
                await proposing
            assert not lost.value.retryable
            assert "look before" in lost.value.hint

    asyncio.run(whole())


def a_leader_that_is_silent_leaves_it_uncertain(running, monkeypatch):
    monkeypatch.setattr(asking, "PROPOSE_S", 0.2)

    async def whole() -> None:
        async with running("a") as (cluster, client):
            cluster.replicas["a"].answer = lambda _: asyncio.Event().wait()
            with pytest.raises(Uncertain, match="in time"):
                await client.propose("a", LaunchNow("x"))

    asyncio.run(whole())


def a_mistake_of_the_leader_leaves_it_uncertain(running):
    async def whole() -> None:
        async with running("a") as (cluster, client):
            cluster.replicas["a"].answer = lambda _: ValueError("a mistake")
            with pytest.raises(Uncertain, match="500"):
                await client.propose("a", LaunchNow("x"))

    asyncio.run(whole())


def a_replica_that_hangs_holds_up_no_status_of_the_others(running):
    """It takes connections and never says a word."""

    async def whole() -> None:
        async with running("a") as (cluster, _):
            silent = await asyncio.start_server(lambda *_: asyncio.Event().wait(), "127.0.0.1", 0)
            cluster.members["z"] = Member("z", f"127.0.0.1:{silent.sockets[0].getsockname()[1]}")
            cluster.members["nobody"] = NOBODY
            client = cluster.client()
            found = await asyncio.wait_for(client.statuses(), 3)
            assert found["a"] is not None
            assert (found["z"], found["nobody"]) == (None, None)
            await client.stop()
            silent.close()

    asyncio.run(whole())


def who_has_another_secret_is_not_heard(running, strangers):
    async def whole() -> None:
        async with running("a") as (cluster, _):
            stranger = cluster.client(strangers)
            with pytest.raises(Unreachable, match="not of this cluster"):
                await stranger.hello(cluster.members["a"])
            await stranger.stop()
            # One that would trust anybody is not trusted itself.
            blind = ssl.create_default_context()
            blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE
            async with aiohttp.ClientSession() as session:
                with pytest.raises((aiohttp.ClientError, OSError)):
                    await session.post(f"https://{cluster.members['a'].peer}/status", ssl=blind)
            trusting = PeerClient("me", Directory("me", cluster.members.values()), _blind(strangers))
            with pytest.raises(Unreachable) as hung_up:
                await trusting.hello(cluster.members["a"])
            assert "--cluster-secret" in hung_up.value.hint
            await trusting.stop()

    asyncio.run(whole())


def _blind(strangers) -> ssl.SSLContext:
    context = strangers.contexts("me")[1]
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def another_replica_at_its_address_is_not_taken_for_it(running):
    async def whole() -> None:
        async with running("a") as (cluster, client):
            with pytest.raises(Unreachable, match="not its own"):
                await client.hello(Member("b", cluster.members["a"].peer))

    asyncio.run(whole())


def a_listener_that_asks_for_no_certificate_is_refused(running):
    lax = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with pytest.raises(ClusterError):
        PeerServer("127.0.0.1:0", lax, None, lambda: Hello("a", "empty"))  # type: ignore[arg-type]  # why: not asked


def an_address_that_is_taken_is_told_with_a_remedy(running):
    async def whole() -> None:
        async with running("a") as (cluster, _):
            second = PeerServer(
                cluster.members["a"].peer,
                cluster.authority.contexts("b")[0],
                cluster.replicas["a"],
                lambda: Hello("b", "empty"),
            )
            with pytest.raises(ClusterError, match="already in use") as taken:
                await second.start()
            assert "--cluster" in taken.value.hint

    asyncio.run(whole())


def a_body_beyond_all_measure_is_not_read(running, monkeypatch):
    monkeypatch.setattr("tocsin.peers.server.REQUEST_BYTES_MAX", 1000)

    async def whole() -> None:
        async with running("a") as (cluster, client):
            with pytest.raises(Unreachable):
                await client.cancel("a", ASKED, "x" * 100_000)
            assert cluster.replicas["a"].heard == []

    asyncio.run(whole())


def a_new_version_asks_for_what_an_old_leader_does_not_know(running, monkeypatch):
    async def whole() -> None:
        async with running("a") as (_, client):
            monkeypatch.setattr("tocsin.peers.messages._COMMANDS", {})
            with pytest.raises(Refused, match="LaunchNow"):
                await client.propose("a", LaunchNow("x"))

    asyncio.run(whole())


class _Roster:
    def __init__(self) -> None:
        self.members_now = [Member("a", "h:1")]
        self.silent = asyncio.Event()
        self.read = asyncio.Event()

    async def members(self) -> list[Member]:
        self.read.set()
        if self.silent.is_set():
            await asyncio.Event().wait()
        return self.members_now

    async def enlist(self, member: Member) -> None: ...
    async def expect(self, member: Member) -> None: ...
    async def strike(self, name: str) -> None: ...


def the_roster_counts_for_more_than_the_settings_and_is_never_waited_for():
    async def whole() -> None:
        roster = _Roster()
        directory = Directory("me", [Member("me", "h:9"), Member("b", "h:2")], roster)
        assert [member.name for member in directory.others()] == ["b"]
        await directory.refresh()
        assert [member.name for member in directory.others()] == ["a"]
        roster.silent.set()
        await directory.start()
        await roster.read.wait()
        assert directory.find("a") == Member("a", "h:1")
        assert directory.find("b") is None
        roster.read.clear()
        await directory.stop()

    asyncio.run(whole())


def who_has_never_started_is_told_by_the_roster_alone():
    async def whole() -> None:
        roster = _Roster()
        roster.members_now = [
            Member("me", "h:9", "http://me"),
            Member("a", "h:1"),
            Member("b", "h:2", "http://b"),
        ]
        directory = Directory("me", [Member("me", "h:9", "http://me"), Member("b", "h:2")], roster)
        assert directory.started() == ["b", "me"], "the settings do not tell"
        await directory.refresh()
        assert directory.started() == ["b", "me"]
        assert [member.name for member in directory.members()] == ["a", "b", "me"]

    asyncio.run(whole())


def only_who_was_in_the_roster_can_be_removed_from_it():
    async def whole() -> None:
        roster = _Roster()
        directory = Directory("me", [Member("me", "h:9")], roster)
        removed = asyncio.create_task(directory.removed())
        await directory.refresh()  # it has not enlisted itself yet
        roster.members_now = [Member("a", "h:1"), Member("me", "h:9")]
        await directory.refresh()
        roster.members_now = []  # nobody would be left: that is no removal
        await directory.refresh()
        await asyncio.sleep(0)
        assert not removed.done()
        roster.members_now = [Member("a", "h:1")]
        await directory.refresh()
        assert "me was removed from the cluster" in str(await asyncio.wait_for(removed, 5))

    asyncio.run(whole())


def an_unknown_name_has_the_roster_read_at_once():
    async def whole() -> None:
        roster = _Roster()
        directory = Directory("me", [], roster)
        await directory.start()
        await roster.read.wait()
        roster.members_now = [Member("a", "h:1"), Member("c", "h:3")]
        async with asyncio.timeout(2):  # less than the roster is read by itself
            while directory.find("c") is None:
                roster.read.clear()
                await roster.read.wait()
                await asyncio.sleep(0)
        await directory.stop()

    asyncio.run(whole())
