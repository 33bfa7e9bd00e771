"""Launches that are spread over each second, so that a gap can be measured to a fraction of one."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.checker import Call
from tests.cluster.client import Client
from tests.cluster.cluster import Cluster
from tests.cluster.places import Place
from tests.cluster.receiver import HttpReceiver
from tests.cluster.waiting import until

PER_SECOND = 20
_PATH = "/v1/schedules/probe%2F{}"


class Probe:
    """Schedules of every second, each launch moved by its own jitter to anywhere within its second."""

    def __init__(self, cluster: Cluster, folder: Path, place: Place | None = None) -> None:
        folder.mkdir(exist_ok=True)
        self._client = Client(cluster)
        self._receiver = HttpReceiver(folder, place)

    def start(self) -> None:
        for number in range(PER_SECOND):
            target = {"kind": "http", "url": f"{self._receiver.url}/quick"}
            body = {
                "id": f"probe/{number}",
                "cron": "* * * * * *",
                "jitter": "1s",
                "missed": "skip",
                "target": target,
            }
            self._client.put(body)
        self.go_on()

    def close(self) -> None:
        self._receiver.close()

    def stop(self) -> None:
        """Leave no schedules behind."""
        for number in range(PER_SECOND):
            self._client.call("DELETE", _PATH.format(number))
        self.close()

    @property
    def calls(self) -> list[Call]:
        return sorted(self._receiver.calls, key=lambda call: call.at_s)

    def go_on(self, count: int = 2 * PER_SECOND) -> None:
        so_far = len(self.calls)
        until(lambda: len(self.calls) >= so_far + count, "the probe's launches")

    def first_after(self, term: int, patience_s: float = 60) -> Call:
        """The first call of a newer term."""

        def newer() -> Call | None:
            return next((call for call in self.calls if call.term > term), None)

        return until(newer, f"a launch of a term after {term}", patience_s)

    def last_of(self, term: int) -> Call:
        """The last call up to that term."""
        return [call for call in self.calls if call.term <= term][-1]
