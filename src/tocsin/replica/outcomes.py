"""What came back from the targets becomes changes."""

from __future__ import annotations

from collections.abc import Sequence

from tocsin.decide.outcome import Ended, Settlement, settle
from tocsin.model import change as c
from tocsin.model.ids import parse_launch_name
from tocsin.model.launch import EARLIER_CALL, HELD_MS, LOST_ATTEMPT, LaunchState
from tocsin.replica.flight import CALLED_AT_ONCE_MS, Flight
from tocsin.replica.reports import REASON_LENGTH_MAX, Reports
from tocsin.targets.contract import Outcome, Target, Verdict, recognises

_WithLids = (
    c.LaunchesAccepted | c.LaunchesSucceeded | c.LaunchesEnded | c.AttemptsFailed | c.HandOversWithdrawn
)
_ENDS_NO_DOUBT = (LaunchState.FAILED, LaunchState.CANCELLED)


def changes_of(reports: Reports, targets: dict[str, Target], now_ms: int) -> list[c.Change]:
    """One change a kind of outcome, as columns. Successes, which come in herds, take the short way."""
    good = (
        reports.ended
        if reports.is_plain
        else [pair for pair in reports.ended if pair[1].verdict is Verdict.SUCCEEDED]
    )
    ended = c.LaunchesEnded([], [], [], [], [], [], [], [])
    failed = c.AttemptsFailed([], [], [], [], [], [], [], [], [])
    running = list(reports.accepted.values())
    accepted = c.LaunchesAccepted(
        [flight.lid for flight in running],
        [flight.order.attempt for flight in running],
        _calls(running, now_ms),
    )
    for flight, outcome in reports.ended if len(good) < len(reports.ended) else ():
        if outcome.verdict is not Verdict.SUCCEEDED:
            settlement = settlement_of(flight, outcome, targets[flight.kind], now_ms)
            _note_other(ended, failed, flight, outcome, settlement, now_ms)
            if settlement.state is LaunchState.RETRYING:
                _column(failed.held_ms).append(_held_until_ms(flight, outcome, targets[flight.kind], now_ms))
    for flight in reports.expired:
        _note_expired(ended, flight, now_ms)
    withdrawn = c.HandOversWithdrawn(
        [flight.lid for flight in reports.withdrawn], [flight.order.attempt for flight in reports.withdrawn]
    )
    found: tuple[_WithLids, ...] = (accepted, _successes(good, now_ms), ended, failed, withdrawn)
    return [change for change in found if change.lids]


def resolutions(
    told: Sequence[tuple[Flight, Outcome, str]], targets: dict[str, Target], now_ms: int
) -> list[c.Change]:
    """Launches that were in doubt, and of which somebody has told how they ended."""
    return [
        _resolution(flight, outcome, replica, targets[flight.kind], now_ms)
        for flight, outcome, replica in told
    ]


def _resolution(
    flight: Flight, outcome: Outcome, replica: str, target: Target, now_ms: int
) -> c.LaunchResolved:
    if outcome.called_ms is not None:
        flight.note_call(outcome.called_ms)
    settlement = settlement_of(flight, outcome, target, now_ms)
    if outcome.verdict is Verdict.FAILED and settlement.state is LaunchState.CANCELLED:
        # It may have failed long before somebody wanted it to be stopped. It is not tried again.
        settlement = Settlement(LaunchState.FAILED, outcome.reason)
    state = settlement.state
    is_uncalled = outcome.verdict is Verdict.NOT_STARTED and not flight.has_failed_before
    if state is LaunchState.FAILED and is_uncalled:
        state = LaunchState.SKIPPED
    name = parse_launch_name(flight.order.name)
    note = f"told by replica {replica}" + (f": {settlement.reason}" if settlement.reason else "")
    return c.LaunchResolved(
        name.schedule,
        name.instant_s,
        name.manual,
        int(state),
        note[:REASON_LENGTH_MAX],
        replica,
        flight.order.attempt,
        _call_of(flight, now_ms),
        None if outcome.ended_ms is None else _ended_ms(flight, outcome, now_ms),
        outcome.exit_code,
        settlement.retry_at_ms,
        outcome.is_uncalled or outcome.verdict is Verdict.NOT_STARTED,
    )


def settlement_of(flight: Flight, outcome: Outcome, target: Target, now_ms: int) -> Settlement:
    """The owner's policies applied to one outcome. That a repeat did not go out, failed or was stopped says nothing of
    the call before it, unless the receiver takes both for the same."""
    is_unknown = flight.doubted and outcome.verdict is Verdict.NOT_STARTED
    retry = flight.retry_policy()
    is_recognised = recognises(target, flight.order, now_ms)
    settlement = settle(
        Ended.UNKNOWN if is_unknown else Ended(int(outcome.verdict)),
        name=flight.order.name,
        attempt=flight.order.attempt,
        reason=outcome.reason[:REASON_LENGTH_MAX],
        permanent=outcome.permanent,
        retry=retry,
        may_repeat=flight.spec.on_doubt == "relaunch"
        or is_recognised
        or (is_unknown and flight.is_relaunch and retry.limit > 0),
        cancel=flight.cancel,
        now_ms=now_ms,
    )
    is_retry = settlement.state is LaunchState.RETRYING
    if flight.is_before_loss and is_retry and flight.spec.on_doubt != "relaunch" and not is_recognised:
        return Settlement(LaunchState.IN_DOUBT, f"{settlement.reason}; {LOST_ATTEMPT}")
    if flight.doubted and settlement.state in _ENDS_NO_DOUBT and not is_recognised:
        return Settlement(LaunchState.IN_DOUBT, f"{settlement.reason}; {EARLIER_CALL}")
    return settlement


def _successes(good: Sequence[tuple[Flight, Outcome]], now_ms: int) -> c.LaunchesSucceeded:
    """Columns that say nothing are left out: then the end is the time of the entry."""
    ended_ms = [outcome.ended_ms for _, outcome in good]
    codes = [outcome.exit_code for _, outcome in good]
    return c.LaunchesSucceeded(
        [flight.lid for flight, _ in good],
        [flight.order.attempt for flight, _ in good],
        None if _is_blank(ended_ms) else [_ended_ms(*pair, now_ms) for pair in good],
        None if _is_blank(codes) else codes,
        _calls([flight for flight, _ in good], now_ms),
    )


def _calls(flights: Sequence[Flight], now_ms: int) -> list[int | None] | None:
    """When they were called, as far as that has to be told."""
    calls = [flight.called_ms for flight in flights]
    if _is_blank(calls):
        return None
    told = [_told_call(flight, now_ms) for flight in flights]
    return None if _is_blank(told) else told


def _told_call(flight: Flight, now_ms: int) -> int | None:
    """None: at once, or it is not known."""
    called_ms, order = _call_of(flight, now_ms), flight.order
    is_first = order.attempt == 1 and not flight.doubted
    if called_ms is None or (is_first and abs(called_ms - order.generated_at_ms) <= CALLED_AT_ONCE_MS):
        return None
    return called_ms


def _call_of(flight: Flight, now_ms: int) -> int | None:
    if flight.called_ms is None:
        return None
    return flight.called_ms if flight.called_ms <= now_ms else max(now_ms, flight.start_ms)


def _ended_ms(flight: Flight, outcome: Outcome, now_ms: int) -> int:
    """Not before the call, and not later than it is told. Whoever noted the end may have had another clock."""
    if outcome.ended_ms is None:
        return now_ms
    return min(max(outcome.ended_ms, flight.called_ms or flight.start_ms), now_ms)


def _note_other(
    ended: c.LaunchesEnded,
    failed: c.AttemptsFailed,
    flight: Flight,
    outcome: Outcome,
    settlement: Settlement,
    now_ms: int,
) -> None:
    column: c.LaunchesEnded | c.AttemptsFailed = ended
    if settlement.state is LaunchState.RETRYING:
        column = failed
        failed.retry_at_ms.append(settlement.retry_at_ms or now_ms)
        failed.doubtful.append(outcome.verdict is Verdict.UNKNOWN)
    else:
        ended.states.append(settlement.state)
        _column(ended.held_ms).append(
            now_ms + _held_for_ms(flight) if settlement.state is LaunchState.IN_DOUBT else None
        )
    column.lids.append(flight.lid)
    column.attempts.append(flight.order.attempt)
    column.reasons.append(settlement.reason)
    column.ended_ms.append(_ended_ms(flight, outcome, now_ms))
    column.exit_codes.append(outcome.exit_code)
    # Without a call, what is in doubt has no start.
    is_doubtful = settlement.state is LaunchState.IN_DOUBT or outcome.verdict is Verdict.UNKNOWN
    told = _call_of(flight, now_ms) if is_doubtful else _told_call(flight, now_ms)
    _column(column.called_ms).append(told)


def _note_expired(ended: c.LaunchesEnded, flight: Flight, now_ms: int) -> None:
    ended.lids.append(flight.lid)
    ended.attempts.append(flight.order.attempt)
    ended.states.append(LaunchState.SKIPPED)
    ended.reasons.append(f"deadline: it was not called within {flight.spec.deadline} of its planned moment")
    ended.ended_ms.append(now_ms)
    ended.exit_codes.append(None)
    _column(ended.held_ms).append(None)
    _column(ended.called_ms).append(None)


def _held_until_ms(flight: Flight, outcome: Outcome, target: Target, now_ms: int) -> int | None:
    """Until when a launch that is to be called again keeps its place. What is certain of a repeat says nothing of the
    call before it, unless the receiver takes both for the same and has answered."""
    if outcome.verdict is Verdict.UNKNOWN:
        return now_ms + _held_for_ms(flight)
    has_answered = outcome.verdict is Verdict.FAILED and recognises(target, flight.order, now_ms)
    return now_ms if has_answered and flight.doubted else None


def _held_for_ms(flight: Flight) -> int:
    timeout_s = flight.order.timeout_s
    return HELD_MS if timeout_s is None else int(timeout_s * 1000)


def _column(found: list[int | None] | None) -> list[int | None]:
    assert found is not None
    return found


def _is_blank(column: Sequence[int | None]) -> bool:
    return column.count(None) == len(column)
