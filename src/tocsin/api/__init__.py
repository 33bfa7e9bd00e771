"""REST under ``/v1``: JSON, RFC 3339 times in UTC, RFC 9457 problem details.

``server``     runs the API and the replica in one event loop, from start to clean end
``app``        puts the pieces together
``gate``       what every request passes first: guard, addresses, body
``guard``      who may ask at all: keeps web pages away from a service without tokens
``addresses``  ids contain slashes and verbs are a colon suffix: taken apart here and nowhere else
``problems``   every error as problem details
``schedules``, ``launches``, ``status``  one file a resource
``events``     what happens, as server-sent events; ``streams`` keeps the readers and what they share
``openapi``    the description at ``/openapi.json``

The replica is authoritative; nothing is kept here between two requests. A command is answered when it is
durable and applied, so what is read afterwards shows it. Refusals are ``tocsin.errors``, and become a status
in ``problems``.
"""
