"""The hosts that an http target reaches."""

from __future__ import annotations

from yarl import URL

from tocsin.model.target import HttpTarget


def hosts_of(spec: HttpTarget) -> list[str]:
    """Whom a call is for: the host of its address, and the one in a ``Host`` header, which a gateway goes by."""
    named = [value for name, value in spec.headers.items() if name.lower() == "host"]
    return [_host_of(spec.url), *(_host_of(f"http://{value.strip()}") for value in named)]


def _host_of(url: str) -> str:
    """The host as the caller's own library reads it: two readings of one address are how a fence is passed."""
    try:
        return URL(url).raw_host or ""
    except ValueError:
        return ""
