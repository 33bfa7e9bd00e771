"""Whom the client trusts, and what it shows of itself."""

from __future__ import annotations

import ipaddress
import os
import ssl
from collections.abc import Iterable

from yarl import URL

from tocsin.errors import InvalidInput, Unreachable


def token_of(given: str | None) -> str:
    """The token to send: as given, else of ``TOCSIN_TOKEN``, else none. Its value never stands in an error."""
    token = (os.environ.get("TOCSIN_TOKEN", "") if given is None else given).strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidInput(
            "the token is not one",
            field="token",
            value="(not shown)",
            allowed="one word, as it was given out",
            hint="look at TOCSIN_TOKEN: is it cut off, or is there something before or behind it?",
        )
    return token


def tls_of(urls: Iterable[str], given: str | None, *, any_name: bool = False) -> ssl.SSLContext | bool:
    """How certificates are verified: by the file given, else that of ``TOCSIN_CA``, else as the system does.

    The file holds the authority's certificate or the service's own. ``any_name`` is for a service that speaks with
    itself: it knows its own certificate, and which name that was made for does not matter then.
    """
    path = os.environ.get("TOCSIN_CA", "") if given is None else given
    if not path or not any(url.startswith("https:") for url in urls):
        return True
    try:
        context = ssl.create_default_context(cafile=path)
    except (OSError, ValueError) as wrong:
        why = "holds no certificate" if isinstance(wrong, ssl.SSLError) else getattr(wrong, "strerror", wrong)
        raise InvalidInput(
            f"{path}: {why}",
            field="ca",
            value=path,
            allowed="a file with certificates in PEM",
            hint="it is named by TOCSIN_CA",
        ) from None
    context.verify_flags |= (
        ssl.VERIFY_X509_PARTIAL_CHAIN
    )  # so that the service's own is enough, whoever signed it
    context.check_hostname = not any_name
    return context


def exposed(urls: Iterable[str]) -> str:
    """The first address at which others on the network can read what is sent. Empty: none."""
    return next((url for url in urls if url.startswith("http:") and not _is_loopback(url)), "")


def distrust(url: str, wrong: Exception) -> Unreachable:
    """What to say of a certificate that was not accepted: nothing was sent."""
    why = getattr(wrong, "verify_message", "") or str(wrong)
    if getattr(wrong, "verify_code", 0) in _OTHER_NAME:
        hint = "use a name that the certificate was made for"
    else:
        hint = "if you trust it, set TOCSIN_CA to a file with its certificate or its authority's"
    return Unreachable(f"the certificate of {url} is not trusted: {why.rstrip('.')}", hint=hint)


_OTHER_NAME = (62, 64)
"""OpenSSL: the host name, the address is not the certificate's."""


def _is_loopback(url: str) -> bool:
    host = URL(url).host or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
