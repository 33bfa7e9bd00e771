"""The imperative shell: everything that waits, calls and fails is in here; what to do is decided elsewhere.

The whole
``replica``      one process holding the state: start, stop, propose, read, and what other replicas may ask of it
``parts``        what it is made of, and how the parts are joined
``career``       following, standing for office, leading, and following again
``office``       who leads, and for how long that is certain
``peers``        the other replicas, as this one needs them
``clock_witness`` a stand-by that cannot be asked tells a leader that doubts its clock that its own is right
``rounds``       every few seconds a look at them: digests, clocks, how far the journal can be trimmed

One term in office, in the order of a launch
``leader``       the loop that drives the rest: read this first
``vigil``        was it away, is its clock right, when does it have to be heard again?
``wishes``       callers' commands wait for their entry, and get an answer; ``objection`` looks whether they still may
``prepare``      a caller's command becomes a change
``scheduler``    what is due, asked of the state; ``outlook`` passes over what there is no room for, ``queued_reader``
                 reads what waits in the state ``queued``
``proposer``     changes become one durable entry, and are applied
``flight``       a launch on its way
``launcher``     orders go to their targets, outcomes come back; ``lanes`` keep targets from holding each other up
``outcomes``     what came back becomes changes
``forgetting``   old history, now and then
``tally``        what happened, counted
``surroundings`` what every term has in common

A change of leaders
``conclusion``   what the last leader left open
``elsewhere``    whoever was to make a call is asked what became of it
``afterlife``    calls that outlive their term, and the answers to such questions
``terms``        those in which this disk led

The state
``recovery``     from state file or snapshot to a state that belongs to the journal
``origins``      where a state comes from that this disk does not hold: others, backups, what a person restored
``follower``     entries that others write are applied
``applying``     entries go in, one at a time; ``notices`` tell whoever waits for them
``snapshotter``  snapshots at checkpoints; ``digesting`` computes what they add up to
``backuper``     snapshots copied elsewhere
``wal``          the state's WAL is copied into its file, beside the loop
``housekeeper``  targets let go of what is older than history
``nagging``      what stays wrong is said now and then, not every second

Looking at itself
``auditor``      beside the leader: what was to happen is reckoned anew, and held against what is recorded
``audits``       portions of that work, also for who asks for it
``silence``      is something due, and nobody decides anything?

Authoritative is the journal, then the state that was applied from it. What the launcher holds in memory is only
what it is doing right now: when the process dies it is concluded anew from the state.

What can fail, and how: an append may be refused for want of room (nothing happened; callers are told, outcomes are
kept, and it goes on when there is room), its answer may be lost (the same entry is offered until it is certain), or
somebody else has written in its place (the term is over). A target that fails is an outcome, never an exception.
Anything else stops the process loudly.
"""
