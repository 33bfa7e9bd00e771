"""Replicas talk to each other: HTTPS, with certificates on both sides that only who has the cluster's secret can make.

``messages``   what goes over the wire, and how an error is raised again on the other side
``server``     answers the others; it is there before the replica knows anything
``directory``  who the others are and where
``client``     asks them: the port ``replica.peers.Peers``
``transfer``   brings a snapshot here, in pieces, from whoever has it

Nothing in here is authoritative: the journal is. Every question has a deadline of its own, and no answer is an answer
(``Unreachable``), never a wait. The one question that changes something, ``propose``, tells two silences apart: what
was never sent (``NoLeader``: nothing was done) and what was sent and not answered (``Uncertain``).
"""
