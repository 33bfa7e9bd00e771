"""A world that is not real, with replicas that are: to find out, before anybody else does, what faults do to them.

One seed decides everything. Time is virtual, so that a thousand hours take a minute; the journal, the network, disks,
clocks and targets are simulated; the replica, its state, its decisions and its launcher are the very code that is
shipped. ``tocsin sim`` runs it.

Time and processes
``virtual``      an event loop that never waits; processes that are killed and paused at any step
``clocks``       each machine's own idea of time
``leap``         over quiet times at once
``chance``       all that is random, from one seed

The world
``world``        everything there is
``machine``      a disk, a clock, power, and the replica that runs on it
``network``      messages that get lost, come late, overtake each other
``quorum``       the journal, as a majority of the machines keeps it
``neighbours``   how replicas reach each other
``receivers``    who gets the orders; ``workshop``: commands on a machine's own disk; ``targets``: the way to them
``clients``      people who define schedules

What happens
``plan``         decided by the seed, before anything does
``faults``       what can go wrong, one function a kind
``run``          a plan, played from beginning to end
``campaign``     many seeds
``replay``       going on from a real service's data; ``original`` reads it, ``etcd_copy`` a replica's journal

What is made of it
``history``      what happened, as somebody who sees everything would tell it
``checkers``     claims, and whether the history keeps them
``finals``       what the record says in the end
``trace``        line by line
``shrink``       the shortest plan that shows a fault
``report``       in words

Nothing imports it but the command that runs it.
"""
