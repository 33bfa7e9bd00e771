"""What a handler says about itself, for the description and the page made of it.

It stands at the handler, where whoever changes the one sees the other::

    @get("/v1/things/{id:str}", operation_id="getThing", opt=about(
        "things", "Read a thing", answers={200: ("The thing.", ThingView)}, refusals={404: "There is none."}))

Parameters are taken from the handler's signature, the long description from its docstring. Refusals that any request
may meet (400, 401, 403, 500, 503, 504 if it writes, and 413 and 415 with a body) need not be named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

JSON = "application/json"
KEY = "about"


class Body(NamedTuple):
    """What is to be sent."""

    shape: Any
    kinds: tuple[str, ...] = (JSON,)
    is_optional: bool = False
    may_lack: str = ""
    """A field that the address has already."""
    example: Any = None


class Answer(NamedTuple):
    """What comes back when all is well."""

    description: str
    shape: Any = None
    """None: nothing."""
    kinds: tuple[str, ...] = (JSON,)
    headers: tuple[str, ...] = ()
    """Beside ``ETag`` of a schedule and ``Location`` of what is new."""


class About(NamedTuple):
    tag: str
    summary: str
    answers: Mapping[int, Answer]
    refusals: Mapping[int, str]
    body: Body | None = None


def about(
    tag: str,
    summary: str,
    *,
    answers: Mapping[int, tuple[Any, ...]],
    refusals: Mapping[int, str] | None = None,
    body: Any = None,
    body_kinds: tuple[str, ...] = (JSON,),
    body_is_optional: bool = False,
    body_may_lack: str = "",
    example: Any = None,
) -> dict[str, Any]:
    """For a handler's ``opt``. An answer is ``(description, shape)``, and more of ``Answer``."""
    sent = None if body is None else Body(body, body_kinds, body_is_optional, body_may_lack, example)
    given = {status: Answer(*answer) for status, answer in answers.items()}
    return {KEY: About(tag, summary, given, refusals or {}, sent)}
