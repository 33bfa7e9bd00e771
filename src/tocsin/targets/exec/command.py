"""Starting a command, or saying exactly why it could not be started.

The plain way is ``posix_spawn``, which copies nothing. A command with limits, a control group or another user needs
steps between fork and exec that ``posix_spawn`` does not know, and takes the slower way.
"""

from __future__ import annotations

import errno
import os
import pwd
import resource
import signal
import time

from tocsin.targets.authority import AUTHORITY_ENDED, has_ended
from tocsin.targets.exec import lease
from tocsin.targets.exec.processes import exit_now, lives

TYPE_CHECKING = False  # why: importing typing would make every keeper bigger
if TYPE_CHECKING:
    from typing import Any

    from tocsin.targets.exec.cgroup import Group

# What Python and the nursery have changed. Numbers, because every touched enum member is a page to copy.
_CHANGED = tuple(
    int(number)
    for number in (
        signal.SIGPIPE,
        signal.SIGXFSZ,
        signal.SIGTERM,
        signal.SIGINT,
        signal.SIGHUP,
        signal.SIGUSR1,
    )
)

_ABOUT_TO = b"+"
"""The copy of the keeper writes this right before it turns into the command."""

# Trying again cannot help: the command itself, or who may run it, would have to change.
_PERMANENT = frozenset(
    {errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.ENOTDIR, errno.E2BIG, errno.ELOOP}
)


class NotStartedError(Exception):
    """Certain: the command did not run. ``str()`` says why."""

    def __init__(self, reason: str, *, permanent: bool, too_late: bool = False) -> None:
        super().__init__(reason)
        self.permanent = permanent
        self.too_late = too_late
        """The order was no longer valid: the attempt is free for another one."""


def check_time(order: dict[str, Any]) -> None:
    """The last look at the clock before something happens that cannot be taken back."""
    now_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    is_over = has_ended(order["until_s"], now_s) and has_ended(
        lease.read(order["lease"], order["term"]) or 0.0, now_s
    )
    if is_over or has_ended(order["deadline_s"], now_s):
        raise NotStartedError(AUTHORITY_ENDED, permanent=False, too_late=True)
    if now_s > order["void_after_s"]:
        raise NotStartedError("the order reached its keeper too late", permanent=False, too_late=True)


def check_wanted(order: dict[str, Any]) -> None:
    """Raise if the Tocsin that gave this order is gone: meanwhile another one may have it cancelled, or given anew."""
    orderer = order["orderer"]
    try:
        is_there = lives(orderer, orderer.partition(" ")[0])
    except OSError as error:
        raise NotStartedError(
            f"whether Tocsin still wants it cannot be seen: {error.strerror}", permanent=False
        ) from error
    if not is_there:
        raise NotStartedError("Tocsin ended before the call", permanent=False, too_late=True)


def start(order: dict[str, Any], stdin: int, output: int, group: Group | None) -> int:
    """Start the order's command in a session of its own, and in that control group; its pid."""
    user = _user(order["user"])
    check_wanted(order)
    env = {**order["base_env"], **_env_of(user), **order["env"]}
    if user is None and not order["limits"] and group is None:
        return _spawn(order, env, stdin, output)
    return _fork(order, env, user, stdin, output, group)


def _user(name: str | None) -> pwd.struct_passwd | None:
    if name is None:
        return None
    try:
        user = pwd.getpwnam(name)
    except KeyError:
        raise NotStartedError(f"there is no user {name!r} on this machine", permanent=True) from None
    if os.geteuid() == user.pw_uid:
        return None
    if os.geteuid() != 0:
        raise NotStartedError(
            f"only root can run a command as {name!r}; this service runs as {_own_name()!r}", permanent=True
        )
    return user


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a container may run under a number that has no name
        return str(os.geteuid())


def _env_of(user: pwd.struct_passwd | None) -> dict[str, str]:
    return {} if user is None else {"HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name}


def _spawn(order: dict[str, Any], env: dict[str, str], stdin: int, output: int) -> int:
    _enter(order["cwd"])
    argv = order["argv"]
    try:
        path = _find(argv[0], env)
        check_time(order)
        return os.posix_spawn(
            path,
            argv,
            env,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, stdin, 0),
                *((os.POSIX_SPAWN_DUP2, output, fd) for fd in (1, 2)),
            ],
            setsid=True,
            setsigmask=[],
            setsigdef=_CHANGED,
        )
    except OSError as error:
        raise _cannot_run(argv[0], error, env) from error


def _fork(
    order: dict[str, Any],
    env: dict[str, str],
    user: pwd.struct_passwd | None,
    stdin: int,
    output: int,
    group: Group | None,
) -> int:
    try:
        complaint, complain = os.pipe()  # both close on exec: the end of the file means that the command runs
    except OSError as error:
        raise NotStartedError(f"no pipe could be made: {error.strerror}", permanent=False) from error
    try:
        pid = os.fork()
    except OSError as error:
        os.close(complaint)
        os.close(complain)
        raise NotStartedError(f"no process could be made: {error.strerror}", permanent=False) from error
    if pid == 0:
        try:
            _become(order, env, user, stdin, output, group, complain)
        except NotStartedError as error:
            os.write(complain, b"%d%d%b" % (error.permanent, error.too_late, str(error).encode()[:4000]))
        finally:  # this copy of the keeper must never go on as a keeper
            exit_now(127)
    os.close(complain)
    said = b""
    while part := os.read(complaint, 8192):
        said += part
    os.close(complaint)
    text = said.removeprefix(_ABOUT_TO)
    if not said:  # it was killed, perhaps for its memory
        os.waitpid(pid, 0)
        raise NotStartedError("what was to become the command ended before it did", permanent=False)
    if text:
        os.waitpid(pid, 0)
        permanent, too_late = (flag == b"1" for flag in (text[:1], text[1:2]))
        raise NotStartedError(text[2:].decode(errors="replace"), permanent=permanent, too_late=too_late)
    return pid


def _become(
    order: dict[str, Any],
    env: dict[str, str],
    user: pwd.struct_passwd | None,
    stdin: int,
    output: int,
    group: Group | None,
    complain: int,
) -> None:
    """In the new process: turn into the command. Raises NotStartedError or does not return."""
    os.setsid()
    for number in _CHANGED:
        signal.signal(number, signal.SIG_DFL)
    for source, fd in ((stdin, 0), (output, 1), (output, 2)):
        os.dup2(source, fd)
    if group is not None:
        try:
            group.enter()
        except OSError as error:
            reason = f"its control group {group.path} could not be entered: {error.strerror}"
            raise NotStartedError(reason, permanent=False) from error
    if user is not None:
        try:
            os.initgroups(user.pw_name, user.pw_gid)
            os.setgid(user.pw_gid)
            os.setuid(user.pw_uid)
        except OSError as error:
            reason = f"could not become the user {user.pw_name!r}: {error.strerror}"
            raise NotStartedError(reason, permanent=error.errno == errno.EPERM) from error
    _enter(order["cwd"])
    argv = order["argv"]
    try:
        path = _find(argv[0], env)
        check_time(order)
        _limit(
            _rlimits(order["limits"], group)
        )  # last: with little memory allowed this copy of Python could not go on
        os.write(complain, _ABOUT_TO)
        os.execve(path, argv, env)
    except (OSError, ValueError) as error:
        raise _cannot_run(argv[0], error, env) from error


def _rlimits(limits: dict[str, int], group: Group | None) -> dict[str, int]:
    """For each process on its own: what its control group does not limit for all of them together."""
    is_grouped = group is not None and group.has_memory
    found = {
        "RLIMIT_AS": 0 if is_grouped else limits.get("memory_bytes", 0),
        "RLIMIT_CPU": limits.get("cpu_s", 0),
    }
    return {name: limit for name, limit in found.items() if limit}


def _limit(rlimits: dict[str, int]) -> None:
    for name, soft in rlimits.items():
        number = getattr(resource, name)
        _, hard_now = resource.getrlimit(number)
        # Past the soft limit for CPU comes SIGXCPU, which names the cause; SIGKILL follows at the hard one.
        hard = soft + 1 if number == resource.RLIMIT_CPU else soft
        if hard_now != resource.RLIM_INFINITY:
            hard = min(hard, hard_now)
        resource.setrlimit(number, (min(soft, hard), hard))


def _enter(cwd: str) -> None:
    try:
        os.chdir(cwd)
    except OSError as error:  # a directory can come back (a mount), so this is worth another try
        raise NotStartedError(
            f"the working directory {cwd!r} cannot be used: {error.strerror}", permanent=False
        ) from error


def _find(command: str, env: dict[str, str]) -> str:
    """The file to execute, looked up in the command's own PATH."""
    if "/" in command:
        return command
    found = errno.ENOENT
    for directory in env.get("PATH", os.defpath).split(":"):
        path = os.path.join(directory, command)
        if os.path.isfile(path):
            if os.access(path, os.X_OK):
                return path
            found = errno.EACCES
    raise OSError(found, os.strerror(found))


def _cannot_run(command: str, error: OSError | ValueError, env: dict[str, str]) -> NotStartedError:
    if not isinstance(error, OSError):
        return NotStartedError(f"{command!r} cannot be run: {error}", permanent=True)
    hint = ""
    if error.errno == errno.ENOENT and "/" not in command:
        hint = f" in PATH={env.get('PATH', os.defpath)}"
    elif error.errno == errno.ENOEXEC:
        hint = " (a script needs a first line such as #!/bin/sh)"
    return NotStartedError(
        f"{command!r} cannot be run: {error.strerror}{hint}", permanent=error.errno in _PERMANENT
    )
