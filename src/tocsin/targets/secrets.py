"""Secrets are references, ``env:NAME`` or ``file:/path``. They are read at each call, so that a new one
counts as soon as it is there, and never stored, logged or shown."""

from __future__ import annotations

import os
import stat

SECRET_BYTES_MAX = 64 * 1024


class SecretMissingError(Exception):
    """The reference leads to nothing. ``str()`` names the reference, never a value."""


def read_secret(reference: str) -> bytes:
    """The value behind a reference. The line end that editors leave in a file is not part of it."""
    scheme, _, where = reference.partition(":")
    if scheme == "env":
        value = os.environ.get(where, "").encode()
    elif scheme == "file":
        value = _read_file(where)
    else:
        raise SecretMissingError("the secret is not a reference; allowed: env:NAME or file:/path")
    if not value:
        raise SecretMissingError(f"the secret {reference} is missing or empty on this machine")
    return value


def _read_file(path: str) -> bytes:
    """Regular files only, and not without end: a pipe or a device would keep the reader waiting for ever."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise SecretMissingError(f"the secret file:{path} is not a regular file")
            return os.read(descriptor, SECRET_BYTES_MAX).rstrip(b"\r\n")
        finally:
            os.close(descriptor)
    except OSError as error:
        raise SecretMissingError(f"the secret file:{path} cannot be read: {error.strerror}") from error
