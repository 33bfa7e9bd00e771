"""Which process is it, and does it live? A pid alone is no answer: pids are used again."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # why: importing typing would make every keeper bigger
if TYPE_CHECKING:
    from typing import NoReturn


def boot_id() -> str:
    """Changes with every start of the kernel."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def identity(boot: str, pid: int) -> str | None:
    """What names a living process for ever: ``<boot id> <pid> <start time>``. None when it is gone."""
    stat = _stat(pid)
    return None if stat is None else f"{boot} {pid} {stat[_START_TIME]}"


def began_s(identity_text: str, boot: str) -> float | None:
    """When that process began, by CLOCK_BOOTTIME, in hundredths of a second or so. None: in another boot."""
    parts = identity_text.split(" ")
    if len(parts) != 3 or parts[0] != boot:
        return None
    return int(parts[2]) / os.sysconf("SC_CLK_TCK")


def pid_of(identity_text: str) -> int:
    """The pid in an identity."""
    return int(identity_text.split(" ")[1])


def lives(identity_text: str, boot: str) -> bool:
    """Is that very process still running? One that ended but was not reaped is not."""
    parts = identity_text.split(" ")
    if len(parts) < 3 or parts[0] != boot:
        return False
    stat = _stat(int(parts[1]))
    return stat is not None and stat[_START_TIME] == parts[2] and stat[_STATE] not in "ZX"


def group_members(group: int) -> list[int]:
    """The pids of the living processes of a process group."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and _is_member(int(name), group)]


def _is_member(pid: int, group: int) -> bool:
    """Asked of the kernel first: where /proc hides other users' processes it lists them, and cannot be read."""
    try:
        if os.getpgid(pid) != group:
            return False
    except OSError:
        return False
    stat = _stat(pid)
    return stat is not None and stat[_STATE] not in "ZX"


# Positions in /proc/<pid>/stat, counted after the name, which may itself hold spaces and parentheses.
_STATE, _START_TIME = 0, 19


def _stat(pid: int) -> list[str] | None:
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return (
            None  # gone, or another user's. And nothing else: to run out of descriptors says nothing about it
        )
    try:
        text = os.read(fd, 4096)
    except ProcessLookupError:
        return None
    finally:
        os.close(fd)
    return text[text.rindex(b")") + 2 :].decode("ascii").split(" ")


def exit_now(status: int) -> NoReturn:
    """End this process without running what its parent had planned for its own end."""
    os._exit(status)
