"""Schedules: list, read, write; pause, resume, run; upcoming, preview, why."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import msgspec

from tocsin.client.asking import PAGE, Asking, decoded, schedule_path
from tocsin.model.answer import SchedulePage, UpcomingView, WhyView
from tocsin.model.forecast import ForecastView
from tocsin.model.launch import LaunchView
from tocsin.model.preview import PreviewRequest, PreviewView
from tocsin.model.schedule import Schedule, ScheduleView


class Schedules(Asking):
    """The part of the client that deals with schedules."""

    async def schedules(
        self,
        *,
        prefix: str = "",
        labels: Mapping[str, str] | None = None,
        enabled: bool | None = None,
        target: str | None = None,
    ) -> AsyncIterator[ScheduleView]:
        """All of them, in the order of their ids."""
        cursor = ""
        while True:
            page = await self.schedule_page(
                prefix=prefix, labels=labels, enabled=enabled, target=target, limit=PAGE, cursor=cursor
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
        target: str | None = None,
        limit: int = 100,
        cursor: str = "",
    ) -> SchedulePage:
        params = [("prefix", prefix), ("limit", str(limit)), ("cursor", cursor)]
        params += [("label", f"{key}={value}") for key, value in (labels or {}).items()]
        if enabled is not None:
            params.append(("enabled", str(enabled).lower()))
        if target is not None:
            params.append(("target", target))
        return await self._get("/v1/schedules", SchedulePage, params)

    async def schedule(self, id: str) -> ScheduleView:
        return await self._get(schedule_path(id), ScheduleView)

    async def create(self, schedule: Schedule) -> tuple[ScheduleView, bool]:
        """The schedule, and whether it is new; False: exactly this one existed already."""
        body = msgspec.json.encode(schedule)
        answer = await self._wire.request("POST", "/v1/schedules", body=body, repeatable=True)
        return decoded(answer.body, ScheduleView), answer.status == 201

    async def put(self, schedule: Schedule, *, expect: int | None = None) -> ScheduleView:
        """Create or replace. ``expect``: 0 the id must be free, n it must be at this version."""
        headers = {"If-None-Match": "*"} if expect == 0 else _if_match(expect)
        body = msgspec.json.encode(schedule)
        answer = await self._wire.request("PUT", schedule_path(schedule.id), body=body, headers=headers)
        return decoded(answer.body, ScheduleView)

    async def patch(
        self, id: str, changes: Mapping[str, object], *, expect: int | None = None
    ) -> ScheduleView:
        """Change some fields (JSON Merge Patch); None puts one back to its default."""
        headers = {**_if_match(expect), "content-type": "application/merge-patch+json"}
        body = msgspec.json.encode(changes)
        answer = await self._wire.request("PATCH", schedule_path(id), body=body, headers=headers)
        return decoded(answer.body, ScheduleView)

    async def delete(self, id: str, *, expect: int | None = None) -> None:
        await self._wire.request("DELETE", schedule_path(id), headers=_if_match(expect))

    async def pause(self, id: str, note: str = "") -> ScheduleView:
        return await self._post(f"{schedule_path(id)}:pause", ScheduleView, {"note": note})

    async def resume(self, id: str) -> ScheduleView:
        return await self._post(f"{schedule_path(id)}:resume", ScheduleView, {})

    async def run(self, id: str) -> LaunchView:
        """Launch it now, beside its timeline."""
        return await self._post(f"{schedule_path(id)}:run", LaunchView, {})

    async def upcoming(self, id: str, *, count: int = 10, after: str | None = None) -> UpcomingView:
        params = [("count", str(count)), *([("after", after)] if after else [])]
        return await self._get(f"{schedule_path(id)}:upcoming", UpcomingView, params)

    async def preview(self, schedule: Schedule, *, days: int = 14, after: str | None = None) -> PreviewView:
        """What writing this schedule would change in the days to come. Nothing is written."""
        wish = msgspec.json.encode(PreviewRequest(schedule, days, after))
        answer = await self._wire.request("POST", "/v1/preview", body=wish, repeatable=True)
        return decoded(answer.body, PreviewView)

    async def forecast(
        self, *, since: str = "", until: str = "", bucket: str = "", prefix: str = "", worst: int = 5
    ) -> ForecastView:
        """The launches that are planned, by default those of the next day. Moments are RFC 3339 or unix seconds."""
        given = (
            ("since", since),
            ("until", until),
            ("bucket", bucket),
            ("prefix", prefix),
            ("worst", str(worst)),
        )
        return await self._get(
            "/v1/forecast", ForecastView, [(name, value) for name, value in given if value]
        )

    async def why(self, id: str, at: str | None = None) -> WhyView:
        """Why there was a launch at that instant (RFC 3339 or unix seconds), or why not."""
        return await self._get(f"{schedule_path(id)}:why", WhyView, [("at", at)] if at else [])


def _if_match(expect: int | None) -> dict[str, str]:
    return {} if expect is None else {"If-Match": f'"{expect}"'}
