"""Secrets are references, ``env:NAME`` or ``file:/path``. They are read at each call, so that a new one
counts as soon as it is there, and never stored, logged or shown.

Which references may be used is the operator's word: a signature by a secret is a proof of who called, and whoever may
write a schedule must not be able to give it in another's name. Nor must he learn which files there are: all that
can go wrong with reading one is told in the same words.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from tocsin.errors import InvalidInput

SECRET_BYTES_MAX = 64 * 1024


class SecretMissingError(Exception):
    """The reference leads to nothing. ``str()`` names the reference, never a value."""


class SecretRules(msgspec.Struct, frozen=True):
    """The references that may be used."""

    patterns: tuple[str, ...] | None = None
    """``env:TOCSIN_SECRET_*``, ``file:/run/secrets/*``. None: any."""

    @classmethod
    def parse(cls, text: str, *, default: Sequence[str] | None) -> SecretRules:
        """The setting ``secrets``; without it, ``default``."""
        patterns = [part.strip() for part in text.split(",") if part.strip()]
        for pattern in patterns:
            if not pattern.startswith(("env:", "file:/")) or pattern in ("env:", "file:/"):
                raise InvalidInput(
                    f"{pattern[:100]!r} is not a reference to secrets",
                    field="secrets",
                    value=pattern,
                    allowed="env:NAME, env:PREFIX_*, file:/path or file:/folder/*, several with ,",
                )
        if not patterns:
            return cls(None if default is None else tuple(default))
        return cls(tuple(patterns))

    def permit(self, reference: str) -> bool:
        """Is it named, as it is written? A ``*`` does not reach into further folders."""
        return self.patterns is None or (
            _is_straight(reference) and any(_matches(reference, pattern) for pattern in self.patterns)
        )

    def permit_file(self, opened: str) -> bool:
        """Is the file that was found at the end of all links one that is named, or in a folder that is?"""
        return self.patterns is None or any(
            _holds(pattern.removeprefix("file:"), opened)
            for pattern in self.patterns
            if pattern.startswith("file:")
        )


def read_secret(reference: str, rules: SecretRules | None = None) -> bytes:
    """The value behind a reference. The line end that editors leave in a file is not part of it."""
    rules = rules or SecretRules()
    scheme, _, where = reference.partition(":")
    if scheme not in ("env", "file"):
        raise SecretMissingError("the secret is not a reference; allowed: env:NAME or file:/path")
    if not rules.permit(reference):
        raise SecretMissingError(not_permitted(reference))
    value = os.environ.get(where, "").encode() if scheme == "env" else _read_file(where, rules)
    if not value:
        raise SecretMissingError(f"the secret {reference} cannot be read on this machine, or is empty")
    return value


def not_permitted(reference: str) -> str:
    return f"the secret {reference[:200]} may not be used: the setting secrets does not name it"


def _is_straight(reference: str) -> bool:
    """A path says where it leads: nothing in it goes back up."""
    parts = reference.partition(":")[2].split("/")
    return not reference.startswith("file:") or all(part not in ("", ".", "..") for part in parts[1:])


def _matches(reference: str, pattern: str) -> bool:
    return reference.count("/") == pattern.count("/") and fnmatchcase(reference, pattern)


def _holds(pattern: str, opened: str) -> bool:
    """Links that the operator named, or made within the folder that he named, are his."""
    root = Path(pattern)
    while any(sign in str(root) for sign in "*?["):
        root = root.parent
    real = Path(os.path.realpath(root))
    return Path(opened) == real if str(root) == pattern else Path(opened).is_relative_to(real)


def _path_of(descriptor: int, path: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:  # no such file system here
        return os.path.realpath(path)


def _read_file(path: str, rules: SecretRules) -> bytes:
    """Regular files only, and not without end: a pipe or a device would keep the reader waiting for ever."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            # Judged is what was opened: a link that is changed in between leads to nothing else.
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return b""
            if not rules.permit_file(_path_of(descriptor, path)):
                return b""
            return os.read(descriptor, SECRET_BYTES_MAX).rstrip(b"\r\n")
        finally:
            os.close(descriptor)
    except (OSError, ValueError):
        return b""
