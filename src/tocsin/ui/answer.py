"""How a page is answered: from a template, with headers that let the browser ask nobody but us.

Templates are Jinja2's, and whatever they are given is escaped. The policy allows neither script nor style inside of a
page: what somebody managed to smuggle into a name or a note would be text, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from functools import cache, lru_cache
from importlib import resources
from threading import Thread
from typing import Any

import jinja2
from litestar import Request, Response, get
from litestar.handlers import HTTPRouteHandler

from tocsin import __version__
from tocsin.api.service import Service
from tocsin.model.token import Caller
from tocsin.ui import words

OPERATION = "console"
"""What every page is called in the table of rights."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
PLACES = (
    ("/", "Overview"),
    ("/schedules", "Schedules"),
    ("/launches", "Launches"),
    ("/forecast", "Forecast"),
    ("/cluster", "Cluster"),
)
"""What stands at the top of every page."""


def page(path: str) -> Callable[[Callable[..., Any]], HTTPRouteHandler]:
    """A handler whose answer is a page, for everybody who may read."""
    return get(path, operation_id=OPERATION, include_in_schema=False)


def render(
    template: str,
    request: Request[Any, Any, Any],
    service: Service,
    caller: Caller,
    *,
    status: int = 200,
    **values: Any,
) -> Response[str]:
    """The page. Beside ``values`` a template knows who asks, and which replica answers."""
    replica = service.replica
    known = {
        "caller": caller,
        "here": request.scope["path"],
        "places": PLACES,
        "replica": replica.status(),
        "others": [m for m in service.around.members() if m.name != replica.name and m.api],
        "now_ms": service.now_ms(),
        "has_tokens": service.doorkeeper.tokens_needed,
    }
    text = templates().get_template(template).render(**known, **values)
    _make_others_ready()
    return Response(text, media_type="text/html", status_code=status, headers=HEADERS)


def plain(template: str, *, status: int = 200, **values: Any) -> Response[str]:
    """A page for somebody who is not known yet, or about something that went wrong."""
    text = templates().get_template(template).render(**values)
    return Response(text, media_type="text/html", status_code=status, headers=HEADERS)


@lru_cache(maxsize=1)
def templates() -> jinja2.Environment:
    """All templates. A name that is not given is a mistake of ours, and is told as one."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("tocsin.ui"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals.update(tocsin_version=__version__, static=static_address, **words.FOR_TEMPLATES)
    return made


@cache
def _make_others_ready() -> None:
    """Whoever has opened one page opens another one soon, and is not to wait until its templates are compiled."""

    def compile_all() -> None:
        for name in templates().list_templates():
            templates().get_template(name)

    Thread(target=compile_all, name="templates", daemon=True).start()


@cache
def static_address(name: str) -> str:
    """Where a file of ours is, with its content in the address: it may be kept for ever."""
    content = resources.files("tocsin.ui").joinpath("static", name).read_bytes()
    mark = base64.urlsafe_b64encode(hashlib.sha256(content).digest()[:9]).decode()
    return f"/static/{name}?v={mark}"
