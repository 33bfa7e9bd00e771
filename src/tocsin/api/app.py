"""The application: every handler, with what they are given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from litestar import Litestar, Request
from litestar.di import Provide
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp

from tocsin.api import problems, query
from tocsin.api.around import Around
from tocsin.api.description import openapi, reference
from tocsin.api.direct import Direct
from tocsin.api.door.access import check_rights, provide_caller
from tocsin.api.door.gate import Gate
from tocsin.api.door.guard import BODY_BYTES_MAX
from tocsin.api.door.measured import Measured
from tocsin.api.door.methods import Methods
from tocsin.api.door.proxies import BehindProxies, TrustedProxies
from tocsin.api.door.transport_security import TransportSecurity
from tocsin.api.lazy_pages import WithPages
from tocsin.api.resources import (
    activity,
    afterwards,
    audit,
    backup,
    bulk,
    clock,
    cluster,
    events,
    forecast,
    launches,
    limits,
    preview,
    schedules,
    status,
    tokens,
    transfer,
)
from tocsin.api.resources.streams import Streams
from tocsin.api.service import Given, Service
from tocsin.config import Settings
from tocsin.errors import TocsinError
from tocsin.model.token import Caller
from tocsin.replica.replica import Replica


class Console(NamedTuple):
    """Pages that are served beside the API."""

    handlers: Callable[[], Sequence[HTTPRouteHandler]] = lambda: ()
    """Loads them."""
    around: Callable[[ASGIApp], ASGIApp] = lambda app: app
    """Put around everything: what is refused to whoever wanted a page is told as one."""


def build_app(
    replica: Replica,
    settings: Settings,
    streams: Streams | None = None,
    around: Around | None = None,
    console: Console | None = None,
) -> ASGIApp:
    """The API of one replica, which must have been started."""
    pages = console or Console()
    service = Service(replica, settings, around)
    given = streams or Streams(replica)
    app = WithPages(_router(service, given), lambda: _router(service, given, pages.handlers()))
    gate = Gate(Direct(Methods(app), service), service.doorkeeper, replica.clock, settings.rate_limit)
    measured = Measured(pages.around(gate), replica.metrics, replica.clock, is_logged=settings.access_log)
    secured = TransportSecurity(measured)
    trusted = TrustedProxies(settings.proxy_networks())
    return BehindProxies(secured, trusted) if trusted else secured


def _router(service: Service, streams: Streams, pages: Sequence[HTTPRouteHandler] = ()) -> Litestar:
    return Litestar(
        route_handlers=[
            *schedules.HANDLERS,
            *launches.HANDLERS,
            *limits.HANDLERS,
            *clock.HANDLERS,
            *status.HANDLERS,
            *events.HANDLERS,
            *preview.HANDLERS,
            *afterwards.HANDLERS,
            *audit.HANDLERS,
            *activity.HANDLERS,
            *forecast.HANDLERS,
            *bulk.HANDLERS,
            *transfer.HANDLERS,
            *tokens.HANDLERS,
            *backup.HANDLERS,
            *cluster.HANDLERS,
            openapi.description,
            reference.page,
            *pages,
        ],
        dependencies={
            "service": Provide(lambda: service, sync_to_thread=False),
            # One that needs another is given after it: two at once would each be a task of their own.
            "caller": Provide(_caller, sync_to_thread=False),
            "streams": Provide(lambda: streams, sync_to_thread=False),
        },
        before_request=_admit,
        exception_handlers={
            TocsinError: problems.answer_error,
            HTTPException: problems.answer_http,
            Exception: problems.answer_unexpected,
        },
        openapi_config=None,
        request_max_body_size=BODY_BYTES_MAX,
        logging_config=None,
        debug=False,
    )


async def _admit(request: Request[Any, Any, Any]) -> None:
    check_rights(request)
    query.check_known(request)


def _caller(request: Request[Any, Any, Any], service: Given) -> Caller:
    return provide_caller(request)
