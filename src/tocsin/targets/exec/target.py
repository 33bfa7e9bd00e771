"""The exec target: orders in, outcomes out. How a command is kept alive is told in the package's prose."""

from __future__ import annotations

import asyncio
import errno
import itertools
import math
import os
import resource
import signal
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import structlog

from tocsin.clock import Clock, SystemClock
from tocsin.model.target import TargetSpec
from tocsin.targets.authority import AUTHORITY_ENDED, has_ended
from tocsin.targets.contract import ACCEPTED, TOO_LATE, Order, Outcome, Output, Verdict
from tocsin.targets.exec import cgroup_home
from tocsin.targets.exec.archive import Archive, Finding, Standing, outcome_of
from tocsin.targets.exec.cgroup_home import Home
from tocsin.targets.exec.charge import Charge
from tocsin.targets.exec.epoch import Epoch
from tocsin.targets.exec.lease_file import Lease
from tocsin.targets.exec.link import Link
from tocsin.targets.exec.orders import ExecSettings, base_env, for_keeper
from tocsin.targets.exec.processes import began_s, identity
from tocsin.targets.exec.reach import send_signal, until_gone
from tocsin.targets.exec.records import VOID, Record
from tocsin.targets.permissions import Permissions

log = structlog.get_logger()

_HAND_OVERS_MAX = 16
"""Orders on their way to a keeper at one time. They are answered together, and then as many are sent in one go of the
event loop, each with a switch to the keepers: with 64 of them, the leader's turn waited for it 0.1 s at each step.
"""
_SENDS_MAX = 3
_LOOK_AGAIN_S = 0.05
_LOOK_LATER_S = 5.0
"""Where too many commands run to wait for each with a descriptor: a keeper tells the end, unless it was killed."""
_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
_AFTER_AUTHORITY_S = 0.02
"""So much later nobody who has to look at the clock is about to."""


class ExecTarget:
    """Launches commands on this machine."""

    kind: ClassVar[str] = "exec"
    looks_up: ClassVar[bool] = True

    def __init__(
        self,
        exec_dir: Path,
        settings: ExecSettings | None = None,
        *,
        clock: Clock | None = None,
        permissions: Permissions | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._archive = Archive(exec_dir.absolute(), self._clock)
        self._epoch = Epoch(exec_dir.absolute())
        self._lease = Lease(exec_dir.absolute() / ".lease")
        self._settings = settings or ExecSettings()
        self._permissions = permissions or Permissions()
        self._charges: dict[str, Charge] = {}
        """By the path of the record."""
        self._numbers = itertools.count()
        self._slots = asyncio.Semaphore(_HAND_OVERS_MAX)
        self._link: Link | None = None
        self._stopped = False
        self._waiters = 0
        self._waiters_max = 0
        self._enders: set[asyncio.Task[None]] = set()
        self._ending: set[str] = set()
        """Commands without a keeper that were told to stop."""
        self._groups = Home("")
        self._base_env = base_env()
        self._me = identity(self._archive.boot, os.getpid())

    def idempotent(self, spec: TargetSpec) -> bool:
        return False

    async def start(self, last_entry_ms: int = 0) -> None:
        self._waiters_max = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 8
        await asyncio.to_thread(self._open_directory, last_entry_ms)

    async def stop(self) -> None:
        self._stopped = True
        for task in self._enders:
            task.cancel()
        on_their_way = [charge.handed for charge in self._charges.values() if charge.sends]
        if on_their_way:
            await asyncio.wait(on_their_way, timeout=self._settings.hand_over_s)
        if self._link is not None:
            await self._link.close()
        await asyncio.to_thread(self._epoch.sign)
        self._lease.end()
        await asyncio.to_thread(cgroup_home.leave, self._groups)

    async def launch(self, order: Order) -> Outcome:
        record = self._archive.record(order.name, order.attempt)
        refusal = self._permissions.refusal(order.target)
        if refusal:  # it may have been launched before that was so
            return await self._found(record) or Outcome(Verdict.NOT_STARTED, refusal, permanent=True)
        if record.path in self._charges:
            found = await self._found(record)
            if found is not None:
                return self._with_start(record, found)
        charge = self._charges[record.path] = Charge(f"{record.path}#{next(self._numbers)}")
        try:
            if self._archive.is_of_former(record, order.asked_lid) and self._recorded(record) == ACCEPTED:
                reason = "a command of an earlier launch of this name still runs"
                return Outcome(Verdict.NOT_STARTED, reason)
            if record.is_taken_back() or self._archive.is_of_former(record, order.asked_lid):
                self._archive.set_aside(record)  # it is given anew; before anybody can cancel this order
            async with self._slots:
                outcome = await self._hand_over(record, order, charge)
        except OSError as error:
            outcome = self._not_handed_over(record, charge, str(error))
        except asyncio.CancelledError:
            self._not_handed_over(record, charge, "nobody waits for it any more")
            self._drop(record, charge)
            raise
        finally:
            charge.handed.cancel()  # if nobody answered: others may wait for it too
        if charge.ended.done():
            return self._with_start(record, charge.ended.result())
        if outcome.verdict is not Verdict.ACCEPTED:
            self._drop(record, charge)
        return self._with_start(record, outcome)

    async def watch(self, order: Order) -> Outcome:
        record = self._archive.record(order.name, order.attempt)
        charge = self._charges.get(record.path) or Charge()
        while not charge.ended.done():
            try:
                finding = self._archive.look(record)
            except OSError:  # no descriptor to look with: what was not seen is no answer, so look again
                await asyncio.wait([charge.ended], timeout=_LOOK_AGAIN_S)
                continue
            if finding.standing is Standing.NO_CLAIM:
                return TOO_LATE if record.withdrawn() else Outcome(Verdict.UNKNOWN, "its record is gone")
            if finding.outcome is not None:
                self._drop(record, charge)
                return self._with_start(record, finding.outcome)
            left_s = self._left_s(order, finding.command)
            if (
                finding.keeper is None
                and finding.command is not None
                and (record.cancel_asked() or left_s == 0)
            ):
                self._end_unkept(finding.command)
            await self._until_news(finding, charge.ended, left_s or _LOOK_LATER_S)
        return self._with_start(record, charge.ended.result())

    async def lookup(self, order: Order) -> Outcome | None:
        record = self._archive.record(order.name, order.attempt)
        found = await self._found(record)
        if record.is_taken_back():
            return None
        if found is not None and not self._archive.is_of_former(record, order.asked_lid):
            return self._with_start(record, found)
        if self._epoch.is_whole_for(order.generated_at_ms):
            return None
        return Outcome(
            Verdict.UNKNOWN, "no record of it, but records of that time may have been lost or removed"
        )

    async def cancel(self, order: Order) -> None:
        record = self._archive.record(order.name, order.attempt)
        while True:
            try:
                self._cancel(record)
                return
            except OSError as error:
                if error.errno not in _NO_DESCRIPTOR:  # with which to look, or to signal
                    raise
                await asyncio.sleep(_LOOK_AGAIN_S)

    def _cancel(self, record: Record) -> None:
        charge = self._charges.get(record.path)
        on_its_way = charge is not None and not charge.handed.done()
        if self._archive.look(record).standing is not Standing.RUNNING and not on_its_way:
            return
        marked = _mark_cancelled(record)
        finding = self._archive.look(record)  # again: it may have been claimed just before the mark was there
        if finding.standing is not Standing.RUNNING:
            return
        if finding.keeper is not None and marked:
            send_signal(finding.keeper, self._archive.boot, signal.SIGUSR1)
        elif finding.command is not None:
            self._end_unkept(finding.command)

    async def output(self, name: str, attempt: int) -> Output | None:
        return self._archive.output(self._archive.record(name, attempt))

    async def prune(self, older_than_s: float) -> int:
        """Remove the records of what is over for that long; how many went. An order from before that time
        that left no record is doubt from then on, so conclude the open launches first."""
        return await asyncio.to_thread(self._prune, self._clock.wall_ms() - int(older_than_s * 1000))

    def _prune(self, until_ms: int) -> int:
        self._epoch.forget_until(until_ms)
        records = self._archive.over_before(until_ms / 1000)
        for record in records:
            self._archive.remove(record)
        return len(records)

    def _open_directory(self, last_entry_ms: int) -> None:
        self._archive.exec_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._epoch.begin(max(self._clock.wall_ms(), last_entry_ms + 1))
        self._lease.begin()
        if self._settings.may_group:
            self._groups = cgroup_home.find(self._archive.exec_dir)
            if self._groups.why_none:
                log.info("commands have no control groups", why=self._groups.why_none)

    def _connect(self) -> Link:
        if self._link is None or self._link.dead:
            self._link = Link(self._archive.exec_dir / ".nursery.log", self._hear, self._send_again)
        return self._link

    async def _hand_over(self, record: Record, order: Order, charge: Charge) -> Outcome:
        patience_s, now_s = self._settings.hand_over_s, self._clock.elapsed_s()
        if has_ended(self._end_s(order), now_s):
            return self._recorded(record) or TOO_LATE
        void_after_s = now_s + patience_s
        charge.text = for_keeper(
            order,
            self._settings,
            record=record.path,
            orderer=self._me,
            base_env=self._base_env,
            void_after_s=void_after_s,
            lease_path=self._lease.path,
            groups=self._groups.path,
        )
        # A command without a payload finds its input empty, as under cron: `read` and `ssh` would take "null" for some.
        charge.payload = b"" if order.payload == b"null" else order.payload
        try:
            self._send(record, charge)
        except OSError as error:
            return self._not_handed_over(record, charge, str(error))
        while not charge.handed.done():
            now_s, end_s = self._clock.elapsed_s(), self._end_s(order)
            if has_ended(end_s, now_s - _AFTER_AUTHORITY_S):
                return self._too_late(record, charge)
            if now_s > void_after_s:
                return self._not_handed_over(record, charge, f"no keeper answered within {patience_s:g}s")
            # Authority may be renewed meanwhile: then it is waited on.
            until_s = void_after_s if end_s is None else min(void_after_s, end_s)
            await asyncio.wait([charge.handed], timeout=until_s - now_s + _AFTER_AUTHORITY_S)
        return charge.handed.result()

    def _end_s(self, order: Order) -> float | None:
        """When authority ends, or the deadline passes."""
        until_s = order.until_s
        if until_s is not None:
            until_s = max(until_s, self._lease.until_s(order.term))
        return min([end_s for end_s in (until_s, order.deadline_s) if end_s is not None], default=None)

    def in_office(self, term: int, until_s: float) -> None:
        if any(not charge.handed.done() for charge in self._charges.values()):
            self._lease.renew(term, until_s)

    def _send(self, record: Record, charge: Charge) -> None:
        """Give it to the nursery, or to a new one if there is none: where no command is launched, none is needed."""
        while charge.sends < _SENDS_MAX and not self._stopped:
            try:
                self._connect().send(charge.key, charge.text, charge.payload)
            except ConnectionError:
                continue
            charge.sends += 1
            return
        raise OSError("this service is stopping" if self._stopped else "the nursery dies again and again")

    def _send_again(self) -> None:
        """The nursery died. It may have forked a keeper for an order that is not answered yet, but only one
        gets the claim: so every such order is simply sent once more."""
        for path, charge in list(self._charges.items()):
            if charge.sends and not charge.handed.done():
                try:
                    self._send(Record(path), charge)
                except OSError as error:
                    charge.handed.set_result(self._not_handed_over(Record(path), charge, str(error)))

    def _not_handed_over(self, record: Record, charge: Charge, why: str) -> Outcome:
        """Turn "probably not started" into certainty: with the claim in our hands no keeper can start it."""
        if not charge.sends:
            return Outcome(Verdict.NOT_STARTED, f"the order could not be handed over: {why}")
        try:
            record.make()
            if record.claim(VOID):
                return Outcome(Verdict.NOT_STARTED, f"the order could not be handed over: {why}")
        except OSError as error:
            return Outcome(
                Verdict.UNKNOWN, f"the order may have been handed over ({why}), its record says: {error}"
            )
        return self._archive.look(record).outcome or ACCEPTED

    def _too_late(self, record: Record, charge: Charge) -> Outcome:
        """Authority may be renewed after all, and a keeper that comes late would find the order valid then. So it is
        made void. Whoever had the claim before was in time, or is about to withdraw."""
        try:
            found = self._recorded(record)
            if found is not None or not charge.sends:
                return found or TOO_LATE
            record.make()
            return TOO_LATE if record.claim(VOID) else self._recorded(record) or TOO_LATE
        except OSError as error:
            return Outcome(Verdict.UNKNOWN, f"the order may have been handed over, its record says: {error}")

    def _recorded(self, record: Record) -> Outcome | None:
        """None: nobody has it."""
        finding = self._archive.look(record)
        return ACCEPTED if finding.standing is Standing.RUNNING else finding.outcome

    def _hear(self, message: dict[str, Any]) -> None:
        """A keeper speaks. What it says of an order that nobody waits for stands in the record too; and of one that was
        given up, that is no end of the one that was given anew."""
        path = message["key"].rpartition("#")[0]
        charge = self._charges.get(path)
        if charge is None or message["key"] != charge.key:
            return
        match message["event"]:
            case "started":
                answer = msgspec.structs.replace(ACCEPTED, called_ms=self._clock.wall_ms())
            case "taken":
                answer = self._archive.look(Record(path)).outcome or ACCEPTED
                del self._charges[path]
            case "refused":
                answer = self._refused(Record(path), charge, message["reason"])
            case _:
                answer = outcome_of(message, self._clock)
                charge.ended.set_result(answer)
                del self._charges[path]
        if not charge.handed.done():
            charge.handed.set_result(answer)
            charge.text = charge.payload = b""

    def _refused(self, record: Record, charge: Charge, why: str) -> Outcome:
        found = self._recorded(record)
        if found is None and charge.sends > 1 and why != AUTHORITY_ENDED:
            # Another keeper may still read what was sent to a nursery that died.
            return self._not_handed_over(record, charge, why)
        return found or Outcome(Verdict.NOT_STARTED, why)

    async def _found(self, record: Record) -> Outcome | None:
        """What the record says, once no hand-over of our own is on its way."""
        charge = self._charges.get(record.path)
        if charge is not None:
            await asyncio.wait([charge.handed])
        return self._recorded(record)

    def _left_s(self, order: Order, command: str | None) -> float:
        """How long until its time is up; without end if there is no time-out."""
        began = None if command is None or order.timeout_s is None else began_s(command, self._archive.boot)
        if began is None or order.timeout_s is None:
            return math.inf
        return max(0.0, began + order.timeout_s - self._clock.elapsed_s())

    async def _until_news(self, finding: Finding, told: asyncio.Future[Outcome], most_s: float) -> None:
        """Until the command has ended or its end was told, or for so long: its keeper stops it when its time is up,
        unless it was killed. The end of its keeper says nothing: it may see to other orders. So the short while in
        which it writes the record is not announced by anything."""
        if finding.command is None:
            await asyncio.wait([told], timeout=_LOOK_AGAIN_S)
            return
        if (
            self._waiters >= self._waiters_max
        ):  # the other descriptors are for whoever has to write and answer
            await asyncio.wait([told], timeout=min(_LOOK_LATER_S, most_s))
            return
        self._waiters += 1
        try:
            async with asyncio.timeout(None if math.isinf(most_s) else most_s):
                await until_gone(finding.command, self._archive.boot, told)
        except TimeoutError:
            return
        except OSError:  # no descriptor to wait with
            await asyncio.wait([told], timeout=_LOOK_AGAIN_S)
        finally:
            self._waiters -= 1

    def _with_start(self, record: Record, outcome: Outcome) -> Outcome:
        """With the moment at which its command began, as the record knows it; or else when its keeper said so."""
        if outcome.is_too_late:
            return outcome
        called_ms = self._archive.started_ms(record)
        return outcome if called_ms is None else msgspec.structs.replace(outcome, called_ms=called_ms)

    def _drop(self, record: Record, charge: Charge) -> None:
        if self._charges.get(record.path) is charge:
            del self._charges[record.path]

    def _end_unkept(self, process: str) -> None:
        if process not in self._ending:
            self._ending.add(process)
            task = asyncio.create_task(self._end_command(process))
            self._enders.add(task)
            task.add_done_callback(self._enders.discard)

    async def _end_command(self, process: str) -> None:
        """Do what its keeper cannot do, because it is dead or because there is no room to tell it."""
        send_signal(process, self._archive.boot, signal.SIGTERM, group=True)
        try:
            async with asyncio.timeout(self._settings.grace_s):
                await until_gone(process, self._archive.boot, asyncio.get_running_loop().create_future())
        except TimeoutError:
            send_signal(process, self._archive.boot, signal.SIGKILL, group=True)


def _mark_cancelled(record: Record) -> bool:
    try:
        record.make()
        record.ask_cancel()
    except OSError as error:
        if error.errno in _NO_DESCRIPTOR:
            raise
        return False  # a full disk
    return True
