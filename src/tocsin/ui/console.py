"""All that the console serves."""

from __future__ import annotations

from collections.abc import Sequence

from litestar.handlers import HTTPRouteHandler

from tocsin.api.app import Console
from tocsin.ui.refusals import Refusals


def console() -> Console:
    """What the API is given to serve beside itself."""
    return Console(_handlers, Refusals)


def _handlers() -> Sequence[HTTPRouteHandler]:
    # Only now: the pages and their templates are memory that most replicas never need.
    from tocsin.ui import live, session, static
    from tocsin.ui.pages import cluster, edit, forecast, launch, launches, overview, schedule, schedules

    return [
        *session.HANDLERS,
        *static.HANDLERS,
        *live.HANDLERS,
        *overview.HANDLERS,
        *schedules.HANDLERS,
        *schedule.HANDLERS,
        *edit.HANDLERS,
        *launches.HANDLERS,
        *launch.HANDLERS,
        *forecast.HANDLERS,
        *cluster.HANDLERS,
    ]
