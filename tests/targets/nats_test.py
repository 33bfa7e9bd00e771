"""What an event looks like on a stream, and what the answers of a real server mean."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import nats
import pytest
from tests.brokers.nats import NatsServer, arrived, make_stream, messages
from tests.targets.nats_support import SPEC, connected, launch, target_for, until_told

from tocsin.errors import InvalidInput
from tocsin.model.target import NatsTarget as NatsSpec
from tocsin.targets.contract import Verdict
from tocsin.testing.targets import order_for


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    running = NatsServer(tmp_path / "nats")
    yield running
    running.stop()


def an_event_names_its_launch_in_body_headers_and_message_id(server: NatsServer) -> None:
    async def tried() -> None:
        await make_stream(server.url, "events.>")
        target = await connected(server.url)
        spec = NatsSpec(subject="events.one", headers={"Team": "finance", "tocsin-launch": "another"})
        outcome = await launch(target, order_for(spec))
        await target.stop()
        assert outcome.verdict is Verdict.SUCCEEDED
        (message,) = await messages(server.url)
        assert message.subject == "events.one"
        assert message.headers == {
            "Nats-Msg-Id": "suite/one-1700000000",
            "Tocsin-Launch": "suite/one-1700000000",
            "Tocsin-Schedule": "suite/one",
            "Tocsin-Scheduled-At": "2023-11-14T22:13:20Z",
            "Tocsin-Attempt": "1",
            "Tocsin-Term": "7",
            "Team": "finance",
        }
        assert json.loads(message.data) == {
            "id": "suite/one-1700000000",
            "generated_at": "2023-11-14T22:13:20.123Z",
            "schedule_id": "suite/one",
            "payload": {"n": 1},
        }

    asyncio.run(tried())


def a_repeat_is_dropped_by_the_stream_and_succeeds(server: NatsServer) -> None:
    async def tried() -> None:
        await make_stream(server.url, "events.>")
        target, another = await connected(server.url), await connected(server.url)
        for each, attempt in ((target, 1), (target, 2), (another, 2)):
            assert (await launch(each, order_for(SPEC, attempt=attempt))).verdict is Verdict.SUCCEEDED
        await target.stop()
        await another.stop()
        assert await arrived(server.url) == {"suite/one-1700000000": 1}

    asyncio.run(tried())


def a_subject_that_no_stream_takes_is_not_started_at_once(server: NatsServer) -> None:
    async def tried() -> None:
        target = await connected(server.url)
        async with asyncio.timeout(3):
            outcome = await target.launch(order_for(SPEC))
        await target.stop()
        assert (outcome.verdict, outcome.permanent) == (Verdict.NOT_STARTED, False)
        assert outcome.reason == "no stream takes 'events.one'"

    asyncio.run(tried())


def a_full_stream_is_a_failure_that_another_try_may_mend(server: NatsServer) -> None:
    async def tried() -> None:
        await make_stream(server.url, "events.>", max_msgs=1, discard="new")
        target = await connected(server.url)
        assert (await launch(target, order_for(SPEC, "suite/one-1"))).verdict is Verdict.SUCCEEDED
        outcome = await launch(target, order_for(SPEC, "suite/one-2"))
        await target.stop()
        assert (outcome.verdict, outcome.permanent) == (Verdict.FAILED, False)
        assert "maximum messages exceeded" in outcome.reason
        assert await arrived(server.url) == {"suite/one-1": 1}

    asyncio.run(tried())


def what_is_too_large_is_refused_for_good_and_the_rest_of_its_batch_arrives(tmp_path: Path) -> None:
    async def tried() -> None:
        await make_stream(server.url, "events.>")
        await make_stream(server.url, "small.>", name="SMALL", max_msg_size=100)
        target = await connected(server.url)
        outcomes = await target.launch_batch(
            [
                order_for(SPEC, "suite/one-1"),
                order_for(SPEC, "suite/one-2", payload=b'"%b"' % (b"x" * 5_000)),
                order_for(NatsSpec(subject="small.one"), "suite/one-3"),
                order_for(SPEC, "suite/one-4"),
            ]
        )
        await target.stop()
        good = (Verdict.SUCCEEDED, False)
        expected = [good, (Verdict.NOT_STARTED, True), (Verdict.FAILED, True), good]
        assert [(outcome.verdict, outcome.permanent) for outcome in outcomes] == expected
        assert "the server takes 4096" in outcomes[1].reason
        assert await arrived(server.url) == {"suite/one-1": 1, "suite/one-4": 1}

    server = NatsServer(tmp_path / "nats", "max_payload: 4096")
    try:
        asyncio.run(tried())
    finally:
        server.stop()


def a_wrong_password_is_told_without_showing_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def tried() -> None:
        right, wrong = (target_for(url) for url in (good_url, bad_url))
        await wrong.start()
        outcome = await until_told(wrong, "refuses")
        assert (outcome.verdict, outcome.permanent) == (Verdict.NOT_STARTED, False)
        assert "Authorization Violation" in outcome.reason
        assert "s3cret" not in outcome.reason + caplog.text
        await wrong.stop()
        target = await connected(good_url)
        assert (await launch(target, order_for(SPEC))).reason == "no stream takes 'events.one'"
        await target.stop()
        assert "p@ss" not in repr(right._access) + str(right._access)

    server = NatsServer(tmp_path / "nats", 'authorization { user: tocsin, password: "p@ss,word" }')
    good_url = f"nats://tocsin:p%40ss%2Cword@127.0.0.1:{server.port}"
    bad_url = f"nats://tocsin:s3cret@127.0.0.1:{server.port}"
    try:
        asyncio.run(tried())
    finally:
        server.stop()


_LIMITED = """
accounts {
  A {
    jetstream: enabled
    users: [
      { user: admin, password: admin }
      { user: tocsin, password: tocsin, permissions: { publish: ["events.>", "$JS.API.>"], subscribe: "_INBOX.>" } }
    ]
  }
}
"""


def what_the_server_does_not_permit_is_refused_for_good_and_at_once(tmp_path: Path) -> None:
    async def tried() -> None:
        await make_stream(server.url.replace("//", "//admin:admin@"), "events.>", "others.>")
        target = await connected(server.url.replace("//", "//tocsin:tocsin@"))
        others = NatsSpec(subject="others.one")
        async with asyncio.timeout(4):
            outcomes = await target.launch_batch(
                [order_for(spec, f"s/1-{n}") for n, spec in enumerate([SPEC, others, SPEC, others, others])]
            )
        await target.stop()
        good, refused = (Verdict.SUCCEEDED, False), (Verdict.FAILED, True)
        found = [(outcome.verdict, outcome.permanent) for outcome in outcomes]
        assert found == [good, refused, good, refused, refused]
        assert "does not permit" in outcomes[1].reason

    server = NatsServer(tmp_path / "nats", _LIMITED)
    try:
        asyncio.run(tried())
    finally:
        server.stop()


def an_acknowledgement_that_does_not_come_is_unknown(server: NatsServer) -> None:
    async def tried() -> None:
        silent = await nats.connect(server.url)
        await silent.subscribe("events.>", cb=_ignore)
        await silent.flush()
        target = await connected(server.url)
        short, long = order_for(SPEC, timeout_s=0.3), order_for(SPEC, timeout_s=0.6)
        outcomes = await target.launch_batch([short, long])
        await target.stop()
        await silent.close()
        assert [outcome.verdict for outcome in outcomes] == [Verdict.UNKNOWN] * 2
        assert ["0.3s" in outcomes[0].reason, "0.6s" in outcomes[1].reason] == [True, True]

    asyncio.run(tried())


async def _ignore(message: object) -> None:
    """Listens, and never answers."""


def what_answers_without_being_a_stream_is_unknown(server: NatsServer) -> None:
    async def tried() -> None:
        client = await nats.connect(server.url)

        async def answer(message: nats.aio.msg.Msg) -> None:
            await message.respond(b"thanks")

        await client.subscribe("events.>", cb=answer)
        await client.flush()
        target = await connected(server.url)
        outcome = await launch(target, order_for(SPEC))
        await target.stop()
        await client.close()
        assert (outcome.verdict, outcome.reason) == (
            Verdict.UNKNOWN,
            "what answers on 'events.one' is no stream",
        )

    asyncio.run(tried())


def a_subject_that_the_operator_does_not_name_is_not_sent_to(server: NatsServer) -> None:
    async def tried() -> None:
        await make_stream(server.url, "events.>", "others.>")
        target = await connected(server.url, subjects="events.*")
        outcomes = await target.launch_batch(
            [order_for(SPEC, "suite/one-1"), order_for(NatsSpec(subject="others.one"), "suite/one-2")]
        )
        await target.stop()
        assert [o.verdict for o in outcomes] == [Verdict.SUCCEEDED, Verdict.NOT_STARTED]
        assert outcomes[1].permanent
        assert "nats_subjects" in outcomes[1].reason
        assert await arrived(server.url) == {"suite/one-1": 1}

    asyncio.run(tried())


@pytest.mark.parametrize("name", ["Nats-Msg-Id", "nats-rollup", "NATS-Expected-Stream"])
def headers_that_steer_the_server_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="Nats-") as refused:
        NatsSpec(subject="events.one", headers={name: "1"}).check()
    assert refused.value.field == "target.headers"
