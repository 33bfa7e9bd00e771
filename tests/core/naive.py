"""A deliberately naive model of what should become of every occurrence.

It walks through every second, one occurrence at a time, with a dict and no SQL, no batches, no shortcuts. It is slow
and obvious; the real thing is neither. Both must account for the same occurrences in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tocsin.cron import Expression, parse_duration
from tocsin.model.schedule import Schedule

OPEN = {"started", "retrying", "queued"}


@dataclass
class Timeline:
    """One id: what it says now, and what became of each of its instants so far."""

    schedule: Schedule | None
    expression: Expression | None = None
    decided_upto: int = -1
    """Every instant up to this one is settled, one way or another."""
    outcomes: dict[int, str] = field(default_factory=dict)
    attempts: dict[int, int] = field(default_factory=dict)
    held: dict[int, int] = field(default_factory=dict)
    """Instants in doubt: until when each keeps its place."""

    def holding(self, now: int) -> list[int]:
        return [i for i, until in self.held.items() if until > now and self.outcomes[i] == "in_doubt"]


class Naive:
    """All ids."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.present_since = now
        self.timelines: dict[str, Timeline] = {}

    # What callers do

    def put(self, schedule: Schedule, resolved: str) -> None:
        line = self.timelines.setdefault(schedule.id, Timeline(None))
        if line.schedule == schedule:
            return
        same_timing = line.schedule is not None and all(
            getattr(line.schedule, name) == getattr(schedule, name)
            for name in ("cron", "timezone", "missed", "overlap", "deadline", "enabled")
        )
        if same_timing:
            line.schedule = schedule
            return
        self._give_up_overdue(line)
        keeps_text = line.schedule is not None and line.schedule.cron == schedule.cron
        if not keeps_text or line.schedule.timezone != schedule.timezone:
            line.expression = Expression.parse(resolved, timezone=schedule.timezone)
        line.schedule = schedule
        line.decided_upto = max([self.now, *line.outcomes])

    def delete(self, id: str) -> None:
        line = self.timelines[id]
        self._give_up_overdue(line)
        line.schedule = None
        for instant in [i for i, state in line.outcomes.items() if state == "queued"]:
            line.outcomes[instant] = "skipped"

    def switch(self, id: str, enabled: bool) -> None:
        import msgspec

        line = self.timelines[id]
        assert line.schedule is not None
        if line.schedule.enabled == enabled:
            return
        self._give_up_overdue(line)
        line.schedule = msgspec.structs.replace(line.schedule, enabled=enabled)
        line.decided_upto = max([self.now, *line.outcomes])

    # What time does

    def decide(self) -> None:
        for line in self.timelines.values():
            if line.schedule is None:
                continue
            self._expire_queued(line)  # also what a newer one would replace
            if not (line.schedule.enabled and line.schedule.overlap == "replace"):
                self._start_queued(line)
            if line.schedule.enabled:
                self._decide_line(line)

    def _decide_line(self, line: Timeline) -> None:
        schedule = line.schedule
        assert schedule is not None
        due = [instant for instant in self._instants(line) if instant <= self.now]
        missed = [instant for instant in due if instant < self.present_since]
        if schedule.missed == "skip":
            dropped = missed
        elif schedule.missed == "last":
            dropped = missed[:-1]
        else:
            dropped = missed[:-1000]
        for instant in due:
            line.decided_upto = instant
            if instant in dropped:
                line.outcomes[instant] = "skipped"
            else:
                line.outcomes[instant] = self._verdict(line, schedule, instant)
                if (
                    schedule.overlap != "replace"
                ):  # what a newer one replaces at this very moment never starts
                    self._start_queued(line)
        self._start_queued(line)

    def _verdict(self, line: Timeline, schedule: Schedule, instant: int) -> str:
        if schedule.deadline and self.now - instant > parse_duration(schedule.deadline, field=""):
            return "skipped"
        open_instants = [i for i, state in line.outcomes.items() if state in OPEN]
        open_instants += line.holding(self.now)
        if not open_instants or schedule.overlap == "allow":
            line.attempts[instant] = 1
            return "started"
        if schedule.overlap == "forbid":
            return "skipped"
        waiting = [i for i in open_instants if line.outcomes[i] == "queued"]
        if schedule.overlap == "queue":
            return "skipped" if waiting else "queued"
        for i in open_instants:
            if line.outcomes[i] in ("queued", "retrying"):
                line.outcomes[i] = "cancelled"
        return "queued"

    def _start_queued(self, line: Timeline) -> None:
        self._expire_queued(line)
        for instant in self._next_queued(line):
            if not line.holding(self.now) or (line.schedule and line.schedule.overlap == "allow"):
                line.outcomes[instant] = "started"
                line.attempts[instant] = 1

    def _expire_queued(self, line: Timeline) -> None:
        deadline = line.schedule.deadline if line.schedule else None
        for instant in self._next_queued(line):
            if deadline and self.now - instant > parse_duration(deadline, field=""):
                line.outcomes[instant] = "skipped"
                self._expire_queued(line)

    def _next_queued(self, line: Timeline) -> list[int]:
        """The launch that starts next; none while another one runs."""
        if any(state in ("started", "retrying") for state in line.outcomes.values()):
            return []
        return sorted(i for i, state in line.outcomes.items() if state == "queued")[:1]

    def _instants(self, line: Timeline) -> list[int]:
        """Every occurrence after the last settled one, a second at a time."""
        assert line.expression is not None
        found = []
        for second in range(line.decided_upto + 1, self.now + 1):
            if line.expression.matches(second):
                found.append(second)
        return found

    def _give_up_overdue(self, line: Timeline) -> None:
        """Only the occurrence that stands next can be overdue when a version ends: the turns before saw to it."""
        if line.schedule is None or not line.schedule.enabled or line.expression is None:
            return
        for instant in self._instants(line)[:1]:
            line.outcomes[instant] = "skipped"
            line.decided_upto = instant
