"""Ids and launch names.

A launch's name is fixed before anything happens and is the same for every retry and every replica:
``<schedule id>-<unix seconds>``, with ``-manual`` behind it when a person asked for it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tocsin.errors import InvalidInput

ID_LENGTH_MAX = 200
_ALLOWED = f"1 to {ID_LENGTH_MAX} of A-Z a-z 0-9 . _ @ + - /, starting with a letter or digit"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+/-]*")
_NAME = re.compile(r"(?P<id>.+)-(?P<instant>0|[1-9][0-9]{0,11})(?P<manual>-manual)?")


class LaunchName(NamedTuple):
    """The parts of a launch's name."""

    schedule: str
    instant_s: int
    manual: bool


def check_id(value: str, *, field: str = "id") -> str:
    """Return the id, or say what is wrong with it."""
    if not value or len(value) > ID_LENGTH_MAX or not _ID.fullmatch(value):
        raise InvalidInput(f"{_shown(value)} is not a usable id", field=field, value=value, allowed=_ALLOWED)
    # It begins with a letter or digit, so such a part has a slash before it.
    if ("//" in value or "/." in value or value[-1] == "/") and any(
        part in ("", ".", "..") for part in value.split("/")
    ):
        raise InvalidInput(
            f"{_shown(value)} has an empty, '.' or '..' part between slashes",
            field=field,
            value=value,
            allowed=_ALLOWED,
        )
    return value


def launch_name(schedule: str, instant_s: int, manual: bool = False) -> str:
    """The name of the launch of that occurrence."""
    return f"{schedule}-{instant_s}-manual" if manual else f"{schedule}-{instant_s}"


def parse_launch_name(name: str) -> LaunchName:
    """Take a launch's name apart."""
    found = _NAME.fullmatch(name)
    if found is None:
        raise InvalidInput(
            f"{_shown(name)} is not a launch name",
            field="name",
            value=name,
            allowed="<schedule id>-<unix seconds> or <schedule id>-<unix seconds>-manual",
            hint="'tocsin launches' lists the names",
        )
    return LaunchName(found["id"], int(found["instant"]), found["manual"] is not None)


def _shown(value: str) -> str:
    return repr(value if len(value) <= 60 else value[:57] + "...")
