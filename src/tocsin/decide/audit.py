"""What was expected of a schedule, and what is recorded of it.

The instants are reckoned anew from the text of each version that was in force: what the scheduler believed is due is
only asked to tell what is still to come. The work is bounded: a stretch that was given up or forgotten is counted and
not walked through, and where a schedule has more occurrences than one look takes in, the account says how far it goes.

It knows nothing of doubling: the record cannot hold two launches of one name. See ``retrace``.
"""

from __future__ import annotations

from bisect import bisect_right
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from tocsin.cron import Expression
from tocsin.errors import InvalidSchedule
from tocsin.model.audit import LATE_MS, AuditCounts, Finding, Past, Row, Version
from tocsin.model.launch import LaunchState
from tocsin.model.rule import Rule, decode_rule

STEPS_MAX = 100_000
"""So many occurrences of one schedule are looked at in one account: a day of every second."""
COUNTED_MAX = 100_000
"""So many occurrences of one stretch are counted, and no more."""
NAMED_MAX = 20
"""So many occurrences of one schedule are named that nothing is recorded of."""

_COUNTED_AS = {
    LaunchState.STARTED: "open",
    LaunchState.RUNNING: "open",
    LaunchState.RETRYING: "open",
    LaunchState.QUEUED: "waiting",
    LaunchState.SUCCEEDED: "succeeded",
    LaunchState.FAILED: "failed",
    LaunchState.CANCELLED: "cancelled",
    LaunchState.IN_DOUBT: "in_doubt",
}


class Account(NamedTuple):
    """What became of the occurrences of one schedule."""

    counts: AuditCounts
    findings: list[Finding]
    steps: int
    """What it cost."""
    judged_until_s: int | None = None
    """Where the work ended. None: all was judged."""
    at_least: bool = False
    """A stretch held more than is counted."""

    @property
    def is_empty(self) -> bool:
        return not self.counts.expected and not self.findings


def account(past: Past, from_s: int, to_s: int) -> Account:
    """Judge the occurrences in ``[from, to)``."""
    try:
        return _Walk(past, from_s, to_s).account()
    except InvalidSchedule as unreadable:
        told = f"its text cannot be read on this machine, and nothing of it was judged: {unreadable}"
        finding = Finding(kind="unreadable", schedule=past.id, at=None, told=told)
        return Account(AuditCounts(), [finding], 1)


def skip_class(reason: str | None) -> str:
    """Reasons are sentences; there are a few kinds of them."""
    text = reason or ""
    if text.startswith("missed:"):
        return "lost_record" if "record of this time was lost" in text else "missed"
    for word in ("overlap", "deadline"):
        if text.startswith(word + ":"):
            return word
    for words, found in (
        ("was deleted", "deleted"),
        ("was edited", "edited"),
        ("was paused", "edited"),
        ("when it was imported", "imported"),
        ("resolved", "resolved"),
    ):
        if words in text:
            return found
    return "other"


@lru_cache(maxsize=16_384)
def text_of(resolved: str, zone: str) -> Expression:
    """Read once: thousands of schedules share a text."""
    return Expression.parse(resolved, timezone=zone)


def is_occurrence(resolved: str, zone: str, rule: bytes | None, instant_s: int) -> bool:
    """Is it an instant of this text, within its window?"""
    return _is_within(decode_rule(rule), instant_s) and text_of(resolved, zone).matches(instant_s)


class _Walk:
    """From one expected instant to the next, through all versions."""

    def __init__(self, past: Past, from_s: int, to_s: int) -> None:
        self._past = past
        self._from_s = from_s
        self._to_s = to_s
        self._rows = {row.instant_s: row for row in past.rows}
        self._recorded_s = sorted(self._rows)
        self._counts = AuditCounts()
        self._findings: list[Finding] = []
        self._steps = 0
        self._at_least = False

    def account(self) -> Account:
        judged_until_s: int | None = None
        for version in sorted(self._past.versions):
            judged_until_s = self._through(version)
            if judged_until_s is not None:
                break
        else:
            for row in self._rows.values():
                self._unexpected(row)
        return Account(self._counts, self._findings, self._steps + 1, judged_until_s, self._at_least)

    def _through(self, version: Version) -> int | None:
        """Every occurrence that this version had to see to. Returns where the work ended, if it did."""
        if not version.enabled:
            return None
        rule, text = decode_rule(version.rule), text_of(version.resolved, version.zone)
        # A version begins behind the second in which it came, and the one before it sees to that second.
        at_s = max(
            version.since_ms // 1000, self._from_s - 1, self._past.passed_upto_s.get(version.version, -1)
        )
        if rule.start_ms:
            at_s = max(at_s, -(-rule.start_ms // 1000) - 1)
        upto_s = min(self._ended_ms(version) // 1000, self._to_s - 1)
        if rule.end_ms:
            upto_s = min(upto_s, rule.end_ms // 1000)
        while (found := text.next_unix(at_s)) is not None and found <= upto_s:
            if self._steps >= STEPS_MAX:
                return found
            at_s = self._judge(text, found, upto_s)
        return None

    def _ended_ms(self, version: Version) -> int:
        """When the next version took over. If the clock was put back meanwhile, that is before this one's recorded end:
        the time between did not happen under it."""
        later = (each.since_ms for each in self._past.versions if each.version > version.version)
        return min([version.until_ms, *later])

    def _judge(self, text: Expression, instant_s: int, upto_s: int) -> int:
        """This occurrence, or the stretch that it begins. Returns the last second that was judged."""
        past, counts = self._past, self._counts
        self._steps += 1
        row = self._rows.pop(instant_s, None)
        if row is not None:
            counts.expected += 1
            self._count(row)
            return instant_s
        forgotten_upto_s = max(past.forgotten_upto_s, past.kept_since_s - 1)
        if instant_s <= forgotten_upto_s:
            return self._stretch(text, instant_s, min(forgotten_upto_s, upto_s), "forgotten")
        for from_s, before_s, reason in past.missed:
            if from_s <= instant_s < before_s:
                return self._stretch(
                    text, instant_s, min(before_s - 1, upto_s), "skipped", skip_class(reason)
                )
        if past.due_instant_s is not None and instant_s >= past.due_instant_s:
            return self._stretch(text, instant_s, upto_s, "waiting")
        counts.expected += 1
        counts.unaccounted += 1
        if counts.unaccounted <= NAMED_MAX:
            told = "it was an occurrence of the version in force, and nothing is recorded of it"
            self._found("unaccounted", instant_s, told)
        return instant_s

    def _stretch(self, text: Expression, first_s: int, last_s: int, counted_as: str, reason: str = "") -> int:
        """Up to the next launch that is recorded: in a stretch that was given up some may have been launched later."""
        place = bisect_right(self._recorded_s, first_s)
        if place < len(self._recorded_s):
            last_s = min(last_s, self._recorded_s[place] - 1)
        number = text.count_between(first_s - 1, last_s, COUNTED_MAX)
        self._at_least |= number == COUNTED_MAX
        self._steps += number // 10
        self._counts.expected += number
        if reason:
            self._counts.skipped[reason] = self._counts.skipped.get(reason, 0) + number
        else:
            setattr(self._counts, counted_as, getattr(self._counts, counted_as) + number)
        return max(first_s, last_s)

    def _count(self, row: Row) -> None:
        counts = self._counts
        if row.state == LaunchState.SKIPPED:
            reason = skip_class(row.reason)
            counts.skipped[reason] = counts.skipped.get(reason, 0) + 1
        else:
            name = _COUNTED_AS[LaunchState(row.state)]
            setattr(counts, name, getattr(counts, name) + 1)
        if row.started_ms is None:
            return
        counts.started += 1
        late_ms = row.started_ms - (row.instant_s * 1000 if row.planned_ms is None else row.planned_ms)
        if row.asked_ms is not None:
            counts.backfilled += 1
        elif late_ms > LATE_MS:
            counts.late += 1
        else:
            counts.on_time += 1
        if row.asked_ms is None:
            counts.latest_ms = max(counts.latest_ms, late_ms)

    def _unexpected(self, row: Row) -> None:
        """Recorded, and no version had to see to it. A moment (``@at``) may lie before its schedule, a clock may have
        been put back, and a person may ask for what was paused then; but of its own text it must be an instant."""
        own = next((found for found in self._past.versions if found.version == row.version), None)
        is_settled_anew = row.version in self._past.settled_anew
        if own is None or is_settled_anew or is_occurrence(own.resolved, own.zone, own.rule, row.instant_s):
            self._counts.expected += 1
            self._count(row)
        elif row.started_ms is not None:
            told = f"it was started, and '{own.resolved}' ({own.zone}), version {own.version}, has no such instant"
            self._found("no_occurrence", row.instant_s, told)

    def _found(self, kind: str, instant_s: int, told: str) -> None:
        at = datetime.fromtimestamp(instant_s, UTC)
        self._findings.append(Finding(kind=kind, schedule=self._past.id, at=at, told=told))


def _is_within(rule: Rule, instant_s: int) -> bool:
    begins = not rule.start_ms or instant_s * 1000 >= rule.start_ms
    return begins and (not rule.end_ms or instant_s * 1000 <= rule.end_ms)
