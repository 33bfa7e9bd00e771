"""Sessions of the console: what a browser keeps in place of the token that somebody showed at the login.

A session is recorded in the journal, so that every replica knows it and an admin can list and revoke it. It ends with
the logout, with its token, or when it expires. Where nobody can record it, the replica that was asked keeps it for a
while: in an outage somebody wants to look.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import structlog

from tocsin.cron import parse_duration
from tocsin.errors import InvalidInput, NotFound, TocsinError, Uncertain
from tocsin.model import token as tokens
from tocsin.model.command import OpenSession, RevokeToken
from tocsin.model.token import SECRET_BYTES, Caller, Session, Token
from tocsin.replica.replica import Replica
from tocsin.state.apply.tokens import SESSIONS_MAX

log = structlog.get_logger()

RECORDED_WITHIN_S = 3.0
"""Whoever logs in waits so long for a leader."""
KEPT_HERE_MAX = 1_000
KEPT_HERE_S = 15 * 60
"""So many sessions that nobody recorded, for so long."""


def length_of(text: str) -> int:
    """The seconds that the setting ``session_length`` stands for."""
    length_s = parse_duration(text, field="session_length")
    if not 60 <= length_s <= 30 * 86_400:
        raise InvalidInput(
            f"a login of {text} is too short or too long",
            field="session_length",
            value=text,
            allowed="1m to 30d",
        )
    return length_s


class Opened(NamedTuple):
    """A session just opened."""

    text: str
    """What the browser keeps."""
    length_s: int


class Sessions:
    """Opens and closes sessions, and knows those that are kept here alone."""

    def __init__(self, replica: Replica, length_s: int) -> None:
        self._replica = replica
        self._length_s = length_s
        self._here: dict[str, Session] = {}

    async def open(self, caller: Caller, address: str) -> Opened:
        """For whoever has shown their token. Raises if it does not hold any more."""
        id, secret = secrets.token_hex(8), secrets.token_urlsafe(SECRET_BYTES)
        text = tokens.session_written(id, secret)
        now_ms = self._replica.clock.wall_ms()
        session = Session(
            id, caller.token, tokens.hash_of(secret), now_ms + self._length_s * 1000, address[:64]
        )
        if await self._record(OpenSession(session, actor=caller.name, bearer=caller.token)):
            return Opened(text, self._length_s)
        length_s = min(self._length_s, KEPT_HERE_S)
        self._here[id] = msgspec.structs.replace(session, expires_ms=now_ms + length_s * 1000)
        own = [each for each, kept in self._here.items() if kept.token == session.token]
        for oldest in own[:-SESSIONS_MAX] or (
            [next(iter(self._here))] if len(self._here) > KEPT_HERE_MAX else []
        ):
            del self._here[oldest]
        return Opened(text, length_s)

    async def close(self, session: Token) -> None:
        """Raises where nobody can record it. A session that is kept here alone is over in any case: its opening may
        have been recorded late, so that is revoked too."""
        was_here = self._here.pop(session.id, None) is not None
        try:
            await self._replica.propose(RevokeToken(session.id, actor=session.name))
        except TocsinError as wrong:
            if not was_here:
                raise
            if not isinstance(wrong, NotFound):
                log.warning("the end of a login was not recorded", reason=str(wrong))

    def is_here_only(self, id: str) -> bool:
        return id in self._here

    def kept_here(self, id: str, held: Mapping[str, Token]) -> Token | None:
        """The session with this id as a token, if this replica alone keeps it and ``held`` has its token."""
        session = self._here.get(id)
        opener = None if session is None else held.get(session.token)
        if session is None or opener is None:
            return None
        ends_ms = min(session.expires_ms, opener.expires_ms or session.expires_ms)
        return msgspec.structs.replace(
            opener, id=id, hash=session.hash, expires_ms=ends_ms, opened_by=opener.id
        )

    async def _record(self, command: OpenSession) -> bool:
        """False: nobody does, or nobody knows."""
        recording: asyncio.Task[Any] = asyncio.create_task(self._replica.propose(command), name="a login")
        done, _ = await asyncio.wait({recording}, timeout=RECORDED_WITHIN_S)
        if not done:
            recording.add_done_callback(lambda late: self._recorded_late(late, command.session.id))
            return False
        try:
            recording.result()
        except TocsinError as refused:
            if not refused.retryable and not isinstance(refused, Uncertain):
                raise
            log.warning("a login was not recorded, this replica alone knows it", reason=str(refused))
            return False
        return True

    def _recorded_late(self, recording: asyncio.Task[Any], id: str) -> None:
        """When nobody waited any more. A session that is recorded is kept here no longer, and can be revoked."""
        if recording.cancelled():
            return
        if recording.exception() is None:
            self._here.pop(id, None)
        else:
            log.warning(
                "a login was not recorded, this replica alone knows it", reason=str(recording.exception())
            )
