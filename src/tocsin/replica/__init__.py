"""The imperative shell: everything that waits, calls and fails is in here; what to do is decided elsewhere.

``office``       who leads: on one machine the holder of a file lock
``recovery``     from snapshot and journal to a state that is up to date
``wishes``       callers' commands wait for their entry, and get an answer
``prepare``      a caller's command becomes a change
``proposer``     changes become one durable entry, and are applied
``notices``      word that an entry was applied, for whoever follows
``scheduler``    what is due, asked of the state
``launcher``     orders go to their targets, outcomes come back
``conclusion``   what the last leader left open
``snapshotter``  snapshots on an interval, the journal trimmed behind them
``housekeeper``  targets let go of what is older than history
``leader``       the loop that drives these: read this first
``replica``      one process holding the state: start, stop, propose, read

Authoritative is the journal, then the state that was applied from it. What the launcher holds in memory is only
what it is doing right now: when the process dies it is concluded anew from the state.

What can fail, and how: an append may be refused for want of room (nothing happened; callers are told, outcomes are
kept, and it goes on when there is room), or its answer may be lost (the same entry is offered until it is certain).
A target that fails is an outcome, never an exception. Anything else stops the process loudly.
"""
