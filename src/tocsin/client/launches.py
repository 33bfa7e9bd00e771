"""Launches: list, read, output, cancel; and events as they happen."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from tocsin.client.asking import PAGE, Asking, launch_path
from tocsin.client.events import follow_events
from tocsin.model.activity import ActivityView
from tocsin.model.answer import LaunchDetail, LaunchPage, OutputView, StatusView
from tocsin.model.event import Event
from tocsin.model.launch import LaunchView


class Launches(Asking):
    """The part of the client that deals with launches."""

    async def launches(
        self, *, schedule: str | None = None, states: Sequence[str] = (), since: str = "", until: str = ""
    ) -> AsyncIterator[LaunchView]:
        """All of them, the newest first."""
        cursor = ""
        while True:
            page = await self.launch_page(
                schedule=schedule, states=states, since=since, until=until, limit=PAGE, cursor=cursor
            )
            for view in page.items:
                yield view
            cursor = page.cursor
            if not cursor:
                return

    async def launch_page(
        self,
        *,
        schedule: str | None = None,
        states: Sequence[str] = (),
        since: str = "",
        until: str = "",
        limit: int = 100,
        cursor: str = "",
    ) -> LaunchPage:
        params = [("limit", str(limit)), ("cursor", cursor), *(("state", state) for state in states)]
        given = (("schedule", schedule), ("since", since), ("until", until))
        params += [(name, value) for name, value in given if value]
        return await self._get("/v1/launches", LaunchPage, params)

    async def launch(self, name: str) -> LaunchDetail:
        return await self._get(launch_path(name), LaunchDetail)

    async def output(self, name: str, *, attempt: int | None = None, after: int | None = None) -> OutputView:
        """``after``: only what was printed behind so many bytes, which is the ``position`` of a former answer."""
        given = (("attempt", attempt), ("after", after))
        params = [(key, str(value)) for key, value in given if value is not None]
        return await self._get(f"{launch_path(name)}:output", OutputView, params)

    async def cancel(self, name: str, reason: str = "") -> LaunchView:
        return await self._post(
            f"{launch_path(name)}:cancel", LaunchView, {"reason": reason} if reason else {}
        )

    def events(
        self,
        *,
        after: str | None = None,
        prefix: str = "",
        schedule: str | None = None,
        kinds: Sequence[str] = (),
        follow: bool = True,
    ) -> AsyncIterator[Event]:
        """What happens, as it happens; or from behind the event of that id on ("0": all that is kept).

        It goes on by itself, exactly where it was, when the connection is cut or the service is restarted. Without
        ``follow`` it ends with what has happened up to now.
        """
        given = (("prefix", prefix), ("schedule", schedule))
        params = [(name, value) for name, value in given if value] + [("kind", kind) for kind in kinds]
        return follow_events(self._wire, [*params, ("follow", str(follow).lower())], after)

    async def activity(self, *, since: str = "", until: str = "", bucket: str = "") -> ActivityView:
        """What happened in numbers, by default in the last hour, minute by minute. ``bucket``: such as 5m or 1h."""
        given = (("since", since), ("until", until), ("bucket", bucket))
        return await self._get(
            "/v1/activity", ActivityView, [(name, value) for name, value in given if value]
        )

    async def status(self) -> StatusView:
        return await self._get("/v1/status", StatusView)
