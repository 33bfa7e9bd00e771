"""The file of ``--cluster-secret``: one secret per line, so that the secret can be changed one replica at a time.

The first secret is in use: a replica signs its certificate and its backups with it. Every further one is trusted: what
was signed with any of them is accepted. A change takes three rounds of restarts, one replica after the other, and the
replicas of one round always accept those of the next:

=====  ==========================  ============  ================
round  the file                    signs with    accepts
=====  ==========================  ============  ================
       old                         old           old
1      old, new (``add``)          old           old and new
2      new, old (``promote``)      new           old and new
3      new (``drop``)              new           new
=====  ==========================  ============  ================

The file is read at the start of a replica and not again.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets as random
import stat
from pathlib import Path
from typing import NamedTuple

from tocsin.errors import InvalidInput, Refused

CHARACTERS_MIN = 32
SECRETS_MAX = 4
_FILE_BYTES_MAX = 65_536
_BLANK = " \t\r\v\f"
_ALLOWED = (
    f"one secret per line, each of {CHARACTERS_MIN} printable characters or more, {SECRETS_MAX} lines at most"
)
_MAKE_ONE = (
    "make one with: (umask 077; tocsin cluster secret > FILE), and give the same file to every replica"
)


class Secrets(NamedTuple):
    """The secrets of a cluster. There are several only while its secret is being changed."""

    in_use: bytes
    others: tuple[bytes, ...] = ()
    """Trusted too."""

    def digest(self, text: str) -> str:
        """Of a text, such as only a replica that has the secret can compute."""
        return _digest(self.in_use, text)

    def other_digests(self, text: str) -> list[str]:
        """The same with each of the other secrets."""
        return [_digest(secret, text) for secret in self.others]

    def with_new(self) -> Secrets:
        """Round 1: one more is trusted."""
        if len(self.others) + 1 >= SECRETS_MAX:
            raise Refused(f"there are {SECRETS_MAX} secrets already", hint="drop those that are not in use")
        return Secrets(self.in_use, (*self.others, new_secret().encode()))

    def promoted(self) -> Secrets:
        """Round 2: the last one is in use, and the others stay trusted."""
        if not self.others:
            raise Refused("there is only one secret", hint="add a new one first: --add FILE")
        *rest, last = self.in_use, *self.others
        return Secrets(last, tuple(rest))

    def without_others(self) -> Secrets:
        """Round 3: only the one in use is trusted."""
        if not self.others:
            raise Refused("there is only one secret, and it is in use", hint="nothing is left to do")
        return Secrets(self.in_use)


def new_secret() -> str:
    """A secret as good as a key: 256 random bits."""
    return random.token_urlsafe(32)


def read_secrets(path: Path) -> Secrets:
    """Raises ``InvalidInput`` for a file that does not hold secrets only, or that everybody can read."""
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            content = file.read(_FILE_BYTES_MAX + 1)
    except OSError as wrong:
        why = (wrong.strerror or str(wrong)).lower()
        raise _unfit(f"the secret cannot be read: {why}", path, hint=_MAKE_ONE) from None
    if mode & 0o007:
        raise _unfit("every user of this machine can read the secret", path, hint=f"run: chmod o-rwx {path}")
    if len(content) > _FILE_BYTES_MAX:
        raise _unfit(
            f"the file is longer than {_FILE_BYTES_MAX} bytes", path, allowed=_ALLOWED, hint=_MAKE_ONE
        )
    return _parsed(content, path)


def write_secrets(path: Path, secrets: Secrets) -> None:
    """Replace the file as a whole. It keeps its mode and its owner, and a link stays a link."""
    real = path.resolve()
    beside = real.with_name(f".{real.name}.new")
    try:
        before = real.stat()
        beside.unlink(missing_ok=True)
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            os.fchown(descriptor, before.st_uid, before.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
            file.writelines(secret + b"\n" for secret in (secrets.in_use, *secrets.others))
            file.flush()
            os.fsync(descriptor)
        beside.replace(real)
        _sync_folder(real.parent)
    except OSError as wrong:
        beside.unlink(missing_ok=True)
        why = (wrong.strerror or str(wrong)).lower()
        raise _unfit(
            f"the file cannot be written: {why}", path, hint="run this as the owner of the file, or as root"
        ) from None


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _parsed(content: bytes, path: Path) -> Secrets:
    """No message shows any of the content."""
    try:
        lines = [line.strip(_BLANK) for line in content.decode().split("\n")]
    except UnicodeDecodeError:
        raise _unfit("the file is not text", path, allowed=_ALLOWED, hint=_MAKE_ONE) from None
    found: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if line:
            _check_line(line, number, found, path)
            found[line] = number
    if not found:
        raise _unfit("the file holds no secret", path, allowed=_ALLOWED, hint=_MAKE_ONE)
    if len(found) > SECRETS_MAX:
        raise _unfit(
            f"the file holds {len(found)} secrets",
            path,
            allowed=_ALLOWED,
            hint="keep the first line, and of the others those that a replica still has as its first",
        )
    first, *others = (line.encode() for line in found)
    return Secrets(first, tuple(others))


def _check_line(line: str, number: int, found: dict[str, int], path: Path) -> None:
    if not line.isprintable():
        raise _unfit(
            f"line {number} holds characters that cannot be printed", path, allowed=_ALLOWED, hint=_MAKE_ONE
        )
    if len(line) < CHARACTERS_MIN:
        raise _unfit(
            f"line {number}: a secret of {len(line)} characters can be guessed",
            path,
            allowed=_ALLOWED,
            hint=_MAKE_ONE,
        )
    if line in found:
        raise _unfit(
            f"line {number} is the same secret as line {found[line]}",
            path,
            allowed="each secret once",
            hint=f"remove line {number}",
        )


def _digest(secret: bytes, text: str) -> str:
    return hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()


def _unfit(message: str, path: Path, *, allowed: str = "", hint: str = "") -> InvalidInput:
    return InvalidInput(message, field="cluster_secret", value=str(path), allowed=allowed, hint=hint)
