"""The description at ``/openapi.json``, made of what the running application serves: it cannot forget a handler.

Parameters come from the handlers' signatures, shapes from the structs that are encoded and decoded, and the words
from ``about`` at each handler and from ``wording``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec
from litestar import Litestar, Request, Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import ParameterKwarg
from litestar.routes import HTTPRoute
from litestar.typing import FieldDefinition

from tocsin import __version__
from tocsin.api.description import wording
from tocsin.api.description.about import JSON, KEY, About, Answer, Body, about
from tocsin.api.description.shapes import REF, components, prose, schema_of
from tocsin.api.door.addresses import LAUNCH_VERBS, SCHEDULE_VERBS
from tocsin.api.problems import MEDIA_TYPE
from tocsin.model.answer import Problem
from tocsin.model.schedule import Schedule, ScheduleView

_ALWAYS = (400, 401, 403, 429, 500, 503)
_WITH_BODY = (413, 415)
_WRITING = (504,)
_HEADERS: dict[str, dict[str, Any]] = {
    "ETag": {
        "description": "The version, in quotes.",
        "required": True,
        "schema": {"type": "string", "pattern": '^"[0-9]+"$'},
    },
    "Location": {"description": "Where it is.", "required": True, "schema": {"type": "string"}},
    "Retry-After": {"description": "In so many seconds.", "required": True, "schema": {"type": "integer"}},
}


@get(
    "/openapi.json",
    operation_id="openapi",
    sync_to_thread=True,
    opt=about("service", "This description", answers={200: ("OpenAPI 3.1.", dict[str, Any])}),
)
def description(request: Request[Any, Any, Any]) -> Response[bytes]:
    """What you are reading, for programs."""
    return Response(_encoded(request.app), media_type=JSON)


@lru_cache(maxsize=1)
def _encoded(app: Litestar) -> bytes:
    return msgspec.json.encode(document(app))


@lru_cache(maxsize=1)
def document(app: Litestar) -> dict[str, Any]:
    """Made when it is first asked for, and on a thread: it takes longer than a launch may be late."""
    paths: dict[str, dict[str, Any]] = {}
    used: list[Any] = [Problem, Schedule]
    for path, method, handler in operations(app):
        paths.setdefault(path, {})[method.lower()] = _operation(path, handler, used)
    schemas = components(used)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tocsin", "version": __version__, "description": wording.INTRODUCTION},
        "servers": [{"url": "/"}],
        "security": [{}, {"bearer": []}],
        "tags": [{"name": name, "description": words} for name, words in wording.TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token, where the service demands one.",
                }
            },
        },
    }


def operations(app: Litestar) -> Iterator[tuple[str, str, HTTPRouteHandler]]:
    """Every address as callers write it, with its methods, in the order of the tags."""
    found = [
        (_outside(route.path), method, handler)
        for route in app.routes
        if isinstance(route, HTTPRoute)
        for method, (handler, _) in route.route_handler_map.items()
        if handler.resolve_include_in_schema()
    ]
    order = list(wording.TAGS)
    rank = {method: place for place, method in enumerate(("GET", "POST", "PUT", "PATCH", "DELETE"))}

    def place(operation: tuple[str, str, HTTPRouteHandler]) -> tuple[int, bool, str, int]:
        tag = about_of(operation[2]).tag
        is_apart = not operation[0].startswith(f"/v1/{tag}")
        where = order.index(tag) if tag in order else len(order)
        return where, is_apart, operation[0], rank.get(operation[1], 9)

    return iter(sorted(found, key=place))


def about_of(handler: HTTPRouteHandler) -> About:
    """What the handler says about itself, or what can be told without it."""
    said = handler.opt.get(KEY)
    if isinstance(said, About):
        return said
    shape = handler.parsed_fn_signature.return_type
    inner = (
        shape.inner_types[0].annotation if shape.inner_types and not shape.is_mapping else shape.annotation
    )
    is_struct = isinstance(inner, type) and issubclass(inner, msgspec.Struct)
    answer = Answer("Done.", inner if is_struct else None)
    status = handler.status_code or 200
    return About("service", str(handler.operation_id), {status: answer}, {404: wording.REFUSALS[404]})


def _outside(path: str) -> str:
    """``/v1/schedules/{id:str}/pause`` as ``/v1/schedules/{id}:pause``."""
    path = re.sub(r"\{(\w+):\w+\}", r"{\1}", path)
    head, _, verb = path.rpartition("/")
    return f"{head}:{verb}" if head.endswith("}") and verb in (*SCHEDULE_VERBS, *LAUNCH_VERBS) else path


def _operation(path: str, handler: HTTPRouteHandler, used: list[Any]) -> dict[str, Any]:
    said = about_of(handler)
    found: dict[str, Any] = {
        "operationId": str(handler.operation_id or path.strip("/")),
        "tags": [said.tag],
        "summary": said.summary,
        "description": prose(inspect.getdoc(handler.fn) or ""),
        "parameters": [*_parameters(handler)],
        "responses": {},
    }
    if said.body is not None:
        found["requestBody"] = _body(said.body, used)
    for status, answer in sorted(said.answers.items()):
        found["responses"][str(status)] = _answer(status, answer, used)
    usual = (
        *_ALWAYS,
        *(_WITH_BODY if said.body else ()),
        *(() if "GET" in handler.http_methods else _WRITING),
    )
    refused = {status: wording.REFUSALS[status] for status in usual}
    for status, words in sorted({**refused, **said.refusals}.items()):
        found["responses"][str(status)] = _refusal(status, words)
    return {key: value for key, value in found.items() if value != []}


def _parameters(handler: HTTPRouteHandler) -> Iterator[dict[str, Any]]:
    for name, field in handler.parsed_fn_signature.parameters.items():
        known = field.kwarg_definition
        if not isinstance(known, ParameterKwarg) or known.param_type not in ("query", "header", "path"):
            continue
        if type(known) is ParameterKwarg:
            continue  # what is handed in, not sent: the service
        words = (
            {"id": wording.ID, "name": wording.NAME, "token": wording.TOKEN}.get(name, {})
            if known.param_type == "path"
            else {}
        )
        schema = {**_schema(field, known), **words}
        described = schema.pop("description", "") or known.description or ""
        yield {
            "name": known.name or name,
            "in": str(known.param_type.value),
            "required": known.param_type == "path",
            "description": described,
            "schema": schema,
        }


def _schema(field: FieldDefinition, known: ParameterKwarg) -> dict[str, Any]:
    extra = known.schema_extra or {}
    if "type" in extra or "anyOf" in extra:
        return dict(extra)
    inner = [each for each in field.inner_types if each.annotation is not type(None)]
    annotation = inner[0].annotation if field.is_optional else field.annotation
    schema = {**msgspec.json.schema(annotation), **extra}
    if known.ge is not None:
        schema["minimum"] = known.ge
    if known.le is not None:
        schema["maximum"] = known.le
    if field.has_default and field.default not in (None, ""):
        schema["default"] = field.default
    return schema


def _body(body: Body, used: list[Any]) -> dict[str, Any]:
    schema = schema_of(body.shape, used)
    if body.may_lack:
        schema = components([body.shape])[body.shape.__name__]
        schema["required"] = [name for name in schema["required"] if name != body.may_lack]
    example = {} if body.example is None else {"example": body.example}
    content = {kind: {"schema": _as_sent(schema, kind), **example} for kind in body.kinds}
    return {"required": not body.is_optional, "content": content}


def _as_sent(schema: dict[str, Any], kind: str) -> dict[str, Any]:
    """What is not one JSON value is text to a program that reads this; lines and events have a shape each."""
    if kind.partition(";")[0].endswith(("/json", "+json")):
        return schema
    is_made_of = "ndjson" in kind or "event-stream" in kind
    return {
        "type": "string",
        **({"x-made-of": schema} if is_made_of and schema != {"type": "string"} else {}),
    }


def _answer(status: int, answer: Answer, used: list[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"description": answer.description}
    names = [*answer.headers, *(["ETag"] if answer.shape is ScheduleView or status == 304 else [])]
    names += ["Location"] if answer.shape is ScheduleView and status == 201 else []
    if names:
        found["headers"] = {name: _HEADERS[name] for name in names}
    links = wording.LINKS.get(getattr(answer.shape, "__name__", ""), {})
    if links:
        found["links"] = {
            operation: {"operationId": operation, "parameters": {name: f"$response.body#/{field}"}}
            for operation, (name, field) in links.items()
        }
    if answer.shape is not None:
        schema = schema_of(answer.shape, used)
        found["content"] = {kind: {"schema": _as_sent(schema, kind)} for kind in answer.kinds}
    return found


def _refusal(status: int, words: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "description": words,
        "content": {MEDIA_TYPE: {"schema": {"$ref": REF.format(name="Problem")}}},
    }
    return {**found, "headers": {"Retry-After": _HEADERS["Retry-After"]}} if status in (429, 503) else found
