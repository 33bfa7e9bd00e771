"""Style, scripts and pictures: files beside this one, as they are."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Annotated

from litestar import Response, get
from litestar.params import FromPath, QueryParameter

from tocsin.api.problems import HttpRefusal
from tocsin.ui.answer import OPERATION

_KINDS = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_FOREVER = "public, max-age=31536000, immutable"


@get("/static/{file:str}", operation_id=OPERATION, include_in_schema=False)
async def static(file: FromPath[str], v: Annotated[str, QueryParameter()] = "") -> Response[bytes]:
    """One file. Its address changes with its content; asked for without that, it is not kept."""
    found = _files().get(file)
    if found is None:
        raise HttpRefusal(404, f"there is no file {file[:60]!r}")
    kind = _KINDS[file.rpartition(".")[2]]
    headers = {"Cache-Control": _FOREVER if v else "no-cache", "X-Content-Type-Options": "nosniff"}
    return Response(found, media_type=kind, headers=headers)


@cache
def _files() -> dict[str, bytes]:
    folder = resources.files("tocsin.ui").joinpath("static")
    return {
        each.name: each.read_bytes() for each in folder.iterdir() if each.name.rpartition(".")[2] in _KINDS
    }


HANDLERS = (static,)
