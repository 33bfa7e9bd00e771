"""The control group (cgroup v2) of one command: limits for its whole tree, and an end that reaches all of it.

A process leaves its session with ``setsid`` and its process group with ``setpgid``. Its control group it leaves only by
the hand of somebody who may write there: root, as ``systemd-run --scope`` does.
"""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False  # why: importing typing would make every keeper bigger
if TYPE_CHECKING:
    from typing import Any


class Group:
    """A directory of the cgroup file system. Limits that its controllers do not enforce are left to whoever watches."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.has_memory = self.has_processes = False
        """The kernel enforces this limit."""

    def limit(self, limits: dict[str, Any]) -> None:
        """As far as the controllers are there."""
        if limits.get("memory_bytes"):
            self.has_memory = self._write("memory.max", str(limits["memory_bytes"]))
            if self.has_memory:
                self._write("memory.swap.max", "0")
                self._write("memory.oom.group", "1")
        if limits.get("processes"):
            self.has_processes = self._write("pids.max", str(limits["processes"]))

    def enter(self) -> None:
        """This process, and all that it starts from now on. Raises ``OSError``."""
        _write(f"{self.path}/cgroup.procs", "0")

    def pids(self) -> list[int]:
        return [int(line) for line in self._read("cgroup.procs").split()]

    def signal(self, number: signal.Signals) -> None:
        """To each of its processes. A pid may go to another process meanwhile: so the group is asked again when the
        process is held."""
        if number == signal.SIGKILL and self._write("cgroup.kill", "1"):
            return
        held = {}
        for pid in self.pids():
            try:
                held[pid] = os.pidfd_open(pid)
            except OSError:
                continue
        members = set(self.pids())
        for pid, pidfd in held.items():
            try:
                if pid in members:
                    signal.pidfd_send_signal(pidfd, number)
            except OSError:
                continue
            finally:
                os.close(pidfd)

    def cpu_s(self) -> float:
        """The CPU time of all of its processes, including those that have ended."""
        for line in self._read("cpu.stat").splitlines():
            name, _, value = line.partition(" ")
            if name == "usage_usec":
                return int(value) / 1_000_000
        return 0.0

    def is_out_of_memory(self) -> bool:
        """The kernel has ended something in it because of its limit."""
        lines = self._read("memory.events").splitlines()
        return any(line.startswith("oom_kill ") and line != "oom_kill 0" for line in lines)

    def remove(self) -> None:
        """Unless the command has left a process behind, which goes on."""
        try:
            os.rmdir(self.path)
        except OSError:
            return

    def _write(self, name: str, text: str) -> bool:
        try:
            _write(f"{self.path}/{name}", text)
        except OSError:
            return False
        return True

    def _read(self, name: str) -> str:
        try:
            fd = os.open(f"{self.path}/{name}", os.O_RDONLY)
        except OSError:
            return ""
        try:
            parts = []
            while part := os.read(fd, 65536):
                parts.append(part)
            return b"".join(parts).decode("ascii", "replace")
        except OSError:
            return ""
        finally:
            os.close(fd)


def made(home: str, name: str, limits: dict[str, Any]) -> Group | None:
    """A new group. None: there are none here, and limits hold for each process on its own."""
    if not home:
        return None
    path = f"{home}/{name}"
    try:
        os.mkdir(path)
    except OSError:
        return None
    group = Group(path)
    group.limit(limits)
    return group


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
