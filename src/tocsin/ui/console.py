"""All that the console serves."""

from __future__ import annotations

from tocsin.api.app import Console
from tocsin.ui import live, session, static
from tocsin.ui.pages import cluster, edit, forecast, launch, launches, overview, schedule, schedules
from tocsin.ui.refusals import Refusals


def console() -> Console:
    """What the API is given to serve beside itself."""
    handlers = [
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
    return Console(handlers, Refusals)
