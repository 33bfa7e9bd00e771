"""How a call to etcd fails.

All of them are ``JournalUnavailable`` to whoever does not look closer. An append does: see ``journal.py``.
"""

from __future__ import annotations

from tocsin.errors import JournalUnavailable

# gRPC's status codes, as far as they mean something here
INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, PERMISSION_DENIED, EXHAUSTED = 3, 4, 5, 7, 8
FAILED_PRECONDITION, OUT_OF_RANGE, UNAVAILABLE, UNAUTHENTICATED = 9, 11, 14, 16

_CERTAIN = frozenset(
    {INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED, FAILED_PRECONDITION, OUT_OF_RANGE, UNAUTHENTICATED}
)


class NotSent(JournalUnavailable):
    """Nothing that etcd could act on has left this machine."""

    is_certain = True


class Lost(JournalUnavailable):
    """The request went out and no answer came: it may have been carried out, or may be later."""

    is_certain = False


class Said(JournalUnavailable):
    """etcd answered with an error."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"etcd says: {reason or f'gRPC status {code}'}")
        self.code = code
        self.reason = reason

    @property
    def is_full(self) -> bool:
        """Beware: etcd may say so of a transaction that it has applied all the same."""
        return self.code == EXHAUSTED and "space exceeded" in self.reason

    @property
    def is_certain(self) -> bool:
        """Nothing was done and nothing will be: etcd refused it before it reached the log."""
        if self.code == EXHAUSTED:
            return "too many requests" in self.reason
        return self.code in _CERTAIN or "not supported for learner" in self.reason

    @property
    def is_stale_token(self) -> bool:
        return "invalid auth token" in self.reason or "revision of auth store is old" in self.reason

    @property
    def is_passing(self) -> bool:
        """Another member may answer better: no leader, a learner, on its way down, overloaded."""
        is_ending = "raft: stopped" in self.reason  # etcd has no code of its own for this
        return (
            self.code in (UNAVAILABLE, DEADLINE_EXCEEDED) or is_ending or "too many requests" in self.reason
        )
