"""What is recorded of a launch is what happened.

==========  ====================================================================================
succeeded   a call of it was done and succeeded
failed      no call of that attempt succeeded, or still goes on
skipped     nothing was ever done under that name; the same holds for all that is recorded as missed
cancelled   somebody asked for it, or a newer occurrence replaced it; a workshop did stop it, or never began it
            and it has no start
in_doubt    something went wrong at that time, or the receiver itself kept silent
==========  ====================================================================================

An attempt that was done and of which nobody was told how it ended stays in doubt, whatever came of later attempts.
What a workshop did is recorded when it was begun and when it ended, however late anybody was told.
What was started is an occurrence of the version that it was started under, while that one was in force. And whoever
asks why is answered: everything but a success has a reason. What a person said became of a launch is not
checked, nor what a target told that was untrue. What is given up because the record of that time was lost may have
been done: that is what its reason says.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator

from tocsin.model.command import CancelLaunch
from tocsin.model.ids import launch_name
from tocsin.model.target import ExecTarget
from tocsin.simulation.checkers.contract import Checker, Finding
from tocsin.simulation.checkers.reading import (
    calls_by_name,
    clock_was_changed,
    is_doubtful,
    is_repeatable,
    patience_ms,
    record,
    resolved_by_hand,
    rows_by_name,
    timeline,
    versions,
)
from tocsin.simulation.history import Call, Final, History, LaunchRow, MissedRow

AFTERMATH_MS = 60_000.0
"""So long after a fault something may still be in doubt because of it."""
ON_THE_WAY_MS = 2_000.0
"""What an order and its answer take from the time in which the answer is waited for."""
MOMENT_MS = 1_000.0
"""So much the recorded moment of a start or an end may differ from the true one."""
_HOW = {"": "still goes on", "lost": "was cut off, and nobody knows how far it came"}
_REASONED = frozenset({"failed", "skipped", "cancelled", "in_doubt", "retrying", "queued"})


def check(history: History) -> Iterator[Finding]:
    final = record(history)
    if final is None:
        return
    truth = _Truth(history)
    for row in final.launches:
        if row.name != launch_name(row.schedule, row.instant_s, row.is_manual):
            text = f"{row.name} is recorded for {row.schedule} at {row.instant_s}"
            yield Finding(row.planned_ms, text, row.name)
        if row.state in _REASONED and not row.reason:
            yield Finding(_when(row), f"{row.name} is {row.state} without a reason", row.name)
        if row.name not in history.lies and (wrong := truth.wrong(row)):
            told = f" ({row.reason})" if row.reason else ""
            yield Finding(_when(row), f"{row.name} is recorded as {row.state}{told}, and {wrong}", row.name)
    yield from _moments(history, final)
    yield from _missed(history, final, truth)
    if not history.lost:
        yield from _out_of_force(history, final)


class _Truth:
    def __init__(self, history: History) -> None:
        self._history = history
        self._calls = calls_by_name(history)
        self._by_hand = resolved_by_hand(history)
        self._cancels = {
            asked.command.name for asked in history.asked if isinstance(asked.command, CancelLaunch)
        }
        self._specs = versions(record(history))
        self._troubles = sorted(
            (fault.at_ms, (fault.until_ms or fault.at_ms) + AFTERMATH_MS) for fault in history.faults
        )

    def wrong(self, row: LaunchRow) -> str:
        calls = self._calls.get(row.name, [])
        if row.state in self._by_hand.get(row.name, ()):
            return ""
        match row.state:
            case "succeeded":
                return _wrong_success(calls)
            case "failed":
                remembered = self._remembered(calls)
                return _wrong_failure(row, remembered) or self._wrong_certainty(row, remembered)
            case "skipped":
                return self._wrong_skip(row, calls)
            case "cancelled":
                return self._wrong_cancel(row, calls) or self._wrong_certainty(row, self._remembered(calls))
            case "in_doubt":
                return self._wrong_doubt(row, calls)
        return ""

    def was_lost(self, version: int, reason: str, call: Call) -> bool:
        """It was given up because nobody knows what was done in that time, and the reason says so. What may be called
        again is not in doubt: its policies decide as if it had not been."""
        around = [lost for lost in self._history.lost if lost.since_ms <= call.sent_ms <= lost.at_ms]
        if not around:
            return False
        if any(
            lost.former == lost.incarnation
            and clock_was_changed(self._history, lost.since_ms, lost.at_ms + 60_000)
            for lost in around
        ):
            return True  # a survivor who was alone and whose clock was wrong had nobody to ask for the time
        known = self._specs.get((call.schedule, version))
        return "lost" in reason or known is None or is_repeatable(known.schedule, [call])

    def _remembered(self, calls: list[Call]) -> list[Call]:
        """Those whose end is in no record that was lost: what is recorded then is what became of the next call."""
        return [
            call
            for call in calls
            if not any(
                call.sent_ms <= lost.at_ms and (call.ended_ms is None or call.ended_ms >= lost.since_ms)
                for lost in self._history.lost
            )
        ]

    def _wrong_skip(self, row: LaunchRow, calls: list[Call]) -> str:
        for call in calls:
            if call.had_effect and not self.was_lost(row.version, row.reason, call):
                return f"attempt {call.attempt} was done by {call.replica} in term {call.term}"
        return ""

    def _wrong_certainty(self, row: LaunchRow, calls: list[Call]) -> str:
        if row.doubt is not None or self._by_hand.get(row.name, set()) - {"relaunch"}:
            return ""
        for call in calls:
            is_cut = row.state == "cancelled" and call.attempt == row.attempt  # and its reason says so
            if call.had_effect and not call.is_told and not is_cut:
                return f"nobody was told how attempt {call.attempt} ended: it is not recorded as in doubt"
        return ""

    def _wrong_cancel(self, row: LaunchRow, calls: list[Call]) -> str:
        why = row.cancel or row.reason
        if row.name not in self._cancels and not why.startswith("replaced by"):
            return "nobody had asked for that"
        if row.started_ms is not None and not calls and not is_doubtful(row) and self._is_command(row):
            return "with a start, though it was never begun"
        for call in [] if is_doubtful(row) else self._remembered(calls):
            is_of_attempt = call.attempt == row.attempt and call.receiver == "workshop"
            if is_of_attempt and call.had_effect and call.answer == "succeeded":
                return "it had succeeded"
        return ""

    def _is_command(self, row: LaunchRow) -> bool:
        """No network can have swallowed the call."""
        version = self._specs.get((row.schedule, row.version))
        return version is not None and isinstance(version.schedule.target, ExecTarget)

    def _wrong_doubt(self, row: LaunchRow, calls: list[Call]) -> str:
        version = self._specs.get((row.schedule, row.version))
        waited_ms = 0 if version is None else patience_ms(version.schedule)
        if any(_kept_silent(call, waited_ms) for call in calls if call.had_effect):
            return ""
        from_ms = min([call.sent_ms for call in calls], default=float(row.started_ms or row.planned_ms))
        if not calls and clock_was_changed(self._history, self._history.began_ms, self._history.ended_ms):
            return ""  # when it was, in truth, nobody can tell
        if row.doubt is not None and any(row.planned_ms <= lost.at_ms for lost in self._history.lost):
            return ""  # it waited when the record was lost, and may have been called in that time
        until_ms = max(float(row.ended_ms or self._history.ended_ms), from_ms)
        spare_ms = self._history.clock_error_ms + 1000
        if any(at <= until_ms + spare_ms and from_ms - spare_ms <= until for at, until in self._troubles):
            return ""
        return "nothing had gone wrong at that time and its receiver had answered"


def _wrong_success(calls: list[Call]) -> str:
    if any(call.had_effect and call.answer == "succeeded" for call in calls):
        return ""
    how = ", ".join(sorted({call.answer or "going on" for call in calls})) or "no call reached its receiver"
    return f"nothing of it succeeded: {how}"


def _wrong_failure(row: LaunchRow, calls: list[Call]) -> str:
    for call in calls:
        if any(other.term > call.term and other.at_ms < call.at_ms for other in calls):
            continue  # its caller was paused right before the call, and nobody was asked for it any more
        if call.attempt == row.attempt and call.had_effect and call.answer not in ("failed", "cancelled"):
            how = _HOW.get(call.answer, call.answer)
            return f"attempt {call.attempt} {how}, called by {call.replica} in term {call.term}"
    return ""


def _kept_silent(call: Call, waited_ms: float) -> bool:
    if not call.is_told or call.ended_ms is None or call.answer == "lost":
        return True
    return waited_ms > 0 and call.ended_ms - call.sent_ms > waited_ms - ON_THE_WAY_MS


def _moments(history: History, final: Final) -> Iterator[Finding]:
    """A workshop's record tells when a command began and ended, also after a fail-over or a doubt."""
    if history.lost or clock_was_changed(history, history.began_ms, history.ended_ms):
        return
    calls, by_hand = calls_by_name(history), resolved_by_hand(history)
    spare_ms = history.clock_error_ms + MOMENT_MS
    for row in final.launches:
        done = [call for call in calls.get(row.name, []) if call.had_effect]
        if row.name in history.lies or row.name in by_hand or row.state not in ("succeeded", "failed"):
            continue
        for call in done:
            if call.receiver != "workshop" or row.ended_ms is None or row.started_ms is None:
                continue
            if call.attempt == 1 and abs(row.started_ms - call.at_ms) > spare_ms:
                text = (
                    f"{row.name} began at {call.at_ms:.0f}, and is recorded to have begun at {row.started_ms}"
                )
                yield Finding(call.at_ms, text, row.name)
            is_last = call.attempt == row.attempt and call.answer == row.state
            if is_last and abs(row.ended_ms - (call.ended_ms or 0)) > spare_ms:
                text = f"{row.name} ended at {call.ended_ms:.0f}, and is recorded to have ended at {row.ended_ms}"
                yield Finding(call.ended_ms or call.at_ms, text, row.name)


def _missed(history: History, final: Final, truth: _Truth) -> Iterator[Finding]:
    """Nothing was done of what is recorded as missed."""
    stretches: defaultdict[str, list[MissedRow]] = defaultdict(list)
    for missed in sorted(final.missed, key=lambda missed: (missed.schedule, missed.from_s)):
        stretches[missed.schedule].append(missed)
    rows = rows_by_name(final)
    for call in history.calls:
        known = stretches.get(call.schedule)
        if known is None or not call.had_effect or call.name in rows or call.name.endswith("-manual"):
            continue
        index = bisect_right(known, call.instant_s, key=lambda missed: missed.from_s) - 1
        if index < 0 or call.instant_s >= known[index].before_s:
            continue
        if not truth.was_lost(known[index].version, known[index].reason, call):
            text = (
                f"{call.name} is recorded as missed ({known[index].reason}), and was done by {call.replica}"
            )
            yield Finding(call.at_ms, text, call.name)


def _out_of_force(history: History, final: Final) -> Iterator[Finding]:
    """An edit, a pause or a deletion ends what its schedule promised."""
    specs = versions(final)
    timelines = {key: timeline(version) for key, version in specs.items()}
    is_clock_right = not clock_was_changed(history, history.began_ms, history.ended_ms)
    for row in final.launches:
        key = row.schedule, row.version
        if row.is_manual or row.is_backfill or row.started_ms is None or key not in specs:
            continue
        version = specs[key]
        if not version.enabled or not timelines[key].matches(row.instant_s):
            text = (
                f"{row.name} was started, and is no occurrence of version {row.version}: {version.resolved}"
            )
            yield Finding(_when(row), text, row.name)
        elif version.until_ms is not None and is_clock_right:
            over_ms = row.instant_s * 1000 - version.until_ms
            if over_ms > 2 * history.clock_error_ms:
                text = (
                    f"{row.name} was started under version {row.version}, which had ended {over_ms} ms before"
                )
                yield Finding(_when(row), text, row.name)


def _when(row: LaunchRow) -> float:
    return float(row.ended_ms or row.started_ms or row.planned_ms)


CHECKER = Checker("rows true", "What is recorded of a launch is what happened", check)
