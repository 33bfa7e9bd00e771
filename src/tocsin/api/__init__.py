"""REST under ``/v1``: JSON, RFC 3339 times in UTC, RFC 9457 problem details.

``server``       runs the API and the replica in one event loop, from start to clean end
``app``          puts the pieces together
``door``         what every request passes first: patience, TLS, who is asking, how fast, where to
``direct``       the short way to a new schedule, around the router
``resources``    the handlers, a file a resource, and what they need
``importing``    many schedules at once, read by processes of their own
``description``  what the API says about itself: ``/openapi.json`` and ``/docs``
``bodies``, ``texts``, ``query``, ``conditions``  what callers send, checked before anything is asked of the replica
``answers``      a schedule as it is sent; ``problems`` every error as problem details
``service``      what the handlers are given; ``around`` the other replicas

The replica is authoritative; nothing is kept here between two requests. A command is answered when it is
durable and applied, so what is read afterwards shows it. Refusals are ``tocsin.errors``, and become a status
in ``problems``.
"""
