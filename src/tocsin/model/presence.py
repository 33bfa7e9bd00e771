"""The record by which a replica renews its leases: one for each replica, stored beside the journal."""

from __future__ import annotations

import msgspec

GROUP = "0"
"""The only group there is so far: one journal, one state, one leader."""


class Presence(msgspec.Struct, frozen=True):
    """A replica says this of itself several times a second, as long as it leads. A stand-by writes one only to tell a
    leader that its clock agrees with the time of that leader (``agrees_in_term``)."""

    counter: int
    """Grows with every record of a term: a record that arrives late is recognised by it."""
    sent_ms: int
    """When it was sent, by the time that the replica believes."""
    terms: dict[str, int] = {}
    """The groups that this replica leads and that are alive, each with its term. A group that is not listed has no
    lease."""
    seq: int = 0
    """The last entry that the replica had applied."""
    is_clock_believed: bool = True
    """Is its wall clock believed? Otherwise that time is only counted on from the last one that was, and tells nobody
    anything."""
    agrees_in_term: int = 0
    """The term of a leader whose wall clock is not believed: the wall clock of this replica is, and it shows the time
    that the leader counts on from the last one that was believed. 0: this replica says nothing of that."""
