"""The keeper of one command: claims the attempt, starts the command, stays until its end, writes it down.

It owes nothing to Tocsin while it works: the time-out is enforced and the outcome recorded whether or not
anyone is left to listen. It waits in ``poll`` alone. But a disk that hangs holds it up, and what it has seen of the
command is old then: it looks once more before it stops anything.
"""

from __future__ import annotations

import errno
import os
import signal
import time

from tocsin.targets.authority import AUTHORITY_ENDED
from tocsin.targets.exec import cgroup, command, lease
from tocsin.targets.exec.processes import exit_now, identity
from tocsin.targets.exec.records import Record
from tocsin.targets.exec.watch import Watch, ending

TYPE_CHECKING = False  # why: importing typing would make every keeper bigger
if TYPE_CHECKING:
    from typing import Any

    from tocsin.targets.exec.cgroup import Group
    from tocsin.targets.exec.mouth import Mouth


class Keeper:
    """Sees orders through, one at a time."""

    def __init__(self, boot: str) -> None:
        self._boot = boot
        self._groups = 0
        """How many control groups it has made."""
        # SIGUSR1 can be read from this pipe, however early it comes. It says: look whether you are cancelled.
        self._wake, writable = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(writable, False)
        signal.set_wakeup_fd(writable, warn_on_full_buffer=False)

    def keep(self, order: dict[str, Any], payload: int, mouth: Mouth) -> None:
        """See one order through, from its claim to its end."""
        record = Record(order["record"])
        # Opened now: once it has become another user it may not be able to.
        order["lease"] = None if order["until_s"] is None else lease.opened(order["lease_path"])
        try:
            refusal = _claim(record, order, self._boot)
            if refusal is not None:
                mouth.say(refusal)
            elif record.cancel_asked():
                _conclude(
                    record, mouth, {**ending("cancelled", "cancelled before it started"), "is_uncalled": True}
                )
            else:
                how = self._see_through(record, order, payload, mouth)
                if how is None:
                    _withdraw(record, mouth)
                else:
                    _conclude(record, mouth, how)
        finally:
            os.close(payload)
            if order["lease"] is not None:
                os.close(order["lease"])

    def _see_through(
        self, record: Record, order: dict[str, Any], payload: int, mouth: Mouth
    ) -> dict[str, Any] | None:
        """How it ended. None: the order was no longer valid when the command was to start."""
        try:
            readable, writable = os.pipe()
        except OSError as error:
            return ending("not_started", f"no pipe could be made for its output: {error.strerror}")
        os.set_blocking(readable, False)
        own = self._group(order)
        try:
            pid = command.start(order, payload, writable, own)
        except command.NotStartedError as error:
            os.close(readable)
            if own is not None:
                own.remove()
            return None if error.too_late else ending("not_started", str(error), permanent=error.permanent)
        finally:
            os.close(writable)
        _note_command(record, self._boot, pid, time.time_ns() // 1_000_000)
        mouth.say({"event": "started"})
        watch = Watch(record, order, pid, readable, self._wake, mouth, own)
        watch.until_over()
        how = watch.ending()
        if watch.leaves_some:
            _mind(watch)
        elif own is not None:
            own.remove()
        return how

    def _group(self, order: dict[str, Any]) -> Group | None:
        """A command that nothing limits needs none, and starts faster without."""
        if not order["limits"] and order["timeout_s"] is None:
            return None
        self._groups += 1
        return cgroup.made(order["groups"], f"{os.getpid()}-{self._groups}", order["limits"])


def _mind(watch: Watch) -> None:
    """In a process of its own: the keeper itself writes down how the command ended, and sees to other orders."""
    try:
        child = os.fork()
    except OSError:
        return  # there is no room for one more process: then nobody minds them
    if child:
        os.waitpid(child, 0)
        return
    try:
        if os.fork() == 0:  # nobody has to wait for the end of this one
            signal.set_wakeup_fd(-1)
            os.closerange(0, os.sysconf("SC_OPEN_MAX"))
            watch.until_none_is_left()
    finally:
        exit_now(0)


def _claim(record: Record, order: dict[str, Any], boot: str) -> dict[str, Any] | None:
    """Take the attempt, or say why not."""
    try:
        command.check_time(order)
        command.check_wanted(order)
        record.make()
        me = f"{identity(boot, os.getpid()) or ''} {order['asked_lid']}"
        command.check_time(order)  # an empty record is left behind, which says nothing
        taken = not record.claim(me)
    except command.NotStartedError as error:
        return {"event": "refused", "reason": str(error)}
    except OSError as error:
        record.unmake()
        return {
            "event": "refused",
            "reason": f"its record could not be made at {record.path}: {error.strerror}",
        }
    return {"event": "taken"} if taken else None


def _withdraw(record: Record, mouth: Mouth) -> None:
    """The claim came in time, the start did not: give the attempt back to whoever has authority later."""
    try:
        record.withdraw()
    except OSError:
        _conclude(record, mouth, ending("not_started", AUTHORITY_ENDED))
        return
    mouth.say({"event": "refused", "reason": AUTHORITY_ENDED})


def _note_command(record: Record, boot: str, pid: int, began_ms: int) -> None:
    try:
        record.note_command(identity(boot, pid) or "", began_ms)
    except OSError:
        return  # a full disk: only the answer to "does it outlive its keeper?" is lost


def _conclude(record: Record, mouth: Mouth, how: dict[str, Any]) -> None:
    """Write it down, however long that takes: a full disk delays the record but does not lose it."""
    told = {"event": "ended", **how}
    waited = False
    while not _written(record, how):
        if not waited:
            mouth.say(told)
            waited = True
        time.sleep(1)
    if not waited:
        mouth.say(told)
    mouth.finish()


def _written(record: Record, how: dict[str, Any]) -> bool:
    try:
        record.write_ended(how)
    except OSError as error:
        return error.errno in (
            errno.ENOENT,
            errno.ENOTDIR,
        )  # someone removed the record: there is nothing to keep
    return True
