"""Who is asking, and what they may do.

A request carries ``Authorization: Bearer tocsin_...``. Where the service listens on loopback only, and does not say
otherwise, none is needed: whoever runs on the machine may do everything. ``NEEDS`` is the whole table of rights; what
is not in it needs ``admin``. A schedule outside a token's prefixes is refused in the same words whether it exists or
not.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import structlog
from litestar.connection import Request
from litestar.di import NamedDependency

from tocsin.api.door.failed_logins import FailedLogins
from tocsin.api.door.sessions import Sessions
from tocsin.errors import AlreadyExists, TocsinError, Unauthenticated
from tocsin.model import token as tokens
from tocsin.model.command import CreateToken, NoteTokenUse
from tocsin.model.ids import parse_launch_name
from tocsin.model.rights import caller_of, require, require_reach
from tocsin.model.token import ADMIN, EVERYBODY, OPERATE, READ, WRITE, Caller, Token
from tocsin.replica.replica import Replica
from tocsin.state import tokens as kept

log = structlog.get_logger()

NEEDS = {
    "listSchedules": READ,
    "getSchedule": READ,
    "createSchedule": WRITE,
    "putSchedule": WRITE,
    "patchSchedule": WRITE,
    "deleteSchedule": WRITE,
    "restoreSchedule": WRITE,
    "pauseSchedule": OPERATE,
    "resumeSchedule": OPERATE,
    "runSchedule": OPERATE,
    "backfillSchedule": OPERATE,
    "upcoming": READ,
    "why": READ,
    "listVersions": READ,
    "preview": READ,
    "listLaunches": READ,
    "getLaunch": READ,
    "getOutput": READ,
    "cancelLaunch": OPERATE,
    "resolveLaunch": OPERATE,
    "bulk": READ,  # and what the action itself needs
    "importSchedules": WRITE,
    "exportSchedules": READ,
    "events": READ,
    "history": READ,
    "audit": READ,
    "activity": READ,
    "forecast": READ,
    "limits": READ,
    "status": READ,
    "metrics": READ,
    "whoAmI": READ,
    "listTokens": ADMIN,
    "createToken": ADMIN,
    "revokeToken": ADMIN,
    "makeBackup": ADMIN,
    "getClock": READ,
    "confirmClock": ADMIN,
    "repairDue": OPERATE,
    "getCluster": READ,
    "stepDown": ADMIN,
    "addReplica": ADMIN,
    "removeReplica": ADMIN,
    "console": READ,
}
PUBLIC = frozenset({"/healthz", "/readyz", "/openapi.json", "/docs", "/login", "/logout"})
"""They tell nothing about what is scheduled here."""
STATIC = "/static/"
"""Nor do the files that pages are made with."""
COOKIE = "tocsin"
"""In it a browser keeps the session that somebody opened at the login."""
USE_NOTED_EVERY_MS = 60_000

WhoAsks = NamedDependency[Caller]
"""How a handler asks who is asking."""


class Doorkeeper:
    """Finds out who is asking."""

    def __init__(self, replica: Replica, *, tokens_needed: bool, session_s: int = 43_200) -> None:
        self._replica = replica
        self._failed = FailedLogins(replica.metrics, replica.clock)
        self.tokens_needed = tokens_needed
        self.sessions = Sessions(replica, session_s)
        self._held: dict[str, Token] = {}
        self._sessions: dict[str, Token] = {}
        self._held_of = -1
        self._reading = asyncio.Lock()
        self._used_ms: dict[str, int] = {}
        self._noted_ms: dict[str, int] = {}
        self._noting: asyncio.Task[None] | None = None

    async def caller(self, headers: Mapping[str, str], address: str) -> Caller:
        """Find the caller who sent these headers from that address. Raises ``Unauthenticated``."""
        given = headers.get("authorization")
        if given is None:
            cookie = self._cookie(headers)
            if cookie is not None:
                return await self._caller_in(cookie, address)
            if self.tokens_needed:
                raise Unauthenticated(
                    "a token is needed here",
                    hint="send Authorization: Bearer TOKEN; for the CLI set TOCSIN_TOKEN",
                )
            return EVERYBODY._replace(name=_claimed(headers.get("tocsin-actor", "")))
        kind, _, text = given.partition(" ")
        parts = tokens.parts_of(text.strip()) if kind.lower() == "bearer" else None
        # What has not even the form of a token takes the same way as a wrong one.
        id, secret = parts or ("", "")
        return self._checked(secret, (await self._tokens()).get(id), address)

    async def _caller_in(self, cookie: str, address: str) -> Caller:
        """Find who opened the session that is in this cookie. A token itself is not taken from a cookie."""
        id, secret = tokens.session_parts_of(cookie) or ("", "")
        return self._checked(secret, await self._session(id), address)

    def _checked(self, secret: str, token: Token | None, address: str) -> Caller:
        now_ms = self._replica.clock.wall_ms()
        if not tokens.is_right(secret, token, now_ms) or token is None:
            self._failed.note(address, _why_not(token, now_ms))
            raise Unauthenticated(
                "this token is not valid",
                hint="it may have been revoked or have expired: ask for another one",
            )
        if not self.sessions.is_here_only(token.id):
            self._note_use(token.id, now_ms)
        return caller_of(token)

    def _cookie(self, headers: Mapping[str, str]) -> str | None:
        """What a browser has kept since the login. Where no token is needed it may be one of another service on this
        machine, and is left alone."""
        if not self.tokens_needed:
            return None
        pairs = (each.strip().partition("=") for each in headers.get("cookie", "").split(";"))
        found = [value for name, _, value in pairs if name == COOKIE and value]
        # Another service of this host may have left one of the same name.
        return next((value for value in found if tokens.session_parts_of(value)), found[0] if found else None)

    async def close_session(self, headers: Mapping[str, str]) -> None:
        """Close the session that a browser has kept, if it is one. Raises where nobody can record that."""
        id, secret = tokens.session_parts_of(self._cookie(headers) or "") or ("", "")
        session = await self._session(id)
        if session is not None and tokens.is_right(secret, session, self._replica.clock.wall_ms()):
            await self.sessions.close(session)

    async def check_still_valid(self, caller: Caller) -> None:
        """A request may go on for hours; the token that it came with may not."""
        if not caller.token:
            return
        token = (await self._tokens()).get(caller.token) or await self._session(caller.token)
        if not tokens.is_current(token, self._replica.clock.wall_ms()):
            raise Unauthenticated("the token was revoked or has expired meanwhile")

    async def _tokens(self) -> dict[str, Token]:
        """All tokens, read again, with the sessions, when one was made or revoked."""
        if self._replica.meta.tokens_seq != self._held_of:
            async with (
                self._reading
            ):  # all open streams come here when something has changed: one of them reads
                newest = self._replica.meta.tokens_seq
                if newest != self._held_of:
                    self._held, self._sessions = await self._replica.read(
                        lambda db: (kept.held(db), kept.sessions(db))
                    )
                    self._held_of = newest
        return self._held

    async def _session(self, id: str) -> Token | None:
        held = await self._tokens()
        return self._sessions.get(id) or self.sessions.kept_here(id, held)

    def _note_use(self, id: str, now_ms: int) -> None:
        """The journal hears of it now and then, not with every request."""
        self._used_ms[id] = now_ms
        if now_ms - self._noted_ms.get(id, 0) >= USE_NOTED_EVERY_MS and self._noting is None:
            self._noting = asyncio.create_task(self._write_use(), name="token use")

    async def _write_use(self) -> None:
        used, self._used_ms = self._used_ms, {}
        self._noted_ms.update(used)
        try:
            await self._replica.propose(NoteTokenUse(used))
        except TocsinError as refused:
            log.warning("the use of tokens was not noted", reason=str(refused))
        finally:
            self._noting = None


def _why_not(token: Token | None, now_ms: int) -> str:
    """For the log alone: a stranger is not told which part was right."""
    if token is None:
        return "there is no such token"
    return "its secret is wrong" if tokens.is_current(token, now_ms) else "it has expired"


def is_public(path: str) -> bool:
    return path in PUBLIC or path.startswith(STATIC)


def provide_caller(request: Request[Any, Any, Any]) -> Caller:
    caller: Caller = request.scope["state"]["caller"]
    return caller


def check_rights(request: Request[Any, Any, Any]) -> None:
    """Before each handler: does the caller have the right, and does it reach that far?"""
    if is_public(request.scope["path"]):
        return
    caller: Caller = request.scope["state"]["caller"]
    require(caller, NEEDS.get(getattr(request.route_handler, "operation_id", None) or "", ADMIN))
    path = request.path_params
    if "id" in path:
        require_reach(caller, unquote(path["id"]))
    elif "name" in path:
        require_reach(caller, parse_launch_name(unquote(path["name"])).schedule)


def new_token(
    name: str,
    scopes: tuple[str, ...],
    prefixes: tuple[str, ...] = (),
    expires_ms: int | None = None,
    targets: tuple[str, ...] = (),
) -> tuple[Token, str]:
    """A token to keep, and what its owner is told, once."""
    id, secret = secrets.token_hex(6), secrets.token_urlsafe(tokens.SECRET_BYTES)
    token = Token(id, name, tokens.hash_of(secret), scopes, prefixes, expires_ms, targets)
    return token, tokens.written(id, secret)


async def ensure_admin(replica: Replica, path: Path) -> None:
    """Where tokens are needed and there is none that can make others, nobody could get in: one is put into a file that
    only the service's own user can read."""
    held = (await replica.read(kept.held)).values()
    now_ms = replica.clock.wall_ms()
    if any(is_admin(token, now_ms) for token in held):
        return
    taken = {token.name for token in held}
    name = next(
        name for name in ("admin", *(f"admin-{n}" for n in range(2, len(taken) + 3))) if name not in taken
    )
    token, text = new_token(name, (ADMIN,))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text + "\n")
    try:
        await replica.propose(CreateToken(token, actor="the service"))
    except AlreadyExists:
        os.unlink(path)  # another replica was faster: the token is in the file that it has written


def is_admin(token: Token, now_ms: int) -> bool:
    return ADMIN in token.scopes and tokens.is_current(token, now_ms)


def _claimed(name: str) -> str:
    """Without tokens nobody's name can be proved: it is recorded as what it is, a claim."""
    clean = "".join(c for c in name if c.isprintable())[:64].strip()
    return f"local:{clean}" if clean else EVERYBODY.name
