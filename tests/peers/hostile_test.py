"""A replica that has the secret and is not what it seems. What it sends is looked at like everything that comes in."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from collections.abc import Callable
from typing import Any, NamedTuple

import aiohttp
import pytest
import structlog
from tests.peers.transfer_test import _held

from tocsin.errors import InvalidInput
from tocsin.member.secret import certified_name
from tocsin.model import command as c
from tocsin.model.token import Token
from tocsin.peers import messages, server, transfer
from tocsin.peers.listener import SHAKING_MAX
from tocsin.state import snapshot
from tocsin.state.snapshot import Manifest

SHA = "a" * 64


@pytest.mark.parametrize(
    "command",
    [
        c.NoteTokenUse({"abc": 2**63 + 5}),
        c.NoteTokenUse({"abc": 2**62}),
        c.CreateToken(Token("abc", "ci", b"", ("read",), (), 2**63)),
        c.DeleteSchedule("a", expect=2**64 - 1),
        c.Backfill("a", -5, 2**63),
    ],
    ids=repr,
)
def an_integer_that_cannot_be_kept_gets_no_further(running, command):
    async def whole() -> None:
        async with running("a") as (cluster, client):
            cluster.replicas["a"].role = "leader"
            with pytest.raises(InvalidInput, match="cannot be kept"):
                await client.propose("a", command)
            assert cluster.replicas["a"].heard == []

    asyncio.run(whole())


def whose_token_it_was_arrives_with_the_command(running):
    async def whole() -> None:
        async with running("a") as (cluster, client):
            await client.propose("a", c.LaunchNow("a", "ann", bearer="abc"))
            assert cluster.replicas["a"].heard == [c.LaunchNow("a", "ann", bearer="abc")]
            assert messages.command_of(messages.proposal_of(c.RevokeToken("x", bearer="abc"))).bearer == "abc"

    asyncio.run(whole())


# Snapshots that are none


@pytest.mark.parametrize(
    ("claimed", "why"),
    [
        (Manifest(15, "i", 0, 10**15, SHA), "no room"),
        (Manifest(15, "i", 0, 10, "a\0b"), "not one"),
        (Manifest(15, "i", 0, 10, "../../../../etc/" + "x" * 48), "not one"),
        (Manifest(15, "i", 0, 10, SHA.upper()), "not one"),
        (Manifest(15, "i", 0, 0, SHA), "not one"),
        (Manifest(15, "i", 0, -1, SHA), "not one"),
        (Manifest(10**15, "i", 0, 10, SHA), "journal ends at 20"),
        (Manifest(2**63 + 1, "i", 0, 10, SHA), "journal ends at 20"),
    ],
    ids=lambda given: repr(given)[:60],
)
def a_manifest_that_cannot_be_true_is_passed_over_for_the_next_lender(
    running, tmp_path, monkeypatch, claimed, why
):
    async def whole() -> None:
        async with running("a", "b") as (cluster, client):
            good = _held(cluster.replicas["b"].folder, 10)
            monkeypatch.setattr(cluster.replicas["a"], "snapshots", lambda: [claimed])
            folder = tmp_path / "here"
            with structlog.testing.capture_logs() as told:
                assert await client.fetch_snapshot("i", 5, folder, _at(20)) == good
            assert [line["replica"] for line in told if why in line.get("reason", "")] == ["a"]
            assert snapshot.manifests(folder) == [good]
            assert cluster.replicas["a"].lent == []

    asyncio.run(whole())


def room_that_is_taken_by_what_came_in_part_counts(running, tmp_path, monkeypatch):
    """It is dropped, or gone on with."""

    class Usage(NamedTuple):
        free: int

    async def whole() -> None:
        async with running("a") as (cluster, client):
            good = _held(cluster.replicas["a"].folder, 10)
            folder = tmp_path / "here"
            folder.mkdir()
            (folder / f"fetch-{9:016d}-{'0' * 32}.partial").write_bytes(b"x" * good.size)
            monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(transfer.SPARE_BYTES + 1))
            assert await client.fetch_snapshot("i", 5, folder) == good

    asyncio.run(whole())


def _at(seq: int) -> Callable[[], Any]:
    async def newest() -> int:
        return seq

    return newest


# Questions that are none


@pytest.mark.parametrize("path", [f"/snapshots/{'9' * 5000}/{SHA}", f"/snapshots/{'9' * 18}/{SHA}"])
def a_number_beyond_all_measure_is_merely_not_there(running, tmp_path, path):
    async def whole() -> None:
        async with running("a") as (cluster, _), aiohttp.ClientSession() as session:
            tls = cluster.authority.contexts("me")[1]
            with structlog.testing.capture_logs() as told:
                async with session.get(
                    f"https://127.0.0.1:{cluster.servers['a'].port}{path}",
                    ssl=tls,
                    server_hostname=certified_name("a"),
                ) as response:
                    assert response.status in (404, server.WRONG)
            assert not told

    asyncio.run(whole())


def whoever_takes_nothing_of_a_snapshot_does_not_keep_others_from_it(running, tmp_path, monkeypatch):
    monkeypatch.setattr(server, "STALLED_S", 0.2)

    async def whole() -> None:
        async with running("a") as (cluster, client):
            manifest = _held(cluster.replicas["a"].folder, 10, size=64 * 1024 * 1024)
            port, tls = cluster.servers["a"].port, cluster.authority.contexts("me")[1]
            stalled = [await _asks_and_reads_nothing(port, tls, manifest) for _ in range(4)]
            async with asyncio.timeout(20):
                assert await client.fetch_snapshot("i", 5, tmp_path / "here") == manifest
            for writer in stalled:
                writer.transport.abort()

    asyncio.run(whole())


async def _asks_and_reads_nothing(port: int, tls: ssl.SSLContext, manifest: Manifest) -> asyncio.StreamWriter:
    _, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=tls, server_hostname=certified_name("a"), limit=1024
    )
    writer.write(f"GET /snapshots/{manifest.seq}/{manifest.sha256} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    await writer.drain()
    return writer


def strangers_that_connect_and_say_nothing_keep_no_replica_out(running):
    """Nobody counts a connection before both sides have shaken hands; each of these would last for seconds."""

    async def whole() -> None:
        async with running("a") as (cluster, client):
            host, port = "127.0.0.1", cluster.servers["a"].port
            strangers = [await asyncio.open_connection(host, port) for _ in range(4 * SHAKING_MAX)]
            ended = [
                asyncio.create_task(reader.read()) for reader, _ in strangers[: 2 * SHAKING_MAX]
            ]  # they have given way
            await asyncio.wait_for(asyncio.gather(*ended, return_exceptions=True), 4)
            assert (await client.propose("a", c.LaunchNow("a"))) is not None
            for _, writer in strangers:
                writer.close()

    asyncio.run(whole())
