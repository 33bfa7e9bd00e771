"""Every occurrence that a schedule promised is accounted for.

A version promises the instants of its text, within its window, that come after the second in which it came into force
and up to the one in which it ended, while it is enabled. Each of them is a launch, or lies in a stretch that is
recorded as missed, or is still to come. The texts are walked with ``tocsin.cron`` alone. A stretch is one step, so
that a year of absence costs nothing.

A version begins later where an occurrence behind its beginning was launched already (the former leader's clock was
ahead). A lost journal excuses nothing: what the record that is left promises, it accounts for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator

from tocsin.model import change as c
from tocsin.model.ids import parse_launch_name
from tocsin.simulation.checkers.contract import Checker, Finding
from tocsin.simulation.checkers.reading import (
    formers,
    in_force,
    record,
    timeline,
    versions_by_id,
    within_window,
)
from tocsin.simulation.history import Final, History, VersionRow

FINDINGS_EACH = 3
"""A schedule that lost one occurrence may have lost thousands."""


def check(history: History) -> Iterator[Finding]:
    final = record(history)
    if final is None:
        return
    yield from _recorded_twice(final)
    accounts = _accounts(history, final)
    for id, rows in versions_by_id(final).items():
        account = accounts[id]
        left = FINDINGS_EACH
        for version in rows:
            if left <= 0:
                break
            for finding in _unaccounted(history, final, version, account):
                yield finding
                left -= 1
                if left <= 0:
                    break


def _recorded_twice(final: Final) -> Iterator[Finding]:
    seen: set[str] = set()
    for row in final.launches:
        if row.name in seen:
            yield Finding(row.planned_ms, f"{row.name} is recorded twice", row.name)
        seen.add(row.name)


class _Account:
    """What is recorded of one schedule."""

    def __init__(self) -> None:
        self.launches: dict[int, int] = {}
        """By instant: the version."""
        self.stretches: list[tuple[int, int, int]] = []
        self.forgotten_before_s = -1
        self._begins: list[int] = []

    def settle(self) -> None:
        self.stretches.sort()
        self._begins = [stretch[0] for stretch in self.stretches]

    def upto(self, instant_s: int) -> int | None:
        """The last instant that is accounted for together with this one. None: this one is not."""
        if instant_s < self.forgotten_before_s:
            return self.forgotten_before_s - 1
        if instant_s in self.launches:
            return instant_s
        for index in range(bisect_right(self._begins, instant_s) - 1, -1, -1):
            before_s = self.stretches[index][1]
            if instant_s < before_s:
                return before_s - 1
        return None

    def taken_before(self, version: int) -> int:
        """Up to which instant earlier versions had been dealt with: a new one begins behind it."""
        launched = max((at for at, of in self.launches.items() if of < version), default=-1)
        given_up = max((before - 1 for _, before, of in self.stretches if of < version), default=-1)
        return max(launched, given_up)


def _accounts(history: History, final: Final) -> dict[str, _Account]:
    found: defaultdict[str, _Account] = defaultdict(_Account)
    for row in final.launches:
        if not row.is_manual:
            found[row.schedule].launches[row.instant_s] = row.version
    for missed in final.missed:
        found[missed.schedule].stretches.append((missed.from_s, missed.before_s, missed.version))
    _forget(history, final, found)
    for account in found.values():
        account.settle()
    return found


def _forget(history: History, final: Final, accounts: dict[str, _Account]) -> None:
    """What was recorded and is no longer kept, because it is too old or too much."""
    lines = formers(history)
    for each in in_force(history):
        for change in each.landed.entry.changes:
            if each.is_void or not isinstance(change, c.HistoryForgotten):
                continue
            for version in final.versions:
                account = accounts[version.id]
                account.forgotten_before_s = max(account.forgotten_before_s, change.before_ms // 1000)
            for lid in change.lids:
                line = lines[each.landed.incarnation]
                known = (history.launch_names.get((incarnation, lid)) for incarnation in line)
                _forget_launch(accounts, next((names for names in known if names), set()))


def _forget_launch(accounts: dict[str, _Account], names: set[str]) -> None:
    if not names:  # nobody knows whose it was: what lies before the oldest that is left may have been it
        for account in accounts.values():
            oldest = min(account.launches, default=-1)
            account.forgotten_before_s = max(account.forgotten_before_s, oldest)
    for name in names:
        parts = parse_launch_name(name)
        if not parts.manual:
            accounts[parts.schedule].launches.setdefault(parts.instant_s, 0)


def _unaccounted(history: History, final: Final, version: VersionRow, account: _Account) -> Iterator[Finding]:
    if not version.enabled:
        return
    expression = timeline(version)
    since_s = version.since_ms // 1000
    after_s = max(since_s, account.taken_before(version.version))
    if version.version == 1 and "@at" in version.resolved.lower():
        after_s = -1  # a moment that had passed when it was asked for was missed, and is accounted for
    upto_s = _upto(history, final, version)
    if version.schedule.end is not None:
        upto_s = min(upto_s, int(version.schedule.end.timestamp()))
    instant_s = expression.next_unix(after_s)
    while instant_s is not None and instant_s <= upto_s:
        accounted_s = account.upto(instant_s)
        if accounted_s is None and within_window(version.schedule, instant_s):
            text = f"{version.id}: nothing is recorded of its occurrence at {instant_s} (version {version.version})"
            yield Finding(instant_s * 1000.0, text, version.id)
        instant_s = expression.next_unix(instant_s if accounted_s is None else max(instant_s, accounted_s))
    if instant_s is None or version.until_ms is not None or version.id in final.due:
        return
    if within_window(version.schedule, instant_s) and account.upto(instant_s) is None:
        text = f"{version.id}: the record says that nothing is to come, but {instant_s} is"
        yield Finding(history.ended_ms, text, version.id)


def _upto(history: History, final: Final, version: VersionRow) -> int:
    """The last second in which an occurrence of this version must be accounted for."""
    if version.until_ms is not None:
        return version.until_ms // 1000
    if version.id in final.due:
        return final.due[version.id][0] - 1
    return int((history.ended_ms - history.clock_error_ms) // 1000) - 1


CHECKER = Checker("nothing lost", "Every occurrence that was promised is accounted for", check)
