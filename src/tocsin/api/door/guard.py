"""Who may ask at all.

Where the service listens on loopback and asks for no token, whoever runs on this machine may use it. A web page in
a browser on this machine is not meant by that, and it has two ways in, both closed here:

- It sends requests straight to ``http://127.0.0.1:8400`` (cross-site request forgery). Browsers put an
  ``Origin`` on these; one that is not our own is refused. Bodies must be ``application/json``, which a page
  cannot send to another site without asking first (and nobody here says yes). A plain GET, of an image for
  example, carries no ``Origin``; there browsers say ``Sec-Fetch-Site``.
- It lets its own host name point to 127.0.0.1 after it was loaded (DNS rebinding): then the origin is "the
  same", but ``Host`` still carries the page's name, which is not one of this machine's loopback names.

Where a token is needed the second is no danger, because the page has none; then any ``Host`` will do.

A proxy on this machine would let in whoever reaches it. What says that it was forwarded is refused without tokens.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import urlsplit

from tocsin.api.problems import HttpRefusal

BODY_BYTES_MAX = 256 * 1024
"""Twice what a schedule may have: room for blanks and escapes."""
FORM_BYTES_MAX = 4_096
"""Of what anybody may send."""
IMPORT = "/v1/import"
PROBES = ("/healthz", "/readyz")
"""Health checks, which the service answers whatever else it refuses."""
_FORM = ("application/x-www-form-urlencoded",)
_KINDS = {
    IMPORT: ("application/x-ndjson", "application/jsonl", "application/ndjson"),
    "/login": _FORM,
    "/logout": _FORM,
}
_FORWARDED = re.compile(
    r"forwarded|via|x-(original-)?forwarded-.*|x-real-ip|([a-z-]+-)?client-ip|[a-z]+-connecting-ip"
)
_FOREIGN = ("cross-site", "same-site")
_WITH_BODY = ("POST", "PUT", "PATCH", "DELETE")


def check(method: str, path: str, headers: Mapping[str, str], *, scheme: str, tokens_needed: bool) -> None:
    """Raise if this request must not be looked at any further. Header names are in lower case."""
    host = headers.get("host", "")
    if not tokens_needed and path not in PROBES:
        _check_not_forwarded(headers)
    # HTTP/1.0 probes send no Host; browsers always do.
    if host and not tokens_needed and not is_loopback(host):
        raise HttpRefusal(
            403,
            f"the host {host[:100]!r} is not a loopback name",
            hint="ask for 127.0.0.1, [::1] or localhost, or serve with --tokens always",
        )
    origin = headers.get("origin")
    if origin is not None and origin != f"{scheme}://{host}":
        raise HttpRefusal(403, f"requests from pages of {origin[:100]!r} are not accepted")
    site = headers.get("sec-fetch-site", "")
    if site in _FOREIGN and (path == "/v1" or path.startswith("/v1/")):
        raise HttpRefusal(403, "requests from pages of other sites are not accepted")
    if method in _WITH_BODY and has_body(headers):
        _check_body(path, headers)


def _check_not_forwarded(headers: Mapping[str, str]) -> None:
    found = next(filter(_FORWARDED.fullmatch, headers), None)
    if found is not None:
        raise HttpRefusal(
            403,
            f"a request with the header {found[:100]!r} came through a proxy, and nobody needs a token here",
            hint="behind a proxy serve with --tokens always, and name the proxy in --trusted-proxies",
        )


def check_came_from_us(method: str, headers: Mapping[str, str]) -> None:
    """A browser sends its cookie along whoever made it ask. What changes something must say that a page of ours did:
    every browser tells with such a request where it comes from, and that was looked at in ``check``."""
    is_ambient = "cookie" in headers and "authorization" not in headers
    is_ours = "origin" in headers or headers.get("sec-fetch-site") == "same-origin"
    if is_ambient and method in _WITH_BODY and not is_ours:
        raise HttpRefusal(
            403,
            "a cookie alone does not allow to change anything",
            hint="send Authorization: Bearer TOKEN",
        )


@lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    """Is this ``Host`` header one of this machine's own names for itself?"""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def has_body(headers: Mapping[str, str]) -> bool:
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


def _check_body(path: str, headers: Mapping[str, str]) -> None:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    wanted = _KINDS.get(path, ("application/json", "application/merge-patch+json"))
    if kind not in wanted:
        raise HttpRefusal(
            415, f"the content type {kind[:100]!r} is not understood", hint=f"send content-type: {wanted[0]}"
        )
    if path == IMPORT:
        return  # it is read line by line, and each line has a limit of its own
    length = headers.get("content-length", "")
    most = FORM_BYTES_MAX if wanted is _FORM else BODY_BYTES_MAX
    if length.isdigit() and int(length) > most:
        raise HttpRefusal(413, f"{length} bytes are too many", hint=f"a body may have {most} bytes")
