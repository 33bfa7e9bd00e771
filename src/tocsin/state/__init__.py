"""What the entries add up to: one SQLite file on every replica.

The journal is the truth. This file only saves replaying it: it is written without waiting for the disk, so after a
power cut it is consistent at an older sequence number, and the journal brings the rest. A damaged file is rebuilt
from a snapshot and the journal.

``tables``    the tables, and why each is shaped as it is
``apply``     entries go in: one transaction an entry, deterministic, no clock, no chance
``store``     the open file
``queries``   what the leader asks for: due rows, open launches, retries
``retention`` which history is to be deleted next
``views``     what people ask for: schedules, launches, why
``events``    entries as what happened, for whoever follows
``digest``    checksums by which replicas compare themselves
``snapshot``  the state at one sequence number, as a checksummed file
"""
