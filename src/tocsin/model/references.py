"""Values by reference: ``${env:NAME}`` or ``${file:/path}`` in a text of a target.

The reference is what is stored, shown and exported. The value takes its place at the call.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tocsin.errors import InvalidInput

SECRET_PATTERN = r"(env:[A-Za-z_][A-Za-z0-9_]*|file:/.+)"
_REFERENCE = re.compile(r"\$\{(env:[A-Za-z_][A-Za-z0-9_]*|file:/[^{}]+)\}")
_BEGUN = re.compile(r"\$\{\s*(env|file)\b")


def references_in(text: str) -> list[str]:
    """``env:NAME`` and ``file:/path``, as they stand in a text."""
    return _REFERENCE.findall(text) if "${" in text else []


def with_values(text: str, value_of: Callable[[str], str]) -> str:
    """The text that is sent."""
    return _REFERENCE.sub(lambda found: value_of(found[1]), text)


def check_references(text: str, field: str) -> None:
    """Raise if something was meant to be a reference and is none: it would be sent as it is written."""
    if "${" in text and len(_BEGUN.findall(text)) != len(references_in(text)):
        raise InvalidInput(
            "a reference to a value is not complete",
            field=field,
            value="(not shown)",
            allowed="${env:NAME} or ${file:/path}",
        )
