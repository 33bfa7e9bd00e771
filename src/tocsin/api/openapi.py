"""The description at ``/openapi.json``: what the framework finds out, with our addresses and bodies."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from litestar import Litestar, Response, get
from litestar.di import Provide
from litestar.openapi.config import OpenAPIConfig

from tocsin import __version__
from tocsin.api import launches, schedules, status
from tocsin.api.addresses import LAUNCH_VERBS, SCHEDULE_VERBS
from tocsin.api.bodies import CancelBody, PauseBody
from tocsin.model.answer import Problem
from tocsin.model.schedule import Schedule

_REF = "#/components/schemas/{name}"
_BODIES: dict[str, tuple[type, bool]] = {
    "createSchedule": (Schedule, True),
    "putSchedule": (Schedule, True),
    "pauseSchedule": (PauseBody, False),
    "resumeSchedule": (PauseBody, False),
    "cancelLaunch": (CancelBody, False),
}


@get("/openapi.json", include_in_schema=False, sync_to_thread=True)
def description() -> Response[bytes]:
    """Made when it is first asked for, and on a thread: it takes longer than a launch may be late."""
    return Response(_document(), media_type="application/json")


@cache
def _document() -> bytes:
    """From an application that is never run: the framework's own pages come with its description, and one of
    them would answer for every path that there is not."""
    handlers = [*schedules.HANDLERS, *launches.HANDLERS, *status.HANDLERS]
    config = OpenAPIConfig(
        title="Tocsin",
        version=__version__,
        description="A distributed cron service. Ids may contain slashes, written as they are or as %2F.",
        use_handler_docstrings=True,
    )
    nothing = Provide(lambda: None, sync_to_thread=False)
    app = Litestar(handlers, openapi_config=config, dependencies={"service": nothing}, logging_config=None)
    return msgspec.json.encode(complete(app.openapi_schema.to_schema()))


def complete(schema: dict[str, Any]) -> dict[str, Any]:
    """The framework's schema with colon verbs, request bodies and one description of every error."""
    used = [shape for shape, _ in _BODIES.values()]
    _, components = msgspec.json.schema_components([*used, Problem], ref_template=_REF)
    schemas = {**schema.get("components", {}).get("schemas", {}), **components}
    paths = {_outside(path): item for path, item in schema.get("paths", {}).items()}
    for item in paths.values():
        for operation in item.values():
            if isinstance(operation, dict):
                _complete_operation(operation)
    return {**schema, "paths": paths, "components": {**schema.get("components", {}), "schemas": schemas}}


def _outside(path: str) -> str:
    head, _, verb = path.rpartition("/")
    return f"{head}:{verb}" if head.endswith("}") and verb in (*SCHEDULE_VERBS, *LAUNCH_VERBS) else path


def _complete_operation(operation: dict[str, Any]) -> None:
    responses = operation.setdefault("responses", {})
    responses.pop("400", None)
    responses["default"] = {
        "description": "Why it was not carried out.",
        "content": {"application/problem+json": {"schema": {"$ref": _REF.format(name="Problem")}}},
    }
    shape = _BODIES.get(operation.get("operationId", ""))
    if shape is not None:
        ref = {"$ref": _REF.format(name=shape[0].__name__)}
        operation["requestBody"] = {"required": shape[1], "content": {"application/json": {"schema": ref}}}
