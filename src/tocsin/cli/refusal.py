"""When one is not let in: what was tried, and what would help."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tocsin.errors import Forbidden, TocsinError, TooMany, Unauthenticated

_FIRST = (
    "the service's own is in the file admin.token of its data directory; 'tocsin token create' makes others"
)


def explained(error: TocsinError, urls: Sequence[str]) -> TocsinError:
    """The same error in the words of someone at a command line."""
    where = ", ".join(urls)
    has_token = bool(os.environ.get("TOCSIN_TOKEN", "").strip())
    if isinstance(error, Unauthenticated) and not has_token:
        error = Unauthenticated(
            f"{where} asks for a token, and TOCSIN_TOKEN is not set",
            hint=f"export TOCSIN_TOKEN=...; {_FIRST}",
        )
    elif isinstance(error, Unauthenticated):
        error = Unauthenticated(f"{where} does not accept the token in TOCSIN_TOKEN", hint=error.hint)
    elif isinstance(error, Forbidden) and has_token:
        error.hint = "; ".join(filter(None, (error.hint, "'tocsin whoami' shows what TOCSIN_TOKEN may do")))
    elif isinstance(error, TooMany):
        error.message = f"{where} was asked too often: {error.message}"
    return error
