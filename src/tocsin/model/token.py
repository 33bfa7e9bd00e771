"""Who may do what.

A token is ``tocsin_<id>_<secret>``. Its id is public and finds the row; of its secret only a hash is kept. It has
scopes and, if it is not to reach everything, prefixes of ids::

    read      look at schedules, launches, outputs
    write     read, and create, change and delete schedules
    exec      with write: schedules may run commands
    operate   read, and pause, resume, run, cancel, resolve, backfill
    admin     all of these, and tokens

``model.token_targets`` tells how a token is limited to some targets.

At the login of the console a token opens a session: ``tocsin-session_<id>_<secret>``, which a browser keeps in place of
the token. It may do what the token may, until it expires or is closed, and no longer than the token.

A prefix reaches whole parts of an id: ``billing`` and ``billing/`` reach ``billing/payroll``, never ``billing2``.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from tocsin.errors import InvalidInput
from tocsin.model.ids import check_id
from tocsin.model.target import ExecTarget, TargetSpec
from tocsin.model.token_targets import check_patterns, permit

READ, WRITE, EXEC, OPERATE, ADMIN = SCOPES = ("read", "write", "exec", "operate", "admin")
PREFIXES_MAX = 32
SECRET_BYTES = 32
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,62}")
_TOKEN = re.compile(r"tocsin_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_SESSION = re.compile(r"tocsin-session_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
"""An id of another length: no session has the id of a token."""
_NOBODY = hashlib.sha256(b"").digest()


class Token(msgspec.Struct, frozen=True):
    """A token as it is kept."""

    id: str
    name: str
    hash: bytes
    scopes: tuple[str, ...]
    prefixes: tuple[str, ...] = ()
    expires_ms: int | None = None
    targets: tuple[str, ...] = ()
    opened_by: str = ""
    """Of a session: the id of the token that opened it."""


class Session(msgspec.Struct, frozen=True):
    """A login at the console, as it is kept."""

    id: str
    token: str
    """The id of the token that opened it."""
    hash: bytes
    expires_ms: int
    address: str = ""
    """Where the browser was."""


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """A login at the console, as it is shown."""

    id: str
    opened_at: datetime
    expires_at: datetime
    last_used_at: datetime | None
    address: str


class TokenView(msgspec.Struct, frozen=True, kw_only=True):
    """A token as it is shown: never its secret."""

    id: str
    name: str
    scopes: list[str]
    prefixes: list[str]
    targets: list[str] = []
    """Patterns of targets that it may write into schedules. None: any."""
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    last_used_at: datetime | None
    sessions: list[SessionView] = []
    """Logins at the console that it opened, and that have not expired. Each can be revoked by its id."""


class NewTokenView(TokenView, frozen=True, kw_only=True):
    """A token just made. This is the only time that it is told."""

    token: str


class TokenList(msgspec.Struct, frozen=True):
    """All tokens."""

    items: list[TokenView]


class CallerView(msgspec.Struct, frozen=True, kw_only=True):
    """Who one is, to the service."""

    name: str
    token: str
    """The id of the token, or of the session in a browser; empty: none was needed."""
    scopes: list[str]
    prefixes: list[str]
    targets: list[str] = []


class Caller(NamedTuple):
    """Whoever sent a request, and how far they may go."""

    name: str
    scopes: frozenset[str]
    prefixes: tuple[str, ...] = ()
    token: str = ""
    """The id of the token, or of the session, that it came with."""
    expires_ms: int | None = None
    targets: tuple[str, ...] = ()
    account: str = ""
    """The id of the token, also of a session that it opened: what is limited for each token is counted by it."""

    def may(self, scope: str) -> bool:
        return scope in self.scopes or ADMIN in self.scopes or (scope == READ and bool(self.scopes))

    def reaches(self, id: str) -> bool:
        """Is this schedule theirs to see?"""
        return reaches(self.prefixes, id)

    def may_write(self, spec: TargetSpec) -> bool:
        """May they write a schedule that goes there?"""
        if isinstance(spec, ExecTarget) and not self.may(EXEC):
            return False
        return not self.targets or permit(self.targets, spec)

    @property
    def writes_all(self) -> bool:
        return not self.targets and self.may(EXEC)

    @property
    def reaches_all(self) -> bool:
        return not self.prefixes


EVERYBODY = Caller("local", frozenset(SCOPES))
"""Who asks where no tokens are needed: somebody on this machine."""


def written(id: str, secret: str) -> str:
    """The token as its owner keeps it."""
    return f"tocsin_{id}_{secret}"


def session_written(id: str, secret: str) -> str:
    """The session as a browser keeps it."""
    return f"tocsin-session_{id}_{secret}"


def hash_of(secret: str) -> bytes:
    """The secret is 256 random bits: nobody guesses their way back through a plain hash."""
    return hashlib.sha256(secret.encode()).digest()


def parts_of(text: str) -> tuple[str, str] | None:
    """Id and secret, if it has the form of a token at all."""
    found = _TOKEN.fullmatch(text)
    return None if found is None else (found[1], found[2])


def session_parts_of(text: str) -> tuple[str, str] | None:
    """Id and secret, if it has the form of a session at all."""
    found = _SESSION.fullmatch(text)
    return None if found is None else (found[1], found[2])


def is_current(token: Token | None, now_ms: int) -> bool:
    """Is there such a token, and has it not expired?"""
    return token is not None and (token.expires_ms is None or now_ms < token.expires_ms)


def is_right(secret: str, token: Token | None, now_ms: int) -> bool:
    """Compared in the same time whether the token exists or not, and wherever the difference lies."""
    is_same = hmac.compare_digest(hash_of(secret), _NOBODY if token is None else token.hash)
    return is_same and is_current(token, now_ms)


def check_token(
    name: str, scopes: Iterable[str], prefixes: Iterable[str], targets: Iterable[str] = ()
) -> None:
    """Raise if there cannot be such a token."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{name[:70]!r} is not a usable name",
            field="name",
            value=name,
            allowed="1 to 63 of A-Z a-z 0-9 . _ @ + -, starting with a letter or digit",
        )
    scopes, prefixes, targets = tuple(scopes), tuple(prefixes), tuple(targets)
    unknown = [scope for scope in scopes if scope not in SCOPES]
    if unknown or not scopes:
        wrong = unknown[0] if unknown else ""
        message = f"{wrong[:60]!r} is not a scope" if unknown else "a token needs a scope"
        raise InvalidInput(message, field="scopes", value=wrong, allowed=", ".join(SCOPES))
    for field, limits in (("prefixes", prefixes), ("targets", targets)):
        if ADMIN in scopes and limits:
            raise InvalidInput(
                "an admin token reaches everything: it can make itself another one",
                field=field,
                value=", ".join(limits),
                allowed=f"no {field} with the scope admin",
            )
    check_patterns(targets)
    if len(prefixes) > PREFIXES_MAX:
        raise InvalidInput(
            f"{len(prefixes)} are too many",
            field="prefixes",
            value=len(prefixes),
            allowed=f"up to {PREFIXES_MAX}",
        )
    for prefix in prefixes:
        check_id(prefix.removesuffix("/"), field="prefixes")


def reaches(prefixes: Sequence[str], id: str) -> bool:
    """Do these prefixes reach the id? None at all reach everything."""
    if not prefixes:
        return True
    roots = [prefix.removesuffix("/") for prefix in prefixes]
    return any(id == root or id.startswith(root + "/") for root in roots)
