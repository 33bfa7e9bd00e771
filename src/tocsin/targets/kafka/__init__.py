"""Events on topics of Kafka. The broker's word that it has an event is the only success.

The client library (librdkafka) has queues and threads of its own and tries again by itself. Four things follow:

*What was given to it cannot be told apart any more.* Its report of a message that was not acknowledged does not say
whether an earlier try had reached the broker. So ``not_started`` is said only of events that it was never given, or
that had no partition yet; all else without acknowledgement is ``unknown``.

*So it is given little.* Events wait in ``lane``, one lane a topic, and only as many are handed on as the broker keeps
up with: nothing while no broker answers (it is asked before), and one at a time after trouble. Whatever waits there is
certain, and a broker that dies leaves a window of doubt, not a herd of it.

*Its queue must not outlive the leader's authority.* An event that waits in it while a broker is down would go out when
that comes back, whoever leads by then. Shortly before authority ends a producer with events that are still under way
gets no more of them (``retired``), and when it ends all that has not left is thrown away, as often as more comes back
for another try. A retired producer is never used again: what was taken out of its queue leaves a gap in its numbers.

*It must never block the event loop.* One thread (``courier``) owns it.

==============  ===============================================================================
``properties``  the settings: addresses, and the file with TLS and SASL
``parcel``      one event on its way, and the batch that waits for it
``lane``        the events of one topic: waiting, and under way
``sender``      one producer
``verdicts``    what the library's words mean
``senders``     the one that is sent through, and those that are retired
``hearing``     whether a broker answers
``terms``       how long authority lasts
``courier``     the thread: takes in, asks, sends, listens, throws away
``target``      the target
==============  ===============================================================================
"""
