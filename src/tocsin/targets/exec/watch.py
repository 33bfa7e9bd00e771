"""A running command, from its start to its end: its output, its time-out, its cancellation."""

from __future__ import annotations

import os
import select
import signal
import time

from tocsin.targets.exec.capture import Capture, read_available
from tocsin.targets.exec.processes import group_members
from tocsin.targets.exec.records import Record

TYPE_CHECKING = False  # why: importing typing would make every keeper bigger
if TYPE_CHECKING:
    from typing import Any

    from tocsin.targets.exec.cgroup import Group
    from tocsin.targets.exec.mouth import Mouth

_FLUSH_S = 1.0
_DRAIN_S = 0.2
"""How long to wait for the end of the output once the command itself has ended."""
_COUNT_S = 1.0
_REASON_MAX = 2000
"""A reason may hold a command's name, which may be long, and is to fit into one message."""
_LOOK_S = 5.0
"""``poll`` does not count while the machine is suspended, deadlines do: look at the clock now and then."""


def ending(
    verdict: str, reason: str, *, exit_code: int | None = None, permanent: bool = False
) -> dict[str, Any]:
    """How an attempt ended, as it stands in the record. The wall clock may be wrong at this moment, and a keeper cannot
    know: ``ended_boot_ms`` is by the clock that never steps."""
    return {
        "verdict": verdict,
        "reason": reason[:_REASON_MAX],
        "exit_code": exit_code,
        "permanent": permanent,
        **_moment(),
    }


def _moment() -> dict[str, int]:
    return {"ended_ms": time.time_ns() // 1_000_000, "ended_boot_ms": int(_now() * 1000)}


class Watch:
    """A running command, from start to end."""

    def __init__(
        self,
        record: Record,
        order: dict[str, Any],
        pid: int,
        output: int,
        wake: int,
        mouth: Mouth,
        group: Group | None,
    ) -> None:
        self._record = record
        self._mouth = mouth
        self._pid = pid
        self._group = group
        self._limits: dict[str, int] = order["limits"]
        self._is_counted = bool(
            (group is not None and self._limits.get("cpu_s"))
            or (self._limits.get("processes") and (group is None or not group.has_processes))
        )
        """The kernel does not enforce all of its limits for the whole tree: they are looked at again and again."""
        self._count_at = 0.0
        self._timeout_s: float | None = order["timeout_s"]
        self._grace_s: float = order["grace_s"]
        self._deadline = None if self._timeout_s is None else _now() + self._timeout_s
        self._why_stopped = ""
        self._last_signal = ""
        self._kill_at: float | None = None
        self._killed = False
        self._exited = False
        self._exited_at: dict[str, int] = {}
        self._is_reaped = False
        self._output: int | None = output
        self._capture = Capture(record, order["head_max"], order["tail_max"])
        self._flush_at = 0.0
        self._poll = select.poll()
        self._poll.register(output, select.POLLIN)
        self._pidfd = os.pidfd_open(pid)
        self._poll.register(self._pidfd, select.POLLIN)
        self._wake = wake
        self._poll.register(self._wake, select.POLLIN)

    def until_over(self) -> None:
        while not self._over():
            ready = [fd for fd, _ in self._poll.poll(self._patience_s() * 1000)]
            if self._pidfd in ready:  # first: the output goes to a disk that may hang
                self._note_exit()
            if self._output in ready:
                self._read()
            if self._wake in ready:
                self._hear_cancel()
            self._mind_the_clock()
            self._mouth.retry()
        self._drain()
        self._capture.flush()
        for fd in (self._pidfd, self._output):
            if fd is not None:
                os.close(fd)

    def ending(self) -> dict[str, Any]:
        """How it ended, and when: what it had to be stopped for has ended when all of it has."""
        how = self._how()
        return how if self._why_stopped else {**how, **self._exited_at}

    def _how(self) -> dict[str, Any]:
        """Until here the dead command kept its pid, so that no signal could hit a stranger."""
        code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        self._is_reaped = True
        exit_code = code if code >= 0 else 128 - code
        if self._why_stopped == "cancelled":
            return ending("cancelled", f"cancelled ({self._last_signal})", exit_code=exit_code)
        if self._why_stopped:
            return ending("failed", f"{self._why_stopped} ({self._last_signal})", exit_code=exit_code)
        if code == 0:
            return ending("succeeded", "", exit_code=0)
        if self._group is not None and self._group.is_out_of_memory():
            memory_mb = self._limits.get("memory_bytes", 0) >> 20
            return ending("failed", f"it used more than its {memory_mb} MB of memory", exit_code=exit_code)
        reason = f"exit status {code}" if code > 0 else f"killed by {_signal_name(-code)}"
        return ending("failed", reason, exit_code=exit_code)

    @property
    def leaves_some(self) -> bool:
        """Has the command left processes behind that have a time-out or limits, and that nobody else enforces?"""
        is_bound = self._deadline is not None or self._is_counted or bool(self._why_stopped)
        return is_bound and self._group is not None and bool(self._group.pids())

    def until_none_is_left(self) -> None:
        """Processes that the command has left behind in its control group keep its limits and its time-out."""
        assert self._group is not None
        while self._group.pids():
            now = _now()
            if not self._why_stopped and ((self._deadline and now >= self._deadline) or self._excess()):
                self._stop("left behind")
            if self._kill_at is not None and now >= self._kill_at:
                self._signal(signal.SIGKILL)
            time.sleep(_COUNT_S)
        self._group.remove()

    def _over(self) -> bool:
        """Ended, and if it had to be stopped, all of its process group with it."""
        if not self._exited:
            return False
        return not self._why_stopped or self._killed or not self._members()

    def _members(self) -> list[int]:
        """The processes of its control group, if it has one, and of its process group. The command itself is not among
        them when it has ended."""
        # Once it is reaped its number may be that of another process group.
        found = set() if self._is_reaped else set(group_members(self._pid))
        if self._group is not None:
            found.update(self._group.pids())
        return [pid for pid in found if pid != self._pid or not self._exited]

    def _patience_s(self) -> float:
        now = _now()
        until = [now + _LOOK_S] if self._deadline or self._kill_at else []
        until += [moment for moment in (self._deadline, self._kill_at) if moment is not None]
        if self._capture.flush_needed:
            until.append(self._flush_at)
        if self._exited:  # only the rest of its group is awaited, and nothing announces that
            until.append(now + 0.05)
        if self._is_counted:
            until.append(max(now, self._count_at))
        if self._mouth.has_more:
            until.append(now + 1)
        return max(0.0, min(until, default=now + 3600) - now) + 0.001

    def _read(self) -> None:
        if self._output is not None and not read_available(self._output, self._capture):
            self._poll.unregister(self._output)
            os.close(self._output)
            self._output = None

    def _note_exit(self) -> None:
        if not self._exited:
            self._exited = True
            self._exited_at = _moment()
            self._poll.unregister(self._pidfd)

    def _has_exited(self) -> bool:
        """Asked once more: the disk may have hung since the last look, for longer than the command had left."""
        if not self._exited and os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT | os.WNOHANG):
            self._note_exit()
        return self._exited

    def _hear_cancel(self) -> None:
        os.read(self._wake, 4096)
        # The signal may have been meant for an order that this keeper saw through before.
        if not self._why_stopped and self._record.cancel_asked() and not self._has_exited():
            self._stop("cancelled")

    def _mind_the_clock(self) -> None:
        now = _now()
        if self._deadline is not None and now >= self._deadline and not self._has_exited():
            self._deadline = None
            if not self._why_stopped:
                self._stop(f"timed out after {self._timeout_s:g}s")
        if self._kill_at is not None and now >= self._kill_at:
            self._kill_at = None
            self._killed = True
            self._signal(signal.SIGKILL)
        if self._is_counted and now >= self._count_at and not self._exited:
            self._count_at = now + _COUNT_S
            if not self._why_stopped and (why := self._excess()) and not self._has_exited():
                self._stop(why, grace_s=0.0)  # what exceeds a limit is not given time to exceed it further
        if self._capture.flush_needed and now >= self._flush_at:
            self._capture.flush()
            self._flush_at = now + _FLUSH_S

    def _excess(self) -> str:
        """The limit that the tree has exceeded, of those that the kernel does not enforce; empty: none."""
        cpu_s, processes = self._limits.get("cpu_s"), self._limits.get("processes")
        # A single process that exceeds it alone gets SIGXCPU from the kernel, which is to come first.
        if cpu_s and self._group is not None and self._group.cpu_s() > cpu_s + _COUNT_S:
            return f"it used more than its {cpu_s} s of CPU"
        is_kept = self._group is not None and self._group.has_processes
        if processes and not is_kept and len(self._members()) > processes:
            return f"it had more than its {processes} processes"
        return ""

    def _stop(self, why: str, grace_s: float | None = None) -> None:
        self._why_stopped = why
        self._deadline = None
        self._kill_at = _now() + (self._grace_s if grace_s is None else grace_s)
        self._signal(signal.SIGTERM)

    def _signal(self, number: signal.Signals) -> None:
        self._last_signal = number.name
        if self._group is not None:
            is_inside = self._pid in self._group.pids()
            self._group.signal(number)
            if is_inside or self._exited:
                return  # else it has left its group, as root can: systemd-run does
        try:
            os.killpg(self._pid, number)
        except ProcessLookupError:
            return
        except (
            PermissionError
        ):  # it has become another user, as sudo does: it is waited for, and its end is recorded
            self._last_signal = f"{number.name} is not permitted"

    def _drain(self) -> None:
        """What the command printed is in the pipe by now; a child left behind may hold that open for ever."""
        end = _now() + _DRAIN_S
        while self._output is not None:
            self._read()
            left_s = end - _now()
            if left_s <= 0 or (self._output is not None and not self._wait_for_output(left_s)):
                return

    def _wait_for_output(self, left_s: float) -> bool:
        return any(fd == self._output for fd, _ in self._poll.poll(left_s * 1000))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
