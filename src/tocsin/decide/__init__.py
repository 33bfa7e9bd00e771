"""What is to happen, as a pure function of the state and the time: no clock, no I/O, no chance.

``timeline``   a schedule's instants with its window and jitter
``settling``   what a text is settled as, and which edits keep it
``due``        due rows become starts, skips, waits; and every schedule's next instant
``missed``     what nobody was in office for
``waiting``    queued launches start, failed ones are tried again
``outcome``    how a call ended becomes: over, again later, or in doubt
``retention``  which history is too old or too much
``preview``    what a new or changed schedule would do
``why``        what was recorded about an instant, in plain words
``rotation``   the next step of changing the cluster's secret, by what the replicas say of theirs

The rows come from ``state.queries``; what comes out goes into the journal before anything else happens.
"""
