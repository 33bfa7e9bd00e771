"""The nursery: a small process with one thread that does nothing but fork keepers.

It is started as a script with the number of its end of the socket pair. An order is one message (its key)
with two files: the order as JSON, and the payload that becomes the command's standard input. Files, because a
message has a limited size. The end of the stream means that Tocsin stopped or died, and ends the nursery too.

A keeper whose command has ended waits on the same socket for another order, a second at most: in a herd that
saves most of the forks, which cost more than all the rest. Whoever reads an order first, keeper or nursery,
has it.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import struct
import sys

from tocsin.targets.exec.keeper import Keeper
from tocsin.targets.exec.mouth import Mouth
from tocsin.targets.exec.processes import boot_id, exit_now

_INT = struct.calcsize("i")
_FILES = (socket.SOL_SOCKET, socket.SCM_RIGHTS)
_IDLE_S = 1
_ORDERS_MAX = 1000
"""A keeper starts afresh after so many, whatever may have gathered in it."""


def main(channel_fd: int) -> None:
    """Fork a keeper for every order that no idle keeper takes, until Tocsin is gone."""
    channel = socket.socket(fileno=channel_fd)
    channel.set_inheritable(False)
    channel.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", _IDLE_S, 0))
    _settle_signals()
    os.chdir("/")
    boot = boot_id()
    gc.disable()
    gc.freeze()  # a collection would touch, and so copy, every page that a keeper shares with the nursery
    while True:
        try:
            key, files = _receive(channel)
        except BlockingIOError:
            _bury_keepers()
            continue
        if not key:
            return
        _fork_keeper(channel, boot, key, files)
        for fd in files:
            os.close(fd)
        _bury_keepers()


def _settle_signals() -> None:
    """For the nursery and, inherited, for every keeper."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE, signal.SIGXFSZ}:
        signal.signal(number, signal.SIG_DFL)
    # What is meant for Tocsin (Ctrl-C, the service's stop) is not meant for a keeper.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, lambda *_: None)  # a keeper hears it through its wake-up pipe
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _receive(channel: socket.socket) -> tuple[str, list[int]]:
    """The next order's key and files. Not by ``socket.recv_fds``: it ignores its flags, and the command would
    inherit the files."""
    room = socket.CMSG_SPACE(2 * _INT)
    key, extras, _, _ = channel.recvmsg(4096, room, socket.MSG_CMSG_CLOEXEC)
    data = b"".join(content for level, kind, content in extras if (level, kind) == _FILES)
    return key.decode(), list(struct.unpack(f"{len(data) // _INT}i", data[: len(data) // _INT * _INT]))


def _bury_keepers() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def _fork_keeper(channel: socket.socket, boot: str, key: str, files: list[int]) -> None:
    try:
        pid = os.fork()
    except OSError as error:
        reason = f"no process could be made: {error.strerror}"
        Mouth(channel, key).say({"event": "refused", "reason": reason})
        return
    if pid != 0:
        return
    try:
        os.setsid()
        _keep_on(channel, Keeper(boot), key, files)
    except BaseException:  # noqa: BLE001  # why: whatever it is, it goes into the log and ends this process
        sys.excepthook(*sys.exc_info())
    finally:  # this copy of the nursery must never go on as a nursery
        exit_now(0)


def _keep_on(channel: socket.socket, keeper: Keeper, key: str, files: list[int]) -> None:
    """See to one order after the other while they come."""
    for _ in range(_ORDERS_MAX):
        mouth = Mouth(channel, key)
        if len(files) == 2:
            with open(files[0], "rb") as file:
                order = json.load(file)
            keeper.keep(order, files[1], mouth)
        else:
            mouth.say({"event": "refused", "reason": "too many files are open for another order"})
        try:
            key, files = _receive(channel)
        except BlockingIOError:
            return
        if not key:
            return
