"""A steady load of commands and calls, with every policy that doubt or absence asks for."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.cluster import checker
from tests.cluster.checker import Call, Evidence
from tests.cluster.client import Client, Writer, schedules_of
from tests.cluster.cluster import Cluster, Replica
from tests.cluster.places import Place
from tests.cluster.receiver import ExecReceiver, HttpReceiver
from tests.cluster.waiting import boot_s, until

_RETRY = {"limit": 5, "backoff": "1s", "jitter": 0}
_LONGEST_S = 10
"""Nothing that the load launches takes longer, all attempts included."""


def load_of(commands: ExecReceiver, calls: HttpReceiver) -> list[dict[str, Any]]:
    """About fifteen launches a second."""

    def exec_(
        id: str, then: str = "", step: int = 1, *, flaky: bool = False, **fields: Any
    ) -> dict[str, Any]:
        target = {"kind": "exec", "shell": commands.shell(then, flaky=flaky)}
        return {"id": f"exec/{id}", "cron": _every(step), "target": target, **fields}

    def http(id: str, path: str = "quick", step: int = 1, **fields: Any) -> dict[str, Any]:
        target = {"kind": "http", "url": f"{calls.url}/{path}", "idempotent": fields.pop("idempotent", False)}
        return {"id": f"http/{id}", "cron": _every(step), "target": target, **fields}

    return [
        *(exec_(f"skip/{n}", missed="all") for n in range(2)),
        exec_("last"),
        exec_("relaunch", missed="all", on_doubt="relaunch"),
        exec_("long", "sleep 5", 10),
        exec_("flaky", step=3, flaky=True, retry=_RETRY),
        *(http(f"skip/{n}", missed="all") for n in range(3)),
        http("last"),
        http("none", missed="skip"),
        *(http(f"relaunch/{n}", missed="all", on_doubt="relaunch") for n in range(2)),
        *(http(f"idempotent/{n}", missed="all", idempotent=True) for n in range(2)),
        http("flaky", "flaky", 2, retry=_RETRY),
        http("slow/skip", "slow", 2),
        http("slow/retry", "slow", 3, retry=_RETRY),
        http("slow/relaunch", "slow", 3, on_doubt="relaunch", missed="all"),
    ]


def _every(seconds: int) -> str:
    return "* * * * * *" if seconds == 1 else f"*/{seconds} * * * * *"


class Load:
    """The load on one cluster, and what is known of it from both sides."""

    def __init__(self, cluster: Cluster, folder: Path, place: Place | None = None) -> None:
        self.cluster = cluster
        self.client = Client(cluster)
        self._commands, self._calls = ExecReceiver(folder), HttpReceiver(folder, place)
        self.schedules = {spec["id"]: spec for spec in load_of(self._commands, self._calls)}
        self.writer = Writer(list(cluster))
        self._digests: list[tuple[str, int, str]] = []
        self._judged: Evidence | None = None
        self.summary = ""

    def start(self) -> None:
        for schedule in self.schedules.values():
            self.client.put(schedule)
        self.writer.start()
        self.go_on()

    def close(self) -> None:
        self.writer.stop()
        self._calls.close()

    @property
    def calls(self) -> list[Call]:
        return [*self._commands.calls, *self._calls.calls]

    def go_on(self, count: int = 30, patience_s: float = 60) -> None:
        """Wait until so many launches more have arrived."""
        so_far = len(self.calls)
        until(lambda: len(self.calls) >= so_far + count, f"{count} more launches", patience_s)

    def doubts(self) -> list[str]:
        """What the service had to leave open in the time that was judged last."""
        return [] if self._judged is None else checker.doubts(self._judged)

    def faults(self, from_s: int, *, lost_record: bool = False) -> list[str]:
        """Everything that is wrong with what fell due since then, once all of it has ended."""
        until_s = int(time.time())
        until(
            lambda: time.time() > until_s + 1 and not self._is_open(until_s),
            "launches to end",
            90,
            every_s=0.3,
        )
        leader = self.cluster.until_leader()
        launches = {
            launch["name"]: launch for launch in leader.launches(since=str(from_s), until=str(until_s))
        }
        evidence = Evidence(
            self.schedules, self.calls, launches, from_s, until_s, self.client.why, lost_record
        )
        self._judged = evidence
        found = checker.faults(evidence) + checker.early(evidence, time.time() - boot_s())
        self.summary = (
            f"{len(launches)} launches in {until_s - from_s} s, {len(self.doubts())} in doubt, "
            f"{len(evidence.received())} calls"
        )
        print(self.summary)
        return found + self._forgotten() + self._diverged()

    def _is_open(self, until_s: int) -> bool:
        """Is anything of the time before still to come, or going on?"""
        leader = self.cluster.leader()
        if leader is None:
            return True
        going_on = leader.ask(f"/v1/launches?state={','.join(sorted(checker.OPEN))}&until={until_s}&limit=1")
        planned = [leader.ask(f"/v1/schedules?limit=100&prefix={kind}/") for kind in ("exec", "http")]
        if going_on is None or None in planned:
            return True
        nexts = [item["next"] for page in planned for item in page["items"] if item["next"]]
        return bool(going_on["items"]) or any(
            datetime.fromisoformat(next_).timestamp() < until_s for next_ in nexts
        )

    def _forgotten(self) -> list[str]:
        """What was acknowledged and is not there any more, on any replica."""
        acknowledged = set(self.writer.acknowledged)
        reached = self.cluster.until_leader().call("GET", "/v1/status")["sequence"]
        wrong = []
        for replica in self.cluster:
            until(lambda found=replica: sequence_of(found) >= reached, f"{replica.name} to be at {reached}")
            gone = acknowledged - schedules_of(replica, "acknowledged/")
            wrong += [f"{replica.name} does not know {id}, which was acknowledged" for id in sorted(gone)]
        return wrong

    def _diverged(self) -> list[str]:
        """At equal sequences all replicas had equal digests; and they do come to an equal sequence."""

        def together() -> bool:
            found = [replica.ask("/v1/status") for replica in self.cluster]
            self._digests += [(s["replica"], s["sequence"], s["digest"]) for s in found if s]
            return all(found) and len({status["sequence"] for status in found}) == 1

        until(together, "all replicas at the same sequence", 30)
        view = self.cluster.until_leader().call("GET", "/v1/cluster")
        told = [] if view["digests_agree"] else [f"digests of snapshots disagree: {view}"]
        return told + checker.digests_disagree(self._digests)


def sequence_of(replica: Replica) -> int:
    """How far it is; -1: it does not say."""
    status = replica.ask("/v1/status")
    return -1 if status is None else int(status["sequence"])
