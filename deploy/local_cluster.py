"""Three replicas on this machine, in one terminal: kill the one that leads and watch the launches go on.

``make cluster`` starts it, ``make cluster WITH="--api-port 9401"`` with other options. Options that it does not know
itself are given to every ``tocsin serve``. Ctrl-C stops all three.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import IO, Any

from tocsin.errors import ClusterError
from tocsin.member.process import find as find_etcd
from tocsin.member.program import find_program
from tocsin.member.secret import new_secret

NAMES, COLORS = "abc", {"a": 36, "b": 33, "c": 35, "": 1}
EXAMPLE = "example/every-second"
STOP_S = 60.0
PROGRAM = "tocsin" if shutil.which("tocsin") else os.path.relpath(Path(sys.executable).with_name("tocsin"))


def say(text: str, name: str = "") -> None:
    """One line, marked with who says it."""
    begin, end = (f"\033[{COLORS[name]}m", "\033[0m") if sys.stdout.isatty() else ("", "")
    print(f"{begin}{name or '=>'}{' |' if name else ''}{end} {text}", flush=True)


class Replica:
    """A process that may be killed at any moment."""

    def __init__(self, name: str, options: list[str], data: Path, url: str) -> None:
        self.name, self.data, self.url = name, data, url
        words = ["serve", "--name", name, "--data", str(data), "--listen", url.removeprefix("http://")]
        self._command = [sys.executable, "-m", "tocsin", *words, *options]
        self.start_at_s = 0.0
        self.process: subprocess.Popen[str] | None = None
        self.has_answered = False

    def start(self) -> None:
        clean = {key: value for key, value in os.environ.items() if not key.startswith("TOCSIN_")}
        self.has_answered = False
        self.process = subprocess.Popen(
            self._command,
            env=clean,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C reaches this script alone, which stops them in good order
        )
        assert self.process.stderr is not None
        threading.Thread(target=self._show, args=(self.process.stderr,), daemon=True).start()

    def _show(self, lines: IO[str]) -> None:
        for line in lines:
            say(line.rstrip("\n"), self.name)

    def ask(self, path: str = "/v1/status", body: object = None) -> Any:
        """None: it does not answer."""
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, content, {"Content-Type": "application/json"})
        request.method = "GET" if body is None else "PUT"
        try:
            with urllib.request.urlopen(request, timeout=10 if body else 1) as answer:
                found = json.load(answer)
        except (OSError, ValueError):
            return None
        self.has_answered = True
        return found

    def end(self, number: signal.Signals) -> None:
        """The process, and an etcd that it may have left behind when it was killed."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
        elif (left := find_etcd(self.data / "member" / "etcd")) is not None:
            os.kill(left[0], number)

    def is_gone(self) -> bool:
        is_over = self.process is None or self.process.poll() is not None
        return is_over and find_etcd(self.data / "member" / "etcd") is None


class LocalCluster:
    def __init__(self, given: argparse.Namespace, more: list[str]) -> None:
        self._given = given
        self._folder: Path = given.data.absolute()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        secret = self._folder / "cluster.secret"
        if not secret.exists():
            with os.fdopen(os.open(secret, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
                file.write(new_secret() + "\n")
        ports = [given.cluster_port + 10 * number for number in range(len(NAMES))]
        members = ",".join(f"{name}=127.0.0.1:{port}" for name, port in zip(NAMES, ports, strict=True))
        options = ["--cluster", members, "--cluster-secret", str(secret), "--etcd", given.etcd, *more]
        urls = [f"http://127.0.0.1:{given.api_port + number}" for number in range(len(NAMES))]
        named = zip(NAMES, urls, strict=True)
        self._replicas = [Replica(name, options, self._folder / name, url) for name, url in named]
        self._urls = ",".join(urls)
        self._leads = ("", 0)
        self._has_greeted = False

    def run(self, stopping: threading.Event) -> int:
        """Until it is stopped, or a replica cannot even be started."""
        try:
            while not stopping.wait(0.3):
                for replica in self._replicas:
                    if not self._keep(replica):
                        return 1
                self._tell_who_leads()
        finally:
            self._stop()
        return 0

    def _keep(self, replica: Replica) -> bool:
        """Start it, and start it again a while after it ended. False: that would be of no use."""
        now_s, process = time.monotonic(), replica.process
        if process is None:
            if now_s >= replica.start_at_s:
                replica.start()
        elif (status := process.poll()) is not None:
            if status > 0 and not replica.has_answered:
                say(f"{replica.name} could not be started: its last lines say why")
                return False
            replica.process, replica.start_at_s = None, now_s + self._given.restart_after
            how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
            say(f"{replica.name} {how}. It is started again in {self._given.restart_after:g} s.")
        return True

    def _tell_who_leads(self) -> None:
        answers = [(replica, replica.ask()) for replica in self._replicas if replica.process is not None]
        leading = [(found["term"], replica) for replica, found in answers if found and found["role"] == "leader"]
        term, leader = max(leading, key=lambda pair: pair[0], default=(0, None))
        if leader is None or leader.process is None or self._leads == (leader.name, term):
            return
        if not self._has_greeted:
            self._has_greeted = True
            self._greet(leader)
        self._leads = (leader.name, term)
        say(f"{leader.name} leads, term {term}. To kill it: kill -9 {leader.process.pid}")

    def _greet(self, leader: Replica) -> None:
        seconds = self._folder / "seconds.log"
        if self._given.example and leader.ask(f"/v1/schedules/{EXAMPLE}") is None:
            shell = f'echo "$(date +%T) $TOCSIN_LAUNCH term $TOCSIN_TERM" >> {shlex.quote(str(seconds))}'
            leader.ask(f"/v1/schedules/{EXAMPLE}", {"cron": "* * * * * *", "target": {"kind": "exec", "shell": shell}})
        say("The cluster is up. Type in another terminal:")
        say(f"  export TOCSIN_URL={self._urls}")
        if self._given.example:
            say(f"  tail -f {shlex.quote(os.path.relpath(seconds))}   # a line for every launch, every second")
        say(f"  {PROGRAM} cluster                         # who leads, and how far each of them is")
        say(f"  {PROGRAM} launches {EXAMPLE}")
        say("Then kill the one that leads. Ctrl-C here stops all three.")

    def _stop(self) -> None:
        say("Stopping all three.")
        deadline_s = time.monotonic() + STOP_S
        for replica in self._replicas:
            replica.end(signal.SIGTERM)
        while not all(replica.is_gone() for replica in self._replicas) and time.monotonic() < deadline_s:
            time.sleep(0.1)
        for replica in self._replicas:
            if not replica.is_gone():
                say(f"{replica.name} takes too long and is killed.")
                replica.end(signal.SIGKILL)
                replica.end(signal.SIGKILL)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("tocsin-cluster"), help="for the data of all three")
    parser.add_argument("--api-port", type=int, default=8401, help="of a; b and c have the next ones")
    parser.add_argument("--cluster-port", type=int, default=8410, help="of a; b and c have +10 and +20")
    parser.add_argument("--restart-after", type=float, default=10.0, metavar="SECONDS", help="if one is killed")
    parser.add_argument("--etcd", default="etcd", help="the etcd program")
    parser.add_argument("--example", action="store_true", help="add a schedule of every second")
    given, more = parser.parse_known_args()
    try:
        find_program(given.etcd)
    except ClusterError as missing:
        say(f"{missing.message}: {missing.hint}")
        return 2
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stopping.set())
    return LocalCluster(given, more).run(stopping)


if __name__ == "__main__":
    sys.exit(main())
