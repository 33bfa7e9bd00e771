"""What callers send: bodies and conditions, checked before anything is asked of the replica."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec
from litestar import Request
from litestar.exceptions import InternalServerException

from tocsin.api.problems import HttpRefusal
from tocsin.errors import InvalidInput
from tocsin.model import schedule as schedules
from tocsin.model.schedule import Schedule, invalid_field

NOTE_LENGTH_MAX = 2000
_ETAG = re.compile(r'"?([1-9][0-9]{0,14})"?')
_T = TypeVar("_T")


class PauseBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why a schedule is paused."""

    note: str = ""


class CancelBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why a launch is cancelled."""

    reason: str = "cancelled by hand"


async def read(request: Request[Any, Any, Any]) -> bytes:
    """The whole body. A caller that hangs up in the middle of it is no fault of ours."""
    try:
        return await request.body()
    except InternalServerException as cut_off:
        raise HttpRefusal(400, cut_off.detail) from None


def schedule_of(body: bytes, path_id: str | None = None) -> Schedule:
    """A checked schedule. With ``path_id`` the body may leave its id out, but must not name another one."""
    try:
        schedule = schedules.decode(body if path_id is None else _with_id(body, path_id))
        # Whatever cannot be written to the journal must be refused here: later is too late.
        msgspec.msgpack.encode(schedule)
    except RecursionError:
        raise _unusable("it is nested too deeply") from None
    except (OverflowError, ValueError) as wrong:
        raise _unusable(str(wrong)) from None
    return schedule


def small(body: bytes, shape: type[_T]) -> _T:
    """A body that may be left out."""
    try:
        found = msgspec.json.decode(body or b"{}", type=shape)
    except msgspec.ValidationError as wrong:
        raise invalid_field(wrong) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise InvalidInput(
            f"this is not JSON: {wrong}", field="body", value="", allowed="a JSON object"
        ) from None
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


def version_of(header: str | None, name: str) -> int | None:
    """The version that ``If-Match`` demands."""
    if header is None:
        return None
    found = _ETAG.fullmatch(header.strip())
    if found is None:
        raise InvalidInput(
            f"{header[:60]!r} is not a version",
            field=name,
            value=header,
            allowed='the ETag of a read, such as "3"',
        )
    return int(found[1])


def _with_id(body: bytes, path_id: str) -> bytes:
    """The same object with the path's id where it has none."""
    try:
        fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return body  # not an object, or not JSON at all: the full decoder says so best
    written = fields.get("id")
    if written is None:
        return msgspec.json.encode({"id": path_id, **fields})
    if bytes(written) != msgspec.json.encode(path_id) and msgspec.json.decode(written) != path_id:
        raise InvalidInput(
            "the body has another id than the address",
            field="id",
            value=msgspec.json.decode(written),
            allowed=path_id,
            hint="leave it out, or delete the one and create the other: a schedule cannot be renamed",
        )
    return body


def _unusable(complaint: str) -> InvalidInput:
    return InvalidInput(complaint, field="schedule", value="(not shown)")
