"""Login and logout, where tokens are needed.

Whoever shows a token opens a session (see ``api.door.sessions``). The browser keeps it in a cookie that no script can
read, and sends it back to whichever replica it asks. It is not sent along with what pages of other sites start, except
for plain links; and whoever comes with it may change something only from a page of ours (see ``api.door``).
"""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import parse_qs, quote

import structlog
from litestar import Request, Response, get, post
from litestar.params import QueryParameter

from tocsin.api.door.access import COOKIE
from tocsin.api.door.gate import address_of
from tocsin.api.door.guard import FORM_BYTES_MAX
from tocsin.api.service import Given
from tocsin.errors import TocsinError
from tocsin.ui.answer import HEADERS, OPERATION, plain

log = structlog.get_logger()

_WRITTEN = "/?#[]@!$&'()*+,;=:%~-._"
"""What stands in an address as it is. All else, a header could not hold."""


@get("/login", operation_id=OPERATION, include_in_schema=False)
async def login_page(service: Given, to: Annotated[str, QueryParameter()] = "/") -> Response[Any]:
    """Where somebody shows a token."""
    if not service.doorkeeper.tokens_needed:
        return _sent_to("/")
    return plain("login.html", to=_within(to), wrong="")


@post("/login", operation_id=OPERATION, include_in_schema=False, request_max_body_size=FORM_BYTES_MAX)
async def login(request: Request[Any, Any, Any], service: Given) -> Response[Any]:
    """If the token is good, a session is opened, and the browser keeps it."""
    sent = await _form(request)
    token, to = sent.get("token", "").strip(), _within(sent.get("to", "/"))
    try:
        address = address_of(request.scope)
        caller = await service.doorkeeper.caller({"authorization": f"Bearer {token}"}, address)
        opened = await service.doorkeeper.sessions.open(caller, address)
    except TocsinError as refused:
        return plain("login.html", status=401, to=to, wrong=f"{refused.message}. {refused.hint}")
    return _sent_to(to, _cookie(request, opened.text, opened.length_s))


@post("/logout", operation_id=OPERATION, include_in_schema=False, request_max_body_size=FORM_BYTES_MAX)
async def logout(request: Request[Any, Any, Any], service: Given) -> Response[Any]:
    """The session is closed, and the browser forgets it. The token itself stays valid until it is revoked."""
    try:
        await service.doorkeeper.close_session(request.headers)
    except TocsinError as refused:
        log.warning("a logout was not recorded, the session stays open until it expires", reason=str(refused))
    return _sent_to("/login", _cookie(request, "", 0))


HANDLERS = (login_page, login, logout)


async def _form(request: Request[Any, Any, Any]) -> dict[str, str]:
    body = await request.body()
    return {key: values[0] for key, values in parse_qs(body.decode(errors="replace")).items()}


def _within(to: str) -> str:
    """Somewhere in this console: a link to the login must not lead anywhere else."""
    is_ours = to.startswith("/") and not to.startswith(("//", "/\\")) and to.isprintable()
    return to if is_ours and not to.startswith("/login") else "/"


def _cookie(request: Request[Any, Any, Any], session: str, kept_s: int) -> str:
    secure = "; Secure" if request.scope["scheme"] == "https" else ""
    return f"{COOKIE}={session}; Path=/; HttpOnly; SameSite=Lax; Max-Age={kept_s}{secure}"


def _sent_to(to: str, cookie: str = "") -> Response[Any]:
    headers = {**HEADERS, "Location": quote(to, safe=_WRITTEN), **({"Set-Cookie": cookie} if cookie else {})}
    return Response(b"", status_code=303, headers=headers)
