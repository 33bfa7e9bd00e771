"""How a call ended becomes: over, again later, or in doubt."""

from __future__ import annotations

import enum
from typing import NamedTuple

from tocsin.decide.timeline import chosen
from tocsin.model.launch import OUTCOME_UNKNOWN, LaunchState


class Ended(enum.IntEnum):
    """How a call ended, in the words of the target contract, less ``accepted``: that is no end."""

    SUCCEEDED = 1
    FAILED = 3
    NOT_STARTED = 4
    UNKNOWN = 5
    CANCELLED = 6


class RetryPolicy(NamedTuple):
    """A schedule's ``retry`` in numbers."""

    limit: int = 0
    backoff_ms: int = 1_000
    backoff_max_ms: int = 300_000
    jitter: float = 0.1


NEVER = RetryPolicy(limit=0)
WHEN_IN_DOUBT = RetryPolicy(limit=8, backoff_max_ms=60_000)
"""How a launch that may be called again is called while the answers stay unknown, if its owner says nothing."""


class Settlement(NamedTuple):
    """What is to be recorded. ``retry_at_ms`` goes with ``retrying`` alone."""

    state: LaunchState
    reason: str
    retry_at_ms: int | None = None


def settle(
    ended: Ended,
    *,
    name: str,
    attempt: int,
    reason: str,
    permanent: bool,
    retry: RetryPolicy,
    may_repeat: bool,
    cancel: str | None,
    now_ms: int,
) -> Settlement:
    """``may_repeat``: calling again is harmless (idempotent) or the owner prefers it (``on_doubt: relaunch``).

    An unknown end is doubt. It is never taken for a failure: a retry could then be the second launch.
    """
    if ended is Ended.SUCCEEDED:
        return Settlement(LaunchState.SUCCEEDED, reason)
    if ended is Ended.CANCELLED:
        return Settlement(LaunchState.CANCELLED, "; ".join(filter(None, [cancel, reason])) or "cancelled")
    if ended is Ended.UNKNOWN:
        is_over = not may_repeat or cancel is not None or permanent
        policy = NEVER if is_over else (retry if retry.limit else WHEN_IN_DOUBT)
        return _settle_doubt(name, attempt, reason, policy, now_ms)
    if cancel is not None:
        return Settlement(LaunchState.CANCELLED, cancel)
    if permanent or attempt > retry.limit:
        return Settlement(LaunchState.FAILED, _with_attempts(reason, attempt, retry.limit, permanent))
    wait_ms = backoff_ms(name, attempt, retry)
    return Settlement(LaunchState.RETRYING, reason, now_ms + wait_ms)


def backoff_ms(name: str, attempt: int, retry: RetryPolicy) -> int:
    """Doubles with each attempt, up to the maximum; jitter by the launch's name makes it up to that part longer."""
    wait_ms = min(retry.backoff_ms << min(attempt - 1, 40), retry.backoff_max_ms)
    spread = int(wait_ms * retry.jitter)
    return wait_ms + (chosen(f"{name}#{attempt}", spread + 1) if spread else 0)


def _settle_doubt(name: str, attempt: int, reason: str, policy: RetryPolicy, now_ms: int) -> Settlement:
    if attempt <= policy.limit:
        again_ms = now_ms + backoff_ms(name, attempt, policy)
        return Settlement(LaunchState.RETRYING, f"{OUTCOME_UNKNOWN}, to be called again: {reason}", again_ms)
    return Settlement(LaunchState.IN_DOUBT, reason or "it cannot be known whether it was launched")


def _with_attempts(reason: str, attempt: int, limit: int, permanent: bool) -> str:
    if limit and not permanent:
        return f"{reason} (attempt {attempt} of {limit + 1})"
    return reason
