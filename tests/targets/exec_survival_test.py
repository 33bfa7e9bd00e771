"""What dies, and what lives on: Tocsin, the nursery, a keeper."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import signal
from pathlib import Path

import msgspec
import pytest
from tests.targets.exec_support import (
    HELPER_FREEZES,
    KEEPERS_FREEZE,
    SETTINGS,
    Owner,
    children_of,
    fifo,
    frozen_keeper,
    gone,
    line_from,
    opened,
    run,
    shell,
    until,
)

from tocsin.clock import SystemClock
from tocsin.targets.contract import ACCEPTED, TOO_LATE, Order, Verdict
from tocsin.targets.exec.archive import Archive
from tocsin.targets.exec.orders import ExecSettings
from tocsin.targets.exec.processes import pid_of
from tocsin.targets.exec.records import Record
from tocsin.targets.exec.target import ExecTarget
from tocsin.testing.targets import see_through


def _waits_for(gate: Path, after: str = "exit 7") -> Order:
    return shell(f"echo begun; read line < {gate}; echo $line; {after}")


def _record(place: Path, order: Order) -> Record:
    return Archive(place).record(order.name, order.attempt)


def a_command_outlives_a_killed_owner_and_its_end_is_found(tmp_path: Path) -> None:
    async def test() -> None:
        place, gate = tmp_path / "exec", fifo(tmp_path / "gate")
        order = _waits_for(gate)
        owner = Owner(place, order)
        assert owner.verdict() == "ACCEPTED"
        owner.kill()
        async with opened(place) as target:
            found = await target.lookup(order)
            assert found is not None
            assert found.verdict is Verdict.ACCEPTED
            live = await target.output(order.name, 1)
            assert live is not None
            assert not live.complete
            end = asyncio.create_task(target.watch(order))
            await asyncio.to_thread(gate.write_text, "opened\n")
            outcome = await end
            assert (outcome.verdict, outcome.exit_code) == (Verdict.FAILED, 7)
            assert outcome.reason == "exit status 7"
            printed = await target.output(order.name, 1)
            assert printed is not None
            assert (printed.head, printed.complete) == (b"begun\nopened\n", True)

    run(test)


@pytest.mark.parametrize("is_claimed", [False, True])
def what_a_killed_owner_has_ordered_is_not_begun_afterwards(is_claimed: bool, tmp_path: Path) -> None:
    """Its helper, or the keeper behind the claim, was frozen then and goes on when another owner has taken over."""

    async def test() -> None:
        place = tmp_path / "exec"
        async with opened(place):
            pass  # the first one finds no records of earlier times
        now_ms = SystemClock().wall_ms()
        order = msgspec.structs.replace(shell(f"echo done >> {tmp_path}/effect"), generated_at_ms=now_ms)
        owner = Owner(place, order, KEEPERS_FREEZE if is_claimed else HELPER_FREEZES)
        frozen = await (frozen_keeper(_record(place, order)) if is_claimed else owner.frozen_helper())
        owner.kill()
        async with opened(place) as target:
            found = await target.lookup(order)
            if is_claimed:
                assert found == ACCEPTED
                os.kill(frozen, signal.SIGCONT)
                assert await target.watch(order) == TOO_LATE
                assert await target.lookup(order) is None
            else:
                assert found is None
                os.kill(frozen, signal.SIGCONT)
                await until(lambda: gone(frozen))
            assert not (tmp_path / "effect").exists()
            assert (await see_through(target, order)).verdict is Verdict.SUCCEEDED
        assert (tmp_path / "effect").read_text() == "done\n"

    run(test)


def what_ended_while_nobody_was_there_is_found(tmp_path: Path) -> None:
    async def test() -> None:
        place, gate = tmp_path / "exec", fifo(tmp_path / "gate")
        order = _waits_for(gate, after="exit 0")
        owner = Owner(place, order)
        assert owner.verdict() == "ACCEPTED"
        owner.kill()
        await asyncio.to_thread(gate.write_text, "opened\n")
        await until(lambda: _record(place, order).ended() is not None)
        async with opened(place) as target:
            found = await target.lookup(order)
            assert found is not None
            assert found.verdict is Verdict.SUCCEEDED
            assert await target.watch(order) == found

    run(test)


def the_nursery_and_idle_keepers_leave_with_a_killed_owner(tmp_path: Path) -> None:
    async def test() -> None:
        place = tmp_path / "exec"
        order = shell("true")
        owner = Owner(place, order)
        assert owner.verdict() in ("ACCEPTED", "SUCCEEDED")
        [nursery] = children_of(owner._process.pid)
        await until(lambda: _record(place, order).ended() is not None)
        keepers = children_of(nursery)
        owner.kill()
        await until(lambda: gone(nursery) and all(gone(keeper) for keeper in keepers))

    run(test)


def a_killed_nursery_is_replaced_and_its_keepers_are_still_heard(tmp_path: Path) -> None:
    async def test() -> None:
        place, gate = tmp_path / "exec", fifo(tmp_path / "gate")
        async with opened(place) as target:
            first = _waits_for(gate)
            assert (await target.launch(first)).verdict is Verdict.ACCEPTED
            end = asyncio.create_task(target.watch(first))
            os.kill(target._connect().pid, signal.SIGKILL)
            second = shell("exit 0", name="suite/second-1")
            assert (await see_through(target, second)).verdict is Verdict.SUCCEEDED
            await asyncio.to_thread(gate.write_text, "opened\n")
            assert (await end).exit_code == 7

    run(test)


def orders_on_their_way_survive_a_killed_nursery(tmp_path: Path) -> None:
    async def test() -> None:
        effects = tmp_path / "effects"
        async with opened(tmp_path / "exec") as target:
            orders = [
                shell(f'echo "$TOCSIN_LAUNCH" >> {effects}', name=f"suite/many-{number}")
                for number in range(50)
            ]
            os.kill(target._connect().pid, signal.SIGSTOP)
            ends = [asyncio.create_task(see_through(target, order)) for order in orders]
            await until(lambda: len(target._charges) == len(orders))
            os.kill(target._connect().pid, signal.SIGKILL)
            outcomes = await asyncio.gather(*ends)
        assert {outcome.verdict for outcome in outcomes} == {Verdict.SUCCEEDED}
        assert sorted(effects.read_text().split()) == sorted(order.name for order in orders)

    run(test)


def a_nursery_that_does_not_answer_is_not_started_and_cannot_start_later(tmp_path: Path) -> None:
    async def test() -> None:
        place, effects = tmp_path / "exec", tmp_path / "effects"
        order = shell(f"echo done >> {effects}")
        async with opened(place, ExecSettings(hand_over_s=0.2)) as target:
            nursery = target._connect().pid
            os.kill(nursery, signal.SIGSTOP)
            outcome = await target.launch(order)
            assert outcome.verdict is Verdict.NOT_STARTED
            assert await target.lookup(order) is None
            os.kill(nursery, signal.SIGCONT)
            # What came before a command that was carried out was looked at. On a busy machine it may take a few.
            names = (f"suite/later-{number}" for number in itertools.count(1))
            while (
                await see_through(target, shell("true", name=next(names)))
            ).verdict is not Verdict.SUCCEEDED:
                pass
        assert not effects.exists()

    run(test)


def the_exit_status_is_lost_with_a_killed_keeper_but_the_command_is_seen(tmp_path: Path) -> None:
    async def test() -> None:
        place, gate, ready = tmp_path / "exec", fifo(tmp_path / "gate"), fifo(tmp_path / "ready")
        async with opened(place) as target:
            # What it prints once nobody reads it would end it: it prints nothing before it waits.
            order = shell(f"echo $$ > {ready}; read line < {gate}")
            assert (await target.launch(order)).verdict is Verdict.ACCEPTED
            await line_from(ready)
            claim = _record(place, order).claimed_by()
            assert claim is not None
            os.kill(pid_of(claim), signal.SIGKILL)
            await until(lambda: gone(pid_of(claim)))
            found = await target.lookup(order)
            assert found is not None
            assert found.verdict is Verdict.ACCEPTED
            end = asyncio.create_task(target.watch(order))
            await asyncio.to_thread(gate.write_text, "opened\n")
            outcome = await end
            assert outcome.verdict is Verdict.UNKNOWN
            assert "keeper was killed" in outcome.reason
            assert await target.lookup(order) == outcome

    run(test)


def a_command_without_its_keeper_can_be_cancelled(tmp_path: Path) -> None:
    async def test() -> None:
        place, ready = tmp_path / "exec", fifo(tmp_path / "ready")
        async with opened(place) as target:
            order = shell(f"trap '' TERM; echo $$ > {ready}; while :; do sleep 0.1; done")
            assert (await target.launch(order)).verdict is Verdict.ACCEPTED
            command = int(await line_from(ready))
            claim = _record(place, order).claimed_by()
            assert claim is not None
            os.kill(pid_of(claim), signal.SIGKILL)
            await until(lambda: gone(pid_of(claim)))
            await target.cancel(order)
            outcome = await target.watch(order)
            # Nobody saw how it ended: it may have come to its end just before.
            assert (outcome.verdict, "was to be cancelled" in outcome.reason) == (Verdict.UNKNOWN, True)
            assert gone(command)

    run(test)


def a_command_whose_keeper_died_with_the_cancellation_is_ended_by_who_watches_it(tmp_path: Path) -> None:
    """The mark is there, and the keeper is killed before it could signal anybody."""

    async def test() -> None:
        place, ready = tmp_path / "exec", fifo(tmp_path / "ready")
        async with opened(place) as target:
            order = shell(f"echo $$ > {ready}; while :; do sleep 0.1; done")
            assert (await target.launch(order)).verdict is Verdict.ACCEPTED
            command = int(await line_from(ready))
            record = _record(place, order)
            keeper = pid_of(record.claimed_by() or "")
            os.kill(keeper, signal.SIGSTOP)
            await target.cancel(order)
            os.kill(keeper, signal.SIGKILL)
            await until(lambda: gone(keeper))
        async with opened(place) as target:  # as after a restart
            assert (await target.watch(order)).verdict is Verdict.UNKNOWN
            assert gone(command)

    run(test)


def a_time_out_is_enforced_when_the_keeper_is_dead(tmp_path: Path) -> None:
    async def test() -> None:
        place, ready = tmp_path / "exec", fifo(tmp_path / "ready")
        async with opened(place) as target:
            order = shell(f"trap '' TERM; echo $$ > {ready}; while :; do sleep 0.1; done", timeout_s=2.0)
            assert (await target.launch(order)).verdict is Verdict.ACCEPTED
            command = int(await line_from(ready))
            end = asyncio.create_task(target.watch(order))
            keeper = pid_of(_record(place, order).claimed_by() or "")
            os.kill(keeper, signal.SIGKILL)
            assert (await end).verdict is Verdict.UNKNOWN
            assert gone(command)

    run(test)


def what_a_person_asks_for_again_is_not_taken_for_a_forgotten_launch_of_the_same_name(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        place, seen = tmp_path / "exec", tmp_path / "seen"
        async with opened(place) as target:
            first = shell(f"echo one >> {seen}")
            assert (await see_through(target, first)).verdict is Verdict.SUCCEEDED
            again = msgspec.structs.replace(shell(f"echo two >> {seen}; exit 3"), asked_lid=7)
            again = msgspec.structs.replace(again, generated_at_ms=SystemClock().wall_ms())
            found = await target.lookup(again)
            assert found is None or found.verdict is Verdict.UNKNOWN, "the record of the first is not its own"
            outcome = await see_through(target, again)
            assert (outcome.verdict, outcome.exit_code) == (Verdict.FAILED, 3)
            assert (await asyncio.to_thread(seen.read_text)).split() == ["one", "two"]
            found = await target.lookup(again)
            assert found is not None
            assert found.exit_code == 3
            # Given once more, it is the same launch.
            assert (await see_through(target, again)).exit_code == 3
            assert (await asyncio.to_thread(seen.read_text)).split() == ["one", "two"]

    run(test)


def of_two_that_race_for_one_attempt_exactly_one_starts_it(tmp_path: Path) -> None:
    async def test() -> None:
        place, effects = tmp_path / "exec", tmp_path / "effects"
        async with opened(place) as one, opened(place) as other:
            orders = [
                shell(f'echo "$TOCSIN_LAUNCH" >> {effects}', name=f"suite/race-{number}")
                for number in range(50)
            ]
            ends = await asyncio.gather(
                *(see_through(target, order) for order in orders for target in (one, other))
            )
        assert {outcome.verdict for outcome in ends[1::2]} == {Verdict.SUCCEEDED}, (
            "of the one that was started last"
        )
        assert all(outcome.verdict is Verdict.SUCCEEDED or outcome.is_too_late for outcome in ends)
        assert sorted(effects.read_text().split()) == sorted(order.name for order in orders)

    run(test)


def a_time_out_is_enforced_when_tocsin_is_dead(tmp_path: Path) -> None:
    async def test() -> None:
        place, gate = tmp_path / "exec", fifo(tmp_path / "gate")
        order = msgspec.structs.replace(_waits_for(gate), timeout_s=1.0)
        owner = Owner(place, order)
        assert owner.verdict() == "ACCEPTED"
        owner.kill()
        await until(lambda: _record(place, order).ended() is not None)
        async with opened(place) as target:
            found = await target.lookup(order)
            assert found is not None
            assert (found.verdict, found.reason) == (Verdict.FAILED, "timed out after 1s (SIGTERM)")

    run(test)


def where_what_differs_from_a_copy_was_put_back_a_missing_claim_is_doubt(tmp_path: Path) -> None:
    """As ``rsync --delete`` does: what looks the same is left alone, and claims that the copy does not have go."""

    async def test() -> None:
        place, copy = tmp_path / "exec", tmp_path / "copy"
        async with opened(place):
            pass
        order = msgspec.structs.replace(shell("true"), generated_at_ms=ExecTarget(place)._clock.wall_ms() + 1)
        shutil.copytree(place, copy)
        async with opened(place) as target:
            assert (await see_through(target, order)).verdict is Verdict.SUCCEEDED
        _put_back(copy, place)
        async with opened(place) as target:
            found = await target.lookup(order)
            assert found is not None
            assert found.verdict is Verdict.UNKNOWN

    run(test)


def _put_back(copy: Path, place: Path) -> None:
    for path in place.iterdir():
        if not (copy / path.name).exists():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in copy.iterdir():
        there = place / path.name
        is_same = there.exists() and _look(path) == _look(there)
        if not is_same:
            there.unlink(missing_ok=True)
            shutil.copy2(path, there)


def _look(path: Path) -> tuple[int, int]:
    return path.stat().st_size, path.stat().st_mtime_ns


def after_a_reboot_a_missing_claim_is_doubt(tmp_path: Path) -> None:
    async def test() -> None:
        place = tmp_path / "exec"
        order = shell("true")
        async with opened(place) as target:
            first = await target.lookup(order)  # a directory that was just made knows nothing of the past
            assert first is not None
            assert first.verdict is Verdict.UNKNOWN
        now_ms = ExecTarget(place)._clock.wall_ms()
        recent = msgspec.structs.replace(order, generated_at_ms=now_ms)
        async with opened(place) as target:
            assert await target.lookup(recent) is None
            old = await target.lookup(order)
            assert old is not None
            assert old.verdict is Verdict.UNKNOWN
        epoch = json.loads((place / ".epoch").read_text())
        (place / ".epoch").write_text(json.dumps({**epoch, "boot_id": "another boot"}))
        async with opened(place) as target:
            found = await target.lookup(recent)
            assert found is not None
            assert found.verdict is Verdict.UNKNOWN
        async with opened(place) as target:  # a crash before it was concluded does not make it certain
            found = await target.lookup(recent)
            assert found is not None
            assert found.verdict is Verdict.UNKNOWN

    run(test)


def after_a_reboot_with_a_clock_that_is_behind_a_missing_claim_is_doubt(tmp_path: Path) -> None:
    """Also for the second start of that boot."""

    async def test() -> None:
        place = tmp_path / "exec"
        now_ms = ExecTarget(place)._clock.wall_ms()
        ordered_ms = now_ms + 20_000
        order = msgspec.structs.replace(shell("true"), generated_at_ms=ordered_ms)
        for _ in range(2):
            target = ExecTarget(place, SETTINGS)
            await target.start(ordered_ms)
            found = await target.lookup(order)
            await target.stop()
            assert found is not None
            assert found.verdict is Verdict.UNKNOWN
        later = msgspec.structs.replace(order, generated_at_ms=ordered_ms + 1)
        async with opened(place) as target:
            assert await target.lookup(later) is None

    run(test)


def in_a_copy_of_the_records_a_missing_claim_is_doubt(tmp_path: Path) -> None:
    """A copy that is made while commands start holds some files of an earlier moment than others."""

    async def test() -> None:
        place = tmp_path / "exec"
        async with opened(place):
            pass
        order = msgspec.structs.replace(shell("true"), generated_at_ms=ExecTarget(place)._clock.wall_ms())
        async with opened(place) as target:
            assert await target.lookup(order) is None
        shutil.copytree(place, tmp_path / "copy")  # with the times of its files
        shutil.rmtree(place)
        (tmp_path / "copy").rename(place)
        for _ in range(2):  # a crash before it was concluded does not make it certain
            async with opened(place) as target:
                found = await target.lookup(order)
                assert found is not None
                assert found.verdict is Verdict.UNKNOWN

    run(test)


def what_ran_when_the_machine_went_down_is_doubt(tmp_path: Path) -> None:
    async def test() -> None:
        async with opened(tmp_path) as target:
            order = shell("true")
            record = _record(tmp_path, order)
            record.make()
            record.claim(f"another-boot {os.getpid()} 1")
            found = await target.lookup(order)
            assert found is not None
            assert found.verdict is Verdict.UNKNOWN
            assert "restarted" in found.reason

    run(test)


def a_record_that_a_power_cut_left_empty_is_doubt(tmp_path: Path) -> None:
    async def test() -> None:
        async with opened(tmp_path) as target:
            order = shell("true")
            assert (await see_through(target, order)).verdict is Verdict.SUCCEEDED
            record = Path(_record(tmp_path, order).path)
            (record / "ended").write_bytes(b"")
            (record / "claim").unlink()
            (record / "claim").symlink_to("another-boot 1 1")
            found = await target.lookup(order)
            assert found is not None
            assert found.verdict is Verdict.UNKNOWN

    run(test)


def pruning_removes_what_is_over_and_nothing_that_lives(tmp_path: Path) -> None:
    async def test() -> None:
        place, gate = tmp_path / "exec", fifo(tmp_path / "gate")
        async with opened(place) as target:
            over, living = shell("true"), msgspec.structs.replace(_waits_for(gate), name="suite/living-1")
            await see_through(target, over)
            assert (await target.launch(living)).verdict is Verdict.ACCEPTED
            assert await target.prune(3600) == 0
            assert await target.prune(-3600) == 1
            assert not Path(_record(place, over).path).parent.exists()
            found = await target.lookup(over)
            assert found is not None
            assert found.verdict is Verdict.UNKNOWN  # not None: it may well have run
            await target.cancel(living)
            assert (await target.watch(living)).verdict is Verdict.CANCELLED

    run(test)


def a_stop_lets_orders_on_their_way_arrive_and_takes_no_more(tmp_path: Path) -> None:
    async def test() -> None:
        effects = tmp_path / "effects"
        async with opened(tmp_path / "exec") as target:
            orders = [
                shell(f'echo "$TOCSIN_LAUNCH" >> {effects}', name=f"suite/stop-{number}")
                for number in range(100)
            ]
            launches = [asyncio.create_task(target.launch(order)) for order in orders]
            await until(lambda: any(charge.sends for charge in target._charges.values()))
            await target.stop()
            outcomes = await asyncio.gather(*launches)
            assert (await target.launch(shell("true"))).verdict is Verdict.NOT_STARTED
        possible = {Verdict.ACCEPTED, Verdict.SUCCEEDED, Verdict.NOT_STARTED}
        assert {outcome.verdict for outcome in outcomes} <= possible
        ends = zip(orders, outcomes, strict=True)
        begun = [order.name for order, outcome in ends if outcome.verdict is not Verdict.NOT_STARTED]
        assert begun
        await until(lambda: sorted(effects.read_text().split()) == sorted(begun))

    run(test)
