"""What receivers recorded, held against what the service says. Pure functions: each tells what is wrong in sentences.

The receivers' word counts for what happened; the service's word is what is judged.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

OPEN = {"started", "running", "retrying", "queued"}
_MISSED = "Not launched; missed: nothing was decided at that time"
_LOST = "Not launched; missed: the record of this time was lost"


class Call(NamedTuple):
    """One call that reached a receiver."""

    name: str
    attempt: int
    term: int
    at_s: float
    """On the boot clock."""
    good: bool
    """The work was done. False: the receiver refused, so that another attempt is right."""

    @property
    def schedule(self) -> str:
        return self.name.rpartition("-")[0]

    @property
    def instant_s(self) -> int:
        return int(self.name.rpartition("-")[2])

    def line(self) -> bytes:
        return f"{self.name} {self.attempt} {self.term} {self.at_s:.3f} {'good' if self.good else 'bad'}\n".encode()

    @classmethod
    def read(cls, line: str) -> Call:
        name, attempt, term, at_s, good = line.split()
        return cls(name, int(attempt), int(term), float(at_s), good == "good")


class Evidence(NamedTuple):
    """All there is to judge a stretch of time by. Only launches whose instants are in it are looked at."""

    schedules: Mapping[str, Mapping[str, Any]]
    """As they were written, by their ids."""
    calls: Sequence[Call]
    launches: Mapping[str, Mapping[str, Any]]
    """As the API shows them, by their names."""
    from_s: int
    until_s: int
    why: Callable[[str, int], str]
    """The answer of the service for a schedule and an instant."""
    lost_record: bool = False
    """A majority of the disks was lost: of some of the time nobody can know what was launched."""

    def within(self, instant_s: int) -> bool:
        return self.from_s <= instant_s < self.until_s

    def may_repeat(self, schedule: str) -> bool:
        """Does the owner rather have it twice than not at all, or does the receiver not mind?"""
        spec = self.schedules[schedule]
        return spec.get("on_doubt") == "relaunch" or bool(spec["target"].get("idempotent"))

    def judged(self) -> list[tuple[str, Mapping[str, Any]]]:
        """The launches of this stretch, by name."""
        return [
            (name, launch)
            for name, launch in self.launches.items()
            if launch["schedule"] in self.schedules and self.within(instant_of(name))
        ]

    def received(self) -> list[Call]:
        return [
            call for call in self.calls if call.schedule in self.schedules and self.within(call.instant_s)
        ]


def instant_of(name: str) -> int:
    return int(name.removesuffix("-manual").rpartition("-")[2])


def occurrences(schedule: Mapping[str, Any], from_s: int, until_s: int) -> range:
    """Of the few forms that the load uses: every second, or every so many."""
    step = int(schedule["cron"].split()[0].partition("/")[2] or 1)
    assert 60 % step == 0, schedule["cron"]
    return range(from_s + -from_s % step, until_s, step)


def doubles(evidence: Evidence) -> list[str]:
    """Under ``skip`` the work of a launch is done once, and no attempt is made twice."""
    done: Counter[str] = Counter()
    attempts: Counter[tuple[str, int]] = Counter()
    for call in evidence.received():
        if not evidence.may_repeat(call.schedule):
            done[call.name] += call.good
            attempts[call.name, call.attempt] += 1
    twice = [f"{name} was done {count} times" for name, count in done.items() if count > 1]
    again = [
        f"attempt {n} of {name} was made {count} times" for (name, n), count in attempts.items() if count > 1
    ]
    return twice + again


def lost(evidence: Evidence) -> list[str]:
    """Where repeating is allowed, whatever was started has been done at least once in the end."""
    done = {call.name for call in evidence.received() if call.good}
    return [
        f"{name} was never done: {launch['state']} ({launch['reason']})"
        for name, launch in evidence.judged()
        if evidence.may_repeat(launch["schedule"]) and name not in done and launch["state"] != "skipped"
    ]


def false_successes(evidence: Evidence) -> list[str]:
    """What is said to have succeeded was done."""
    done = {call.name for call in evidence.received() if call.good}
    return [
        f"{name} is said to have succeeded and was never done"
        for name, launch in evidence.judged()
        if launch["state"] == "succeeded" and name not in done
    ]


def unrecorded(evidence: Evidence) -> list[str]:
    """What was done is on record, and not as something that never happened."""
    wrong = []
    for call in evidence.received():
        launch = evidence.launches.get(call.name)
        if launch is None:
            wrong.append(f"{call.name} was called in term {call.term} and is not on record")
        elif call.good and launch["state"] not in {"succeeded", "in_doubt", "cancelled"}:
            wrong.append(
                f"{call.name} was done in term {call.term} and is {launch['state']} ({launch['reason']})"
            )
    return wrong


def unfinished(evidence: Evidence) -> list[str]:
    """Every launch has ended, and says why if it did not succeed."""
    wrong = []
    for name, launch in evidence.judged():
        if launch["state"] in OPEN:
            wrong.append(f"{name} is still {launch['state']}")
        elif launch["state"] != "succeeded" and not launch["reason"]:
            wrong.append(f"{name} is {launch['state']} and nobody says why")
    return wrong


def unaccounted(evidence: Evidence) -> list[str]:
    """Every occurrence is a launch, or ``why`` knows that it was missed; under ``missed: all`` it is a launch."""
    wrong = []
    for id, schedule in evidence.schedules.items():
        for instant_s in occurrences(schedule, evidence.from_s, evidence.until_s):
            if f"{id}-{instant_s}" in evidence.launches:
                continue
            answer = evidence.why(id, instant_s)
            if evidence.lost_record and answer.startswith(_LOST) and schedule.get("on_doubt") != "relaunch":
                continue
            if schedule.get("missed") == "all" or not answer.startswith(_MISSED):
                wrong.append(f"{id}-{instant_s} is a blank: {answer}")
    return wrong


def early(evidence: Evidence, wall_less_boot_s: float) -> list[str]:
    """Nothing was called before its time. The boot clock of a shell is told to a hundredth of a second."""
    return [
        f"{call.name} came {ahead:.3f} s early"
        for call in evidence.received()
        if (ahead := call.instant_s - (call.at_s + wall_less_boot_s)) > 0.02
    ]


def doubts(evidence: Evidence) -> list[str]:
    """No fault at all, but worth counting: what the service had to leave open."""
    return [
        f"{name}: {launch['reason']}" for name, launch in evidence.judged() if launch["state"] == "in_doubt"
    ]


def digests_disagree(seen: Iterable[tuple[str, int, str]]) -> list[str]:
    """Replicas (name, sequence, digest) that were at the same sequence had the same digest there."""
    by_sequence: defaultdict[int, dict[str, str]] = defaultdict(dict)
    wrong = []
    for name, sequence, digest in seen:
        known = by_sequence[sequence].setdefault(name, digest)
        if known != digest:
            wrong.append(f"{name} has had two digests at {sequence}: {known} and {digest}")
    for sequence, digests in by_sequence.items():
        if len(set(digests.values())) > 1:
            wrong.append(f"at {sequence} the digests differ: {digests}")
    return wrong


def faults(evidence: Evidence) -> list[str]:
    """Everything that must hold after whatever happened."""
    found: list[str] = []
    for check in (doubles, lost, false_successes, unrecorded, unfinished, unaccounted):
        found += [f"{check.__name__}: {wrong}" for wrong in check(evidence)]
    return found


def lateness_s(calls: Iterable[Call], wall_less_boot_s: float) -> list[float]:
    """How long after its instant each first attempt arrived."""
    return [call.at_s + wall_less_boot_s - call.instant_s for call in calls if call.attempt == 1]
