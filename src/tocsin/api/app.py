"""The application: every handler, with what they are given."""

from __future__ import annotations

from litestar import Litestar
from litestar.di import Provide
from litestar.exceptions import HTTPException
from litestar.types import ASGIApp

from tocsin.api import launches, openapi, problems, schedules, status
from tocsin.api.gate import Gate
from tocsin.api.guard import BODY_BYTES_MAX
from tocsin.api.service import Service
from tocsin.config import Settings
from tocsin.errors import TocsinError
from tocsin.replica.replica import Replica


def build_app(replica: Replica, settings: Settings) -> ASGIApp:
    """The API of one replica, which must have been started."""
    service = Service(replica, settings)
    app = Litestar(
        route_handlers=[*schedules.HANDLERS, *launches.HANDLERS, *status.HANDLERS, openapi.description],
        dependencies={"service": Provide(lambda: service, sync_to_thread=False)},
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
    return Gate(app)
