"""Logins at the console, as a browser makes them."""

from __future__ import annotations

from urllib.parse import urlencode

from tests.api.conftest import Service

_FORM = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html"}


def log_in(service: Service, token: str) -> str:
    """What a browser keeps after a login with this token."""
    sent = urlencode({"token": token, "to": "/"}).encode()
    answer = service.as_("").ask("POST", "/login", sent, _FORM, raw=True)
    assert answer.status == 303, answer.body
    name, _, kept = answer.headers["set-cookie"].partition(";")[0].partition("=")
    assert name == "tocsin"
    return kept


def log_out(service: Service, kept: str) -> None:
    headers = {**_FORM, "Cookie": f"tocsin={kept}", "Origin": service.url}
    assert service.as_("").ask("POST", "/logout", b"", headers, raw=True).status == 303
