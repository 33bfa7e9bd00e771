"""What callers send: bodies, checked before anything is asked of the replica."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec
from litestar import Request

from tocsin.api.texts import another_id, schedule_of, skim, unusable
from tocsin.errors import InvalidInput
from tocsin.model.schedule import Schedule, invalid_field

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
NOTE_LENGTH_MAX = 2000
ON_LOOP_BYTES_MAX = 16 * 1024
_T = TypeVar("_T")
_P = ParamSpec("_P")
_one_at_a_time = ThreadPoolExecutor(max_workers=1, thread_name_prefix="bodies")
"""A large body is work for the processor: those who launch shall meet one of them at most."""


class PauseBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why a schedule is paused."""

    note: str = ""


class NoBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nothing is to be said: an empty object, or no body at all."""


class SchedulePatch(msgspec.Struct, frozen=True):
    """Fields of a schedule that are to change. Only for the description: what counts is the result."""


class CancelBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why a launch is cancelled."""

    reason: str = "cancelled by hand"


async def taken(
    request: Request[Any, Any, Any],
    make: Callable[Concatenate[bytes, _P], _T],
    *args: _P.args,
    **named: _P.kwargs,
) -> _T:
    """What is made of the body."""
    body = await request.body()
    return await aside(len(body), make, body, *args, **named)


async def aside(size: int, make: Callable[_P, _T], *args: _P.args, **named: _P.kwargs) -> _T:
    """Made at once of little, and of much on a thread: a launch is not late because somebody sent a long list."""
    if size <= ON_LOOP_BYTES_MAX:
        return make(*args, **named)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_one_at_a_time, partial(make, *args, **named))


def json_of(body: bytes, shape: type[_T]) -> _T:
    """A body of this shape, or an error that names the field."""
    try:
        return msgspec.json.decode(body, type=shape)
    except msgspec.ValidationError as wrong:
        raise invalid_field(wrong, shape) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise InvalidInput(
            f"this is not JSON: {wrong}", field="body", value="", allowed="a JSON object"
        ) from None


def optional(body: bytes, shape: type[_T]) -> _T:
    """A body that may be left out."""
    return json_of(body or b"{}", shape)


def small(body: bytes, shape: type[_T]) -> _T:
    """A body of short texts that may be left out."""
    found = optional(body, shape)
    for field in shape.__annotations__:
        text = getattr(found, field)
        if len(text) > NOTE_LENGTH_MAX:
            raise InvalidInput(
                f"{len(text)} characters are too many",
                field=field,
                value=len(text),
                allowed=f"up to {NOTE_LENGTH_MAX}",
            )
    return found


def patch_of(body: bytes, path_id: str) -> dict[str, Any]:
    """A merge patch (RFC 7396), which may name the id of the address and no other."""
    skim(body)
    try:
        changes = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise InvalidInput(
            f"this is not JSON: {wrong}", field="body", value="", allowed="a JSON object"
        ) from None
    if not isinstance(changes, dict):
        raise InvalidInput("a patch must be an object", field="body", value="", allowed="a JSON object")
    if "id" in changes and changes["id"] != path_id:
        raise another_id(changes["id"], path_id)
    return changes


def patched(schedule: Schedule, changes: dict[str, Any]) -> Schedule:
    """The schedule with the changes, checked as a whole."""
    try:
        # By way of JSON, so that what is merged is what a caller reads and writes.
        fields = msgspec.json.decode(msgspec.json.encode(schedule))
        return schedule_of(msgspec.json.encode(_merged(fields, changes)))
    except RecursionError:
        raise unusable("it is nested too deeply") from None


def _merged(target: object, changes: object) -> object:
    if not isinstance(changes, dict):
        return changes
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in changes.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged
