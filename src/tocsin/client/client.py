"""One coroutine a thing that the API can do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import quote

import msgspec

from tocsin.client.wire import TIMEOUT_S, Wire, addresses
from tocsin.errors import TocsinError
from tocsin.model.answer import (
    LaunchDetail,
    LaunchPage,
    OutputView,
    SchedulePage,
    StatusView,
    UpcomingView,
    WhyView,
)
from tocsin.model.launch import LaunchView
from tocsin.model.schedule import Schedule, ScheduleView

_T = TypeVar("_T")
PAGE = 1000


class Client:
    """Talks to a Tocsin service::

        async with Client() as client:
            async for schedule in client.schedules(prefix="billing/"):
                print(schedule.id, schedule.next)

    Without an address it takes ``TOCSIN_URL``, else http://127.0.0.1:8400. It raises ``tocsin.errors``.
    """

    def __init__(self, urls: str | Iterable[str] | None = None, *, timeout_s: float = TIMEOUT_S) -> None:
        self.urls = addresses(urls)
        self._wire = Wire(self.urls, timeout_s)

    async def __aenter__(self) -> Self:
        await self._wire.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._wire.close()

    # Schedules

    async def schedules(
        self, *, prefix: str = "", labels: Mapping[str, str] | None = None, enabled: bool | None = None
    ) -> AsyncIterator[ScheduleView]:
        """All of them, in the order of their ids."""
        cursor = ""
        while True:
            page = await self.schedule_page(
                prefix=prefix, labels=labels, enabled=enabled, limit=PAGE, cursor=cursor
            )
            for view in page.items:
                yield view
            cursor = page.cursor
            if not cursor:
                return

    async def schedule_page(
        self,
        *,
        prefix: str = "",
        labels: Mapping[str, str] | None = None,
        enabled: bool | None = None,
        limit: int = 100,
        cursor: str = "",
    ) -> SchedulePage:
        params = [("prefix", prefix), ("limit", str(limit)), ("cursor", cursor)]
        params += [("label", f"{key}={value}") for key, value in (labels or {}).items()]
        if enabled is not None:
            params.append(("enabled", str(enabled).lower()))
        return await self._get("/v1/schedules", SchedulePage, params)

    async def schedule(self, id: str) -> ScheduleView:
        return await self._get(_schedule(id), ScheduleView)

    async def create(self, schedule: Schedule) -> tuple[ScheduleView, bool]:
        """The schedule, and whether it is new; False: exactly this one existed already."""
        answer = await self._wire.request("POST", "/v1/schedules", body=msgspec.json.encode(schedule))
        return _decoded(answer.body, ScheduleView), answer.status == 201

    async def put(self, schedule: Schedule, *, expect: int | None = None) -> ScheduleView:
        """Create or replace. ``expect``: 0 the id must be free, n it must be at this version."""
        headers = {"If-None-Match": "*"} if expect == 0 else _if_match(expect)
        body = msgspec.json.encode(schedule)
        answer = await self._wire.request("PUT", _schedule(schedule.id), body=body, headers=headers)
        return _decoded(answer.body, ScheduleView)

    async def delete(self, id: str, *, expect: int | None = None) -> None:
        await self._wire.request("DELETE", _schedule(id), headers=_if_match(expect))

    async def pause(self, id: str, note: str = "") -> ScheduleView:
        return await self._post(f"{_schedule(id)}:pause", ScheduleView, {"note": note})

    async def resume(self, id: str) -> ScheduleView:
        return await self._post(f"{_schedule(id)}:resume", ScheduleView, {})

    async def run(self, id: str) -> LaunchView:
        """Launch it now, beside its timeline."""
        return await self._post(f"{_schedule(id)}:run", LaunchView, {})

    async def upcoming(self, id: str, *, count: int = 10, after: str | None = None) -> UpcomingView:
        params = [("count", str(count)), *([("after", after)] if after else [])]
        return await self._get(f"{_schedule(id)}:upcoming", UpcomingView, params)

    async def why(self, id: str, at: str | None = None) -> WhyView:
        """Why there was a launch at that instant (RFC 3339 or unix seconds), or why not."""
        return await self._get(f"{_schedule(id)}:why", WhyView, [("at", at)] if at else [])

    # Launches

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
        return await self._get(_launch(name), LaunchDetail)

    async def output(self, name: str, *, attempt: int | None = None) -> OutputView:
        params = [] if attempt is None else [("attempt", str(attempt))]
        return await self._get(f"{_launch(name)}:output", OutputView, params)

    async def cancel(self, name: str, reason: str = "") -> LaunchView:
        return await self._post(f"{_launch(name)}:cancel", LaunchView, {"reason": reason} if reason else {})

    # The service

    async def status(self) -> StatusView:
        return await self._get("/v1/status", StatusView)

    async def _get(self, path: str, shape: type[_T], params: Iterable[tuple[str, str]] = ()) -> _T:
        return _decoded((await self._wire.request("GET", path, params=params)).body, shape)

    async def _post(self, path: str, shape: type[_T], body: Mapping[str, str]) -> _T:
        return _decoded((await self._wire.request("POST", path, body=msgspec.json.encode(body))).body, shape)


def _decoded(body: bytes, shape: type[_T]) -> _T:
    try:
        return msgspec.json.decode(body, type=shape)
    except msgspec.MsgspecError as wrong:
        raise TocsinError(
            f"the answer is not what this version understands: {wrong}",
            hint="is this the address of Tocsin, and is it of the same version?",
        ) from None


def _schedule(id: str) -> str:
    return "/v1/schedules/" + quote(id, safe="")


def _launch(name: str) -> str:
    return "/v1/launches/" + quote(name, safe="")


def _if_match(expect: int | None) -> dict[str, str]:
    return {} if expect is None else {"If-Match": f'"{expect}"'}
