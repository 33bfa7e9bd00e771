"""What all parts of the client share: a question goes out, and a typed answer comes back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar
from urllib.parse import quote

import msgspec

from tocsin.client.wire import Wire
from tocsin.errors import TocsinError
from tocsin.model.ids import check_id, parse_launch_name

_T = TypeVar("_T")
PAGE = 1000
"""So many of a list are asked for at a time."""


class Asking:
    """The base of every part of the client."""

    _wire: Wire

    async def _get(self, path: str, shape: type[_T], params: Iterable[tuple[str, str]] = ()) -> _T:
        return decoded((await self._wire.request("GET", path, params=params)).body, shape)

    async def _post(self, path: str, shape: type[_T], body: object) -> _T:
        return decoded((await self._wire.request("POST", path, body=msgspec.json.encode(body))).body, shape)


def decoded(body: bytes, shape: type[_T]) -> _T:
    try:
        return msgspec.json.decode(body, type=shape)
    except msgspec.MsgspecError as wrong:
        raise TocsinError(
            f"the answer is not what this version understands: {wrong}",
            hint="is this the address of Tocsin, and is it of the same version?",
        ) from None


def schedule_path(id: str) -> str:
    """Checked here: with an empty id it would be the address of something else."""
    return "/v1/schedules/" + quote(check_id(id), safe="")


def launch_path(name: str) -> str:
    parse_launch_name(name)
    return "/v1/launches/" + quote(name, safe="")
