"""The typed client of Tocsin's API.

``client``  the client itself; raises the errors of ``tocsin.errors``
``schedules``, ``launches``, ``records``, ``transfer``, ``cluster``  its parts: a coroutine a thing that the API can do
``events``  what happens, as it happens, through every cut of the connection
``trust``   tokens and certificates
``reach``   why nobody answered
``again``   what is asked of the next replica when one fails, and what must not be
``wire``    requests go out, answers come back: several addresses, time-outs, problem details

``Client`` is loaded when it is first asked for, because an HTTP library takes a third of a second to load and
the server needs nothing here but the shapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tocsin.client.client import Client

__all__ = ["Client"]


def __getattr__(name: str) -> object:
    if name == "Client":
        from tocsin.client.client import Client

        return Client
    raise AttributeError(name)
