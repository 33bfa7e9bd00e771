"""Three replicas on this machine, in one terminal: kill the one that leads and watch the launches go on.

``make cluster`` starts it, ``make cluster WITH="--api-port 9401"`` with other options. Options that it does not know
itself are given to every ``tocsin serve``. Ctrl-C stops all three; a second one does not wait for them.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import IO, Any

from tocsin.errors import ClusterError
from tocsin.member.process import find as find_etcd
from tocsin.member.program import find_program
from tocsin.member.secret_file import new_secret

COLORS = {"a": 36, "b": 33, "c": 35, "=>": 1}
LOOK_EVERY_S, RESTART_S = 0.3, 10.0
STOP_S = 45.0
"""A replica in good order needs less: calls under way get 10 s, its etcd 10 s, and as long again if it is killed."""
TOCSIN = [sys.executable, "-m", "tocsin"]


def say(text: str, name: str = "=>") -> None:
    begin, end = (f"\033[{COLORS[name]}m", "\033[0m") if sys.stdout.isatty() else ("", "")
    print(f"{begin}{name}{'' if name == '=>' else ' |'}{end} {text}", flush=True)


class Replica:
    """A process that may be killed at any moment."""

    def __init__(self, name: str, data: Path, address: str, options: list[str]) -> None:
        self.name, self.url, self._etcd = name, f"http://{address}", data / "member" / "etcd"
        self._command = [*TOCSIN, "serve", "--name", name, "--data", str(data), "--listen", address, *options]
        self._process: subprocess.Popen[str] | None = None
        self._has_answered, self._rest_s = False, 0.0

    def start(self) -> None:
        none, pipe = subprocess.DEVNULL, subprocess.PIPE
        # In a session of its own: Ctrl-C reaches this script alone, which stops them in good order.
        self._process = subprocess.Popen(
            self._command, stdin=none, stdout=none, stderr=pipe, text=True, start_new_session=True
        )
        self._has_answered = False
        threading.Thread(target=self._show, args=(self._process.stderr,), daemon=True).start()

    def _show(self, lines: IO[str]) -> None:
        for line in lines:
            say(line.rstrip("\n"), self.name)

    def keep(self) -> bool:
        """Start it, and a while after it ended start it again. False: that would be of no use."""
        if self._process is None:
            self._rest_s -= LOOK_EVERY_S
            if self._rest_s <= 0:
                self.start()
        elif (status := self._process.poll()) is not None:
            if status > 0 and not self._has_answered:
                say(f"{self.name} could not be started: its last lines say why.")
                return False
            self._process, self._rest_s = None, RESTART_S
            how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
            say(f"{self.name} {how}. It is started again in {RESTART_S:g} s.")
        return True

    def leads(self) -> tuple[int, int]:
        """Its term and process; zero: it does not lead."""
        try:
            with urllib.request.urlopen(self.url + "/v1/status", timeout=1) as answer:
                status: dict[str, Any] = json.load(answer)
        except (OSError, ValueError):
            return 0, 0
        self._has_answered = True
        pid = self._process.pid if self._process else 0
        return (status["term"], pid) if status["role"] == "leader" else (0, 0)

    def stop(self, number: signal.Signals) -> None:
        """The process, or the etcd of one that was killed, which would stay. It is ours: the folder is locked."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            if number != signal.SIGKILL:
                return  # it ends its etcd itself
        if (left := find_etcd(self._etcd)) is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(left[0], number)

    def is_gone(self) -> bool:
        is_over = self._process is None or self._process.poll() is not None
        return is_over and find_etcd(self._etcd) is None


def locked(folder: Path) -> int | None:
    """The lock on that folder, held as long as this process lives. None: another one has it.

    Whoever came second would take the first one's replicas for its own, and end them."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Not inherited: a replica that outlives this process must not keep it.
    lock = os.open(folder / "lock", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def taken(given: argparse.Namespace) -> list[int]:
    """Ports that somebody else listens on, whose answers would be taken for those of our replicas. Not etcd's: that of
    a replica that was killed may still be there, and is taken over."""
    found = []
    for port in [
        *(given.api_port + at for at in range(3)),
        *(given.cluster_port + 10 * at for at in range(3)),
    ]:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                found.append(port)
    return found


def composed(given: argparse.Namespace, more: list[str]) -> list[Replica]:
    secret = given.data / "cluster.secret"
    if not secret.exists():
        with os.fdopen(os.open(secret, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write(new_secret() + "\n")
    members = ",".join(f"{name}=127.0.0.1:{given.cluster_port + 10 * at}" for at, name in enumerate("abc"))
    options = ["--cluster", members, "--cluster-secret", str(secret), "--etcd", given.etcd, *more]
    addresses = {name: f"127.0.0.1:{given.api_port + at}" for at, name in enumerate("abc")}
    return [Replica(name, given.data / name, address, options) for name, address in addresses.items()]


def greet(replicas: list[Replica], seconds: Path | None) -> None:
    urls = ",".join(replica.url for replica in replicas)
    say("The cluster is up. Type in another terminal:")
    say(f"  export TOCSIN_URL={urls}")
    say(f"  {os.path.relpath(Path(sys.executable).with_name('tocsin'))} cluster")
    if seconds is not None:
        log = shlex.quote(str(seconds))
        shell = f'echo "$(date +%T) $TOCSIN_LAUNCH, term $TOCSIN_TERM" >> {log}'
        words = ["add", "example/every-second", "* * * * * *", "--shell", shell, "--url", urls]
        subprocess.run([*TOCSIN, *words], capture_output=True, check=False)  # it may be there from before
        say(f"  tail -f {log}   # a line for each launch, every second")
    say("Then kill the one that leads, and watch. Ctrl-C here stops all three.")


def run(replicas: list[Replica], seconds: Path | None, stopping: threading.Event) -> bool:
    newest = 0
    while not stopping.wait(LOOK_EVERY_S):
        for replica in replicas:
            if not replica.keep():
                return False
            term, pid = replica.leads()
            if term > newest:
                if newest == 0:
                    greet(replicas, seconds)
                newest = term
                say(f"{replica.name} leads, term {term}. To kill it: kill -9 {pid}")
    return True


def stop(replicas: list[Replica], at_once: threading.Event) -> None:
    """In good order, as long as that takes no longer than it should and nobody presses Ctrl-C again."""
    say("Stopping all three. Ctrl-C again: at once.")
    for number, patience_s in ((signal.SIGTERM, STOP_S), (signal.SIGKILL, 5.0)):
        for replica in replicas:
            replica.stop(number)
        until = time.monotonic() + patience_s
        while not all(replica.is_gone() for replica in replicas):
            if time.monotonic() > until or (number == signal.SIGTERM and at_once.wait(LOOK_EVERY_S)):
                break
            time.sleep(LOOK_EVERY_S / 3)
        else:
            return
    say("Something is still running; 'ps' shows it.")


def refused(reason: str) -> int:
    say(f"{reason}, or choose another folder and other ports:")
    say('  make cluster WITH="--data tocsin-cluster-2 --api-port 9401 --cluster-port 9410"')
    return 2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("tocsin-cluster"), help="folder for all three")
    parser.add_argument("--api-port", type=int, default=8401, help="of a; b and c have the next ones")
    parser.add_argument("--cluster-port", type=int, default=8410, help="of a; b and c have +10 and +20")
    parser.add_argument("--etcd", default="etcd", help="the etcd program")
    parser.add_argument("--example", action="store_true", help="add a schedule of every second")
    given, more = parser.parse_known_args()
    given.data = given.data.absolute()
    try:
        find_program(given.etcd)
    except ClusterError as missing:
        say(str(missing))
        return 2
    lock = locked(given.data)
    if lock is None:
        return refused(f"Another 'make cluster' uses {given.data}. Stop it")
    if ports := taken(given):
        return refused(f"Another program listens on 127.0.0.1, port {', '.join(map(str, ports))}. Stop it")
    stopping, at_once = threading.Event(), threading.Event()

    def on_signal(*_: object) -> None:
        (at_once if stopping.is_set() else stopping).set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, on_signal)
    replicas = composed(given, more)
    is_well = run(replicas, given.data / "seconds.log" if given.example else None, stopping)
    stopping.set()
    stop(replicas, at_once)
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
