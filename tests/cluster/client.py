"""A caller that knows all replicas and keeps a record of what it was told is done."""

from __future__ import annotations

import itertools
import threading
import urllib.parse
from collections.abc import Sequence
from typing import Any

from tests.cluster.cluster import UNHEARD, Cluster, Refused, Replica
from tests.cluster.waiting import boot_s, until

_GIVE_UP_S = 2.0


class Client:
    """Asks one replica after the other until somebody does it."""

    def __init__(self, cluster: Cluster) -> None:
        self._turn = itertools.cycle(cluster)
        self._cluster = cluster

    def call(self, method: str, path: str, body: object = None, patience_s: float = 60) -> Any:
        """Only for what may be done twice."""

        def once() -> tuple[Any] | None:
            replica = next(self._turn)
            if not replica.is_awake():
                return None
            try:
                return (replica.call(method, path, body),)
            except UNHEARD:
                return None
            except Refused as refused:
                if refused.status < 500:
                    raise
                return None

        return until(once, f"{method} {path}", patience_s)[0]

    def put(self, schedule: dict[str, Any]) -> None:
        self.call("PUT", "/v1/schedules/" + urllib.parse.quote(schedule["id"], safe=""), schedule)

    def why(self, schedule: str, instant_s: int) -> str:
        path = f"/v1/schedules/{urllib.parse.quote(schedule, safe='')}:why?at={instant_s}"
        return str(self.call("GET", path)["answer"])


class Writer:
    """Creates schedules all the time, each at the next replica, and remembers those that were acknowledged."""

    def __init__(
        self, replicas: Sequence[Replica], prefix: str = "acknowledged", pause_s: float = 0.25
    ) -> None:
        self.acknowledged: list[str] = []
        self.last_s = 0.0
        """When something was acknowledged last, on the boot clock."""
        self.refusals: dict[str, str] = {}
        self._replicas = replicas
        self._prefix = prefix
        self._pause_s = pause_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Also if it was never started."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _write(self) -> None:
        for number, replica in enumerate(itertools.cycle(self._replicas)):
            if self._over.wait(self._pause_s):
                return
            id = f"{self._prefix}/{number}"
            body = {"id": id, "cron": "0 0 29 2 *", "target": {"kind": "null"}}
            if not replica.is_awake():
                continue
            try:
                replica.call("POST", "/v1/schedules", body, timeout_s=_GIVE_UP_S)
            except UNHEARD as unheard:
                self.refusals[id] = f"{replica.name}: {unheard!r}"
            except Refused as refused:
                self.refusals[id] = f"{replica.name}: {refused}"
            else:
                self.acknowledged.append(id)
                self.last_s = boot_s()


def schedules_of(replica: Replica, prefix: str) -> set[str]:
    """The ids that this replica holds."""
    found: set[str] = set()
    cursor = ""
    while True:
        query = urllib.parse.urlencode({"prefix": prefix, "limit": "1000", "cursor": cursor})
        page = replica.call("GET", "/v1/schedules?" + query)
        found |= {item["id"] for item in page["items"]}
        cursor = page["cursor"]
        if not cursor:
            return found
