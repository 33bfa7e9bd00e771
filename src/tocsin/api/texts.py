"""A schedule as somebody wrote it in JSON: understood and checked, or an error that names the field."""

from __future__ import annotations

import contextlib

import msgspec

from tocsin.errors import InvalidInput
from tocsin.model import schedule as schedules
from tocsin.model.schedule import Checked, Schedule


def schedule_of(body: bytes, path_id: str | None = None) -> Schedule:
    """A checked schedule. With ``path_id`` the body may leave its id out, but must not name another one."""
    return checked(body, path_id)[0].schedule


def checked(body: bytes, path_id: str | None = None) -> tuple[Checked, bytes]:
    """The same with what was found out, and how it will be kept."""
    skim(body)
    try:
        found = schedules.decode(body if path_id is None else _with_id(body, path_id))
        # Whatever cannot be written to the journal must be refused here: later is too late.
        return found, msgspec.msgpack.encode(found.schedule)
    except RecursionError:
        raise unusable("it is nested too deeply") from None
    except (OverflowError, ValueError) as wrong:
        raise unusable(str(wrong)) from None


class _Outline(msgspec.Struct):
    payload: msgspec.Raw = msgspec.Raw(b"null")


def skim(body: bytes) -> None:
    """A payload that is far too large is refused before it is made of a hundred thousand lists: they cost more than
    the text. Up to twice the limit it may still be blanks that make it long."""
    if len(body) <= 2 * schedules.PAYLOAD_BYTES_MAX:
        return
    # Whatever else is wrong with it the decoder says best.
    with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        schedules.check_payload_size(len(msgspec.json.decode(body, type=_Outline).payload) // 2)


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
        raise another_id(msgspec.json.decode(written), path_id)
    return body


def another_id(written: object, path_id: str) -> InvalidInput:
    return InvalidInput(
        "the body has another id than the address",
        field="id",
        value=written,
        allowed=path_id,
        hint="leave it out, or delete the one and create the other: a schedule cannot be renamed",
    )


def unusable(complaint: str) -> InvalidInput:
    return InvalidInput(complaint, field="schedule", value="(not shown)")
