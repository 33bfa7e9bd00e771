"""Brokers that are not there, die, hang and come back: nothing is lost, and nothing is said that is not certain."""

from __future__ import annotations

import asyncio
import gc
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Message
from tests.brokers.kafka import KafkaBroker, Topic, headers_of, kafka
from tests.journal.proxy import Proxy
from tests.ports import own_port
from tests.replica.lone import LeapClock
from tests.targets.kafka_support import boot_s, named, orders_for, running

from tocsin.clock import SystemClock
from tocsin.journal.etcd.endpoints import Endpoint
from tocsin.model.target import KafkaTarget as KafkaSpec
from tocsin.targets.contract import TOO_LATE, Order, Outcome, Verdict
from tocsin.targets.kafka.target import KafkaTarget
from tocsin.testing.targets import order_for

LONG_S = 60.0


@pytest.fixture(scope="module")
def _started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with kafka(tmp_path_factory.mktemp("kafka")) as up:
        yield up


@pytest.fixture
def broker(_started: KafkaBroker) -> KafkaBroker:
    """Up, whatever the test before did to it."""
    assert _started.process is not None
    if _started.process.poll() is not None:
        _started.restart()
    return _started


def _new_topic(broker: KafkaBroker, name: str) -> str:
    """Its events bear the time at which the broker wrote them down."""
    return broker.make_topic(name, 3, {"message.timestamp.type": "LogAppendTime"})


def _written_ms(message: Message) -> int:
    return int(message.timestamp()[1])


async def _in_batches(target: KafkaTarget, orders: Sequence[Order]) -> list[asyncio.Task[Sequence[Outcome]]]:
    return [
        asyncio.create_task(target.launch_batch(orders[at : at + 1_000]))
        for at in range(0, len(orders), 1_000)
    ]


async def _ends(calls: Sequence[asyncio.Task[Sequence[Outcome]]]) -> list[Outcome]:
    async with asyncio.timeout(LONG_S):
        return [outcome for batch in await asyncio.gather(*calls) for outcome in batch]


def _assert_honest(orders: Sequence[Order], outcomes: Sequence[Outcome], found: set[str]) -> None:
    assert named(orders, outcomes, Verdict.SUCCEEDED) <= found
    assert not named(orders, outcomes, Verdict.NOT_STARTED) & found
    assert {outcome.verdict for outcome in outcomes} <= {
        Verdict.SUCCEEDED,
        Verdict.NOT_STARTED,
        Verdict.UNKNOWN,
    }


def a_broker_that_is_killed_in_a_herd_and_comes_back_loses_nothing(broker: KafkaBroker) -> None:
    topic = _new_topic(broker, "killed")
    orders = orders_for(topic, 20_000)

    async def sent() -> list[Outcome]:
        async with running(broker.address) as target:
            calls = await _in_batches(target, orders)
            await calls[2]
            broker.signal(signal.SIGKILL)
            assert not all(call.done() for call in calls)
            await asyncio.to_thread(broker.restart)
            return await _ends(calls)

    outcomes = asyncio.run(sent())
    reader = Topic(broker, topic)
    names = reader.names()
    reader.close()
    _assert_honest(orders, outcomes, set(names))
    # It came back within the time that an event waits, so there is no doubt either, and the broker tells repeats apart.
    assert {outcome.verdict for outcome in outcomes} == {Verdict.SUCCEEDED}
    assert len(names) == len(orders)
    assert set(names.values()) == {1}


def what_was_under_way_when_authority_ended_does_not_go_out_when_the_broker_comes_back(
    broker: KafkaBroker,
) -> None:
    topic = _new_topic(broker, "deposed")
    until_s = boot_s() + 3.0
    orders = orders_for(topic, 10_000, until_s=until_s)
    marker = order_for(KafkaSpec(topic=topic), "suite/marker-1", term=8)
    killed_ms = 0

    async def sent() -> list[Outcome]:
        nonlocal killed_ms
        async with running(broker.address) as target:
            calls = await _in_batches(target, orders)
            await calls[2]
            broker.signal(signal.SIGKILL)
            killed_ms = time.time_ns() // 1_000_000
            # The broker comes back as soon as authority has ended.
            await asyncio.wait([asyncio.gather(*calls)], timeout=until_s - boot_s())
            await asyncio.to_thread(broker.restart)
            assert (await target.launch(marker)).verdict is Verdict.SUCCEEDED
            return await _ends(calls)

    outcomes = asyncio.run(sent())
    reader = Topic(broker, topic)
    late = [headers_of(each)["Tocsin-Launch"] for each in reader.read() if _written_ms(each) > killed_ms]
    names = reader.names()
    reader.close()
    assert late == [marker.name]
    _assert_honest(orders, outcomes, set(names))
    # What had not been given to the client library yet is certain, and that is most of it.
    assert outcomes.count(TOO_LATE) > len(orders) / 4
    doubts = [outcome for outcome in outcomes if outcome.verdict is Verdict.UNKNOWN]
    assert len(doubts) <= 2_000


def an_acknowledgement_that_is_lost_is_doubt_and_the_event_is_not_sent_again_without_authority(
    broker: KafkaBroker,
) -> None:
    """The broker has it, its word is lost, and the client library would try again as soon as it is connected."""
    topic = _new_topic(broker, "lost-word")
    orders = orders_for(topic, 500, until_s=boot_s() + 4.0)

    async def sent() -> list[Outcome]:
        host, port = broker.via
        between = Proxy(Endpoint(*broker.behind))
        listening = await asyncio.start_server(between.serve, host, port)
        try:
            async with running(f"{host}:{port}") as target:
                first = await target.launch(order_for(KafkaSpec(topic=topic), "suite/first-1"))
                assert first.verdict is Verdict.SUCCEEDED
                between.answers.clear()
                call = asyncio.create_task(target.launch_batch(orders))
                await between.held.wait()
                await asyncio.wait([call], timeout=orders[0].until_s - boot_s())
                assert not call.done()
                between.cut()
                between.open()
                return await _ends([call])
        finally:
            listening.close()
            await between.close()

    outcomes = asyncio.run(sent())
    reader = Topic(broker, topic)
    names = reader.names()
    reader.close()
    _assert_honest(orders, outcomes, set(names))
    assert len(names) > 1, "the broker had none of them: this was no test"
    assert {outcome.verdict for outcome in outcomes} == {Verdict.UNKNOWN}


def a_leader_that_stays_in_office_waits_for_a_broker_that_hangs(broker: KafkaBroker) -> None:
    """Authority lasts for a moment at a time, and is renewed: what was ordered under it is not given up meanwhile."""
    topic = _new_topic(broker, "patient")
    orders = orders_for(topic, 3_000, until_s=boot_s() + 1.5)

    async def sent() -> list[Outcome]:
        async with running(broker.address) as target:
            first = order_for(KafkaSpec(topic=topic), "suite/first-1")
            assert (await target.launch(first)).verdict is Verdict.SUCCEEDED
            renewing = asyncio.create_task(_renewed(target, orders[0].term))
            broker.signal(signal.SIGSTOP)
            try:
                calls = await _in_batches(target, orders)
                over, _ = await asyncio.wait(calls, timeout=orders[0].until_s + 2.5 - boot_s())
                assert not over
            finally:
                broker.signal(signal.SIGCONT)
            try:
                return await _ends(calls)
            finally:
                renewing.cancel()

    outcomes = asyncio.run(sent())
    assert {outcome.verdict for outcome in outcomes} == {Verdict.SUCCEEDED}
    reader = Topic(broker, topic)
    names = reader.names()
    reader.close()
    assert set(names.values()) == {1}


async def _renewed(target: KafkaTarget, term: int) -> None:
    """As a leader does it, again and again."""
    while True:
        target.in_office(term, boot_s() + 1.5)
        await asyncio.sleep(0.3)


def a_broker_that_hangs_leaves_only_what_is_certain_or_in_doubt(broker: KafkaBroker) -> None:
    topic = _new_topic(broker, "hanging")
    orders = orders_for(topic, 10_000, until_s=boot_s() + 3.0)

    async def sent() -> list[Outcome]:
        async with running(broker.address) as target:
            assert (
                await target.launch(order_for(KafkaSpec(topic=topic), "suite/first-1"))
            ).verdict is Verdict.SUCCEEDED
            broker.signal(signal.SIGSTOP)
            try:
                calls = await _in_batches(target, orders)
                done, _ = await asyncio.wait(
                    calls[3:], timeout=LONG_S
                )  # behind the window: these are not sent
            finally:
                broker.signal(signal.SIGCONT)
            assert {outcome for call in done for outcome in call.result()} == {TOO_LATE}
            return await _ends(calls)

    outcomes = asyncio.run(sent())
    reader = Topic(broker, topic)
    names = set(reader.names())
    reader.close()
    _assert_honest(orders, outcomes, names)


def an_event_waits_for_a_broker_that_is_down_at_the_start(tmp_path: Path) -> None:
    with kafka(tmp_path, up=False) as broker:
        orders = orders_for("waited", 100)

        async def sent() -> list[Outcome]:
            async with running(broker.address) as target:
                gone = asyncio.create_task(
                    target.launch(order_for(KafkaSpec(topic="waited"), "suite/gone-1"))
                )
                calls = await _in_batches(target, orders)
                await asyncio.wait([gone], timeout=0.5)
                gone.cancel()
                await asyncio.to_thread(broker.restart)
                await asyncio.to_thread(broker.make_topic, "waited")
                return await _ends(calls)

        outcomes = asyncio.run(sent())
        reader = Topic(broker, "waited")
        names = reader.names()
        reader.close()
    assert {outcome.verdict for outcome in outcomes} == {Verdict.SUCCEEDED}
    # The one whose caller gave up is not among them.
    assert names == {order.name: 1 for order in orders}


@pytest.mark.parametrize("how", ["revoked", "cancelled"])
def what_waits_for_a_broker_can_be_taken_back_at_once_and_is_never_sent(tmp_path: Path, how: str) -> None:
    """A service that stops: whoever comes next makes the call."""
    with kafka(tmp_path, up=False) as broker:

        async def tried() -> list[Outcome]:
            async with running(broker.address) as target:
                calls = await _in_batches(target, orders_for("taken-back", 2_500))
                await asyncio.wait(calls, timeout=0.5)
                if how == "revoked":
                    target.revoke_unsent()
                else:
                    for call in calls:
                        call.cancel()
                async with asyncio.timeout(2):  # the thread that asks for a broker takes longer than that
                    found = await _ends(calls)
                await asyncio.to_thread(broker.restart)
                await asyncio.to_thread(broker.make_topic, "taken-back")
                last = order_for(KafkaSpec(topic="taken-back"), "suite/last-1")
                assert (await target.launch(last)).verdict is Verdict.SUCCEEDED
                return found

        outcomes = asyncio.run(tried())
        reader = Topic(broker, "taken-back")
        names = reader.names()
        reader.close()
    assert outcomes == [TOO_LATE] * 2_500
    assert names == {"suite/last-1": 1}


def without_a_broker_nothing_is_started_and_the_loop_is_never_blocked() -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    async def tried() -> list[Outcome]:
        async with running(f"127.0.0.1:{own_port()}") as target:
            ticking = asyncio.create_task(tick())
            timely = target.launch(order_for(KafkaSpec(topic="any"), timeout_s=3.0))
            late = target.launch(order_for(KafkaSpec(topic="any"), until_s=boot_s() + 1.0))
            found = await asyncio.gather(timely, late)
            ticking.cancel()
            return found

    timely, late = asyncio.run(tried())
    assert timely.verdict is Verdict.NOT_STARTED
    assert "3s" in timely.reason
    assert "refused" in timely.reason.lower()
    assert late == TOO_LATE
    assert ticks > 60  # of 300, on a busy machine


def a_leader_stops_trying_the_same_attempt_after_half_a_minute_of_silence() -> None:
    """Each try ends as too late and is made again at once: that is no way to go on for hours."""

    class Ahead(SystemClock):
        ahead_s = 0.0

        def elapsed_s(self) -> float:
            return super().elapsed_s() + self.ahead_s

    clock = Ahead()

    async def tried() -> list[Outcome]:
        found = []
        async with running(f"127.0.0.1:{own_port()}", clock=clock) as target:
            for step_s in (0.0, 31.0):
                clock.ahead_s += step_s
                order = order_for(KafkaSpec(topic="any"), until_s=clock.elapsed_s() + 1.5)
                found.append(await target.launch(order))
        return found

    first, second = asyncio.run(tried())
    assert first == TOO_LATE
    assert second.verdict is Verdict.NOT_STARTED
    assert "30s" in second.reason


def what_is_not_acknowledged_in_time_is_in_doubt(broker: KafkaBroker) -> None:
    topic = _new_topic(broker, "slow")

    async def tried() -> Outcome:
        async with running(broker.address) as target:
            assert (
                await target.launch(order_for(KafkaSpec(topic=topic), "suite/first-1"))
            ).verdict is Verdict.SUCCEEDED
            broker.signal(signal.SIGSTOP)
            try:
                return await target.launch(order_for(KafkaSpec(topic=topic), timeout_s=0.5))
            finally:
                broker.signal(signal.SIGCONT)

    outcome = asyncio.run(tried())
    assert outcome.verdict is Verdict.UNKNOWN
    assert "0.5s" in outcome.reason


def the_time_until_a_broker_answers_is_not_that_of_the_call(broker: KafkaBroker) -> None:
    topic, clock = _new_topic(broker, "awaited"), LeapClock()

    async def tried() -> tuple[int, Sequence[Outcome]]:
        async with running(broker.address, clock=clock) as target:
            first = order_for(KafkaSpec(topic=topic), "suite/first-1")
            assert (await target.launch(first)).verdict is Verdict.SUCCEEDED
            broker.signal(signal.SIGSTOP)
            try:
                clock.ahead_s += (
                    1.0  # the broker has not been heard lately, so it is asked before anything is sent
                )
                since_ms = clock.wall_ms()
                sending = asyncio.create_task(target.launch_batch(orders_for(topic, 300)))
                await asyncio.sleep(0)
                clock.ahead_s += 5.0
            finally:
                broker.signal(signal.SIGCONT)
            async with asyncio.timeout(LONG_S):
                return since_ms, await sending

    since_ms, outcomes = asyncio.run(tried())
    assert {outcome.verdict for outcome in outcomes} == {Verdict.SUCCEEDED}
    for outcome in outcomes:
        assert outcome.called_ms is not None
        assert since_ms + 5_000 <= outcome.called_ms <= clock.wall_ms()


def memory_is_bounded_while_a_broker_is_down(broker: KafkaBroker) -> None:
    topic = _new_topic(broker, "endless")

    async def tried() -> list[int]:
        sizes = []
        async with running(broker.address) as target:
            assert (await target.launch(order_for(KafkaSpec(topic=topic)))).verdict is Verdict.SUCCEEDED
            broker.signal(signal.SIGKILL)
            for _ in range(6):
                orders = orders_for(topic, 20_000, timeout_s=0.1, payload=b'"%b"' % (b"x" * 500))
                outcomes = await target.launch_batch(orders)
                assert {outcome.verdict for outcome in outcomes} <= {Verdict.NOT_STARTED, Verdict.UNKNOWN}
                del orders, outcomes
                gc.collect()
                sizes.append(_resident_kb())
        return sizes

    sizes = asyncio.run(tried())
    # One round's events alone are 10 MB.
    assert sizes[-1] - sizes[1] < 10_000, sizes


def _resident_kb() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
