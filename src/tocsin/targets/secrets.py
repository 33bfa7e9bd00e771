"""Secrets are references, ``env:NAME`` or ``file:/path``. They are read at each call, so that a new one
counts as soon as it is there, and never stored, logged or shown.

Which references may be used is the operator's word: a signature by a secret is a proof of who called, and whoever may
write a schedule must not be able to give it in another's name. A secret that is sent is known to whoever receives it,
so that word also names the hosts. Nor must a writer learn which files there are: all that can go wrong with reading one
is told in the same words.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from tocsin.errors import InvalidInput
from tocsin.model.hosts import hosts_of
from tocsin.model.target import HttpTarget

SECRET_BYTES_MAX = 64 * 1024


class SecretMissingError(Exception):
    """The reference leads to nothing. ``str()`` names the reference, never a value."""

    def __init__(self, reason: str, *, permanent: bool = False) -> None:
        super().__init__(reason)
        self.permanent = permanent
        """Trying again cannot help. A file may be replaced at this moment, or its file system come back."""


class Use(msgspec.Struct, frozen=True):
    """A secret, and what a call does with it."""

    reference: str
    hosts: tuple[str, ...] = ()
    """Whom the call is for."""
    is_sent: bool = False
    """In a header or in the address, and not only as the key of a signature."""


def uses_of(spec: HttpTarget) -> list[Use]:
    """All secrets of a call."""
    hosts = tuple(host.lower() for host in hosts_of(spec))
    signing = [Use(found, hosts) for found in (spec.secret, spec.old_secret) if found is not None]
    return signing + [Use(found, hosts, is_sent=True) for found in dict.fromkeys(spec.references())]


class SecretRules(msgspec.Struct, frozen=True):
    """The references that may be used."""

    patterns: tuple[str, ...] | None = None
    """``env:TOCSIN_SECRET_*``, ``file:/run/secrets/*``, ``env:PAY@pay.example.org``. None: any."""

    @classmethod
    def parse(cls, text: str, *, default: Sequence[str] | None) -> SecretRules:
        """The setting ``secrets``; without it, ``default``."""
        patterns = [part.strip() for part in text.split(",") if part.strip()]
        for pattern in patterns:
            reference, host = _split(pattern)
            if not reference.startswith(("env:", "file:/")) or reference in ("env:", "file:/") or host == "":
                raise InvalidInput(
                    f"{pattern[:100]!r} is not a reference to secrets",
                    field="secrets",
                    value=pattern,
                    allowed="env:NAME, env:PREFIX_*, file:/path or file:/folder/*, also with @HOST, several with ,",
                )
        if not patterns:
            return cls(None if default is None else tuple(default))
        return cls(tuple(patterns))

    def refusal(self, use: Use) -> str:
        """Why it may not be used so, naming the setting. Empty: it may. A ``*`` does not reach into further folders."""
        if self.patterns is None:
            return ""
        hosts = [
            host
            for reference, host in map(_split, self.patterns)
            if _is_straight(use.reference) and _matches(use.reference, reference)
        ]
        name = use.reference[:200]
        if not hosts:
            return f"the secret {name} may not be used: the setting secrets does not name it"
        if any(_may_go(use, host) for host in hosts):
            return ""
        if use.is_sent and None in hosts:
            return (
                f"the secret {name} may sign, but not be sent: the setting secrets names no host for it, as in "
                f"{name}@{use.hosts[0] if use.hosts else 'HOST'}"
            )
        return f"the secret {name} may not be used here: the setting secrets names another host for it"

    def permit_file(self, opened: str) -> bool:
        """Is the file that was found at the end of all links one that is named, or in a folder that is?"""
        return self.patterns is None or any(
            _holds(_split(pattern)[0].removeprefix("file:"), opened)
            for pattern in self.patterns
            if pattern.startswith("file:")
        )


def _split(pattern: str) -> tuple[str, str | None]:
    """The reference, and the host behind its ``@``."""
    reference, at, host = pattern.rpartition("@")
    return (reference, host) if at and "/" not in host else (pattern, None)


def _may_go(use: Use, host: str | None) -> bool:
    if host is None:
        return not use.is_sent
    return bool(use.hosts) and all(fnmatchcase(each, host.lower()) for each in use.hosts)


def read_secret(use: Use, rules: SecretRules | None = None) -> bytes:
    """The value behind a reference. The line end that editors leave in a file is not part of it."""
    rules = rules or SecretRules()
    reference = use.reference
    scheme, _, where = reference.partition(":")
    if scheme not in ("env", "file"):
        raise SecretMissingError(
            "the secret is not a reference; allowed: env:NAME or file:/path", permanent=True
        )
    if refusal := rules.refusal(use):
        raise SecretMissingError(refusal, permanent=True)
    value = os.environ.get(where, "").encode() if scheme == "env" else _read_file(where, rules)
    if not value:
        raise SecretMissingError(
            f"the secret {reference} cannot be read on this machine, is empty, or has more than 64 KiB",
            permanent=scheme == "env",
        )
    return value


class Secrets(msgspec.Struct, frozen=True):
    """The values for one call."""

    keys: list[bytes] = []
    """Of signatures."""
    values: dict[str, str] = {}
    """By their references."""

    @property
    def are_sent(self) -> bool:
        """Does the call itself carry some of them? The receiver may repeat them then, whole or in part, in any form."""
        return bool(self.values)


def as_text(use: Use, value: bytes) -> str:
    """To be sent."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = "\0"
    if not text.isprintable():
        raise SecretMissingError(
            f"the secret {use.reference} holds characters that cannot be sent", permanent=True
        )
    return text


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
            content = os.read(descriptor, SECRET_BYTES_MAX + 1)
            return b"" if len(content) > SECRET_BYTES_MAX else content.rstrip(b"\r\n")
        finally:
            os.close(descriptor)
    except (OSError, ValueError):
        return b""
