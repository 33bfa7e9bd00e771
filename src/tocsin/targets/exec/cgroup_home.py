"""Where the control groups of commands are made, if this service may make any.

With cgroup v2 a service may make groups below its own if that was delegated to it (``Delegate=yes`` of systemd, or
root). The kernel allows controllers (memory, pids) in the groups of commands only where no process is in the group
above them: that is so in the root group, and where the service itself is in a subgroup of what was delegated to it
(``DelegateSubgroup=``). Elsewhere the groups have no controllers: they still end as a whole, and their CPU time is
known.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from typing import NamedTuple

CONTROLLERS = ("memory", "pids")


class Home(NamedTuple):
    """The directory for the groups of this service's commands; empty: there are none, and why."""

    path: str
    why_none: str = ""
    controllers: tuple[str, ...] = ()


def find(exec_dir: Path, proc: Path = Path("/proc/self")) -> Home:
    """Made if need be. Groups that an earlier process left behind are removed as far as nothing runs in them."""
    try:
        mount, own = _mount(proc), _own(proc)
    except OSError as wrong:
        return Home("", f"{wrong.filename} cannot be read: {wrong.strerror}")
    if mount is None or own is None:
        return Home("", "there is no cgroup v2 here")
    base = mount / own.lstrip("/")
    above = _above(base, is_root=own == "/")
    name = hashlib.blake2b(os.fsencode(exec_dir.absolute()), digest_size=4).hexdigest()
    home = above / f"tocsin-{name}"
    try:
        home.mkdir(exist_ok=True)
    except OSError as wrong:
        return Home("", f"no group can be made in {above}: {wrong.strerror}")
    if not all(os.access(path / "cgroup.procs", os.W_OK) for path in (above, home)):
        return Home("", f"{above} was not delegated to this service")
    for left in home.iterdir():
        if left.is_dir():
            _remove(left)
    return Home(str(home), controllers=_enabled(above, home))


def leave(home: Home) -> None:
    """The service stops: remove the directory, unless a command still runs in it."""
    if home.path:
        _remove(Path(home.path))


def _mount(proc: Path) -> Path | None:
    for line in (proc / "mountinfo").read_text().splitlines():
        before, _, behind = line.partition(" - ")
        if behind.startswith("cgroup2 "):
            return Path(before.split(" ")[4].replace("\\040", " "))
    return None


def _own(proc: Path) -> str | None:
    for line in (proc / "cgroup").read_text().splitlines():
        if line.startswith("0::/") and not line.startswith("0::/.."):
            return line.removeprefix("0::")
    return None


def _above(base: Path, *, is_root: bool) -> Path:
    """The group that those of the commands are made in: beside the service's own if they may be, else below it."""
    if is_root:
        return base
    try:
        is_empty = not (base.parent / "cgroup.procs").read_text().strip()
    except OSError:
        return base
    is_delegated = os.access(base.parent, os.W_OK) and os.access(base.parent / "cgroup.procs", os.W_OK)
    return base.parent if is_empty and is_delegated else base


def _enabled(above: Path, home: Path) -> tuple[str, ...]:
    for group in (above, home):
        for controller in CONTROLLERS:
            with contextlib.suppress(OSError):  # it is not there, or processes are in the group
                (group / "cgroup.subtree_control").write_text(f"+{controller}")
    with contextlib.suppress(OSError):
        enabled = (home / "cgroup.subtree_control").read_text().split()
        return tuple(controller for controller in CONTROLLERS if controller in enabled)
    return ()


def _remove(group: Path) -> None:
    with contextlib.suppress(OSError):
        group.rmdir()
