"""Events to a JetStream stream of NATS.

Authoritative is the stream's acknowledgement: an event is done when it has come, and not before. The event's message id
is the launch's name, so that the stream itself drops a repeat, for as long as it remembers names (``windows``).

The protocol is spoken here (``wire``) and not by a client library, for two reasons. A library keeps what it cannot
send, and sends it when the server is back: by then the leader's authority may have ended. And the one for Python costs
about three times as much processor time an event, in the thread that the leader needs for everything else.

=====================================================  ==========================================================
what happens                                           what it is
=====================================================  ==========================================================
the stream acknowledges, also as a duplicate           succeeded
the stream refuses: full, too large, not permitted     failed; permanent where the event itself is what is wrong
not connected, nobody listens (503), authority ended   not_started: nothing was taken by anyone
no acknowledgement in time, or the connection ends     unknown
=====================================================  ==========================================================
"""
