"""What people do after the fact, who did what, and tokens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Literal
from urllib.parse import quote

from tocsin.client.asking import PAGE, Asking, decoded, launch_path, schedule_path
from tocsin.model.audit import AuditPage
from tocsin.model.backup import BackupView
from tocsin.model.history import BackfillView, RecordPage, RecordView, VersionList
from tocsin.model.launch import LaunchView
from tocsin.model.request import BackfillRequest, ResolveRequest, RestoreRequest, TokenRequest
from tocsin.model.schedule import ScheduleView
from tocsin.model.token import CallerView, NewTokenView, TokenList, TokenView

Scope = Literal["read", "write", "operate", "admin"]


class Records(Asking):
    """The part of the client that looks back."""

    async def history(
        self, *, schedule: str | None = None, actor: str | None = None
    ) -> AsyncIterator[RecordView]:
        """Who did what, the newest first."""
        cursor = ""
        while True:
            page = await self.history_page(schedule=schedule, actor=actor, limit=PAGE, cursor=cursor)
            for record in page.items:
                yield record
            cursor = page.cursor
            if not cursor:
                return

    async def history_page(
        self, *, schedule: str | None = None, actor: str | None = None, limit: int = 100, cursor: str = ""
    ) -> RecordPage:
        given = (("schedule", schedule), ("actor", actor), ("cursor", cursor), ("limit", str(limit)))
        return await self._get("/v1/history", RecordPage, [(name, value) for name, value in given if value])

    async def audit(
        self, *, schedule: str | None = None, prefix: str = "", since: str = "", until: str = ""
    ) -> AsyncIterator[AuditPage]:
        """The pages of an audit, all of the same time: they add up to the whole."""
        cursor = ""
        while True:
            page = await self.audit_page(
                schedule=schedule, prefix=prefix, since=since, until=until, cursor=cursor
            )
            yield page
            cursor, since, until = page.cursor, page.since.isoformat(), page.until.isoformat()
            if not cursor:
                return

    async def audit_page(
        self,
        *,
        schedule: str | None = None,
        prefix: str = "",
        since: str = "",
        until: str = "",
        limit: int = PAGE,
        cursor: str = "",
    ) -> AuditPage:
        """A part of it: of the journal first, then of the schedules."""
        given = (
            ("schedule", schedule),
            ("prefix", prefix),
            ("since", since),
            ("until", until),
            ("limit", str(limit)),
            ("cursor", cursor),
        )
        return await self._get("/v1/audit", AuditPage, [(name, value) for name, value in given if value])

    async def versions(self, id: str) -> VersionList:
        """Every version that is kept, also of a schedule that was deleted."""
        return await self._get(f"{schedule_path(id)}:versions", VersionList)

    async def restore(self, id: str, version: int | None = None) -> ScheduleView:
        """Bring back a former version; without one, the last of a schedule that was deleted."""
        return await self._post(f"{schedule_path(id)}:restore", ScheduleView, RestoreRequest(version))

    async def backfill(
        self,
        id: str,
        since: str,
        until: str | None = None,
        *,
        preview: bool = False,
        unrecorded: bool = False,
    ) -> BackfillView:
        """Launch what was left out in ``[since, until)``, one at a time; with ``preview`` only tell."""
        wish = BackfillRequest(since, until, preview, unrecorded)
        return await self._post(f"{schedule_path(id)}:backfill", BackfillView, wish)

    async def resolve(
        self, name: str, outcome: Literal["succeeded", "failed", "skipped", "relaunch"], note: str = ""
    ) -> LaunchView:
        """Say what became of a launch that is in doubt, or have it called again."""
        return await self._post(f"{launch_path(name)}:resolve", LaunchView, ResolveRequest(outcome, note))

    # Tokens

    async def tokens(self) -> list[TokenView]:
        return (await self._get("/v1/tokens", TokenList)).items

    async def create_token(
        self,
        name: str,
        scopes: Sequence[Scope],
        prefixes: Sequence[str] = (),
        expires_in: str | None = None,
        targets: Sequence[str] = (),
    ) -> NewTokenView:
        """A new token. Its text is told this once."""
        wish = TokenRequest(name, list(scopes), list(prefixes), expires_in, list(targets))
        return await self._post("/v1/tokens", NewTokenView, wish)

    async def revoke_token(self, token: str) -> None:
        """By name or id."""
        await self._wire.request("DELETE", "/v1/tokens/" + quote(token, safe=""))

    async def back_up(self) -> BackupView:
        """Have a backup made now. It answers when the copy is there: give the client time for that."""
        return decoded((await self._wire.request("POST", "/v1/backup")).body, BackupView)

    async def who_am_i(self) -> CallerView:
        return await self._get("/v1/whoami", CallerView)
