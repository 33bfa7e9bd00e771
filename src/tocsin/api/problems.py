"""Every error as problem details. What a caller did wrong is told in full, what we did wrong is logged."""

from __future__ import annotations

from typing import Any

import msgspec
import structlog
from litestar import Request, Response
from litestar.exceptions import HTTPException, InternalServerException, ValidationException
from litestar.params import ParameterKwarg
from litestar.response.base import ASGIResponse
from litestar.types import ASGIApp

from tocsin import errors
from tocsin.model.answer import Problem
from tocsin.model.problem import http_problem, problem_of, shown

log = structlog.get_logger()

MEDIA_TYPE = "application/problem+json"
_CUT_OFF = "client disconnected prematurely"
"""The framework says this of a caller that hangs up in the middle of a body."""


class HttpRefusal(errors.Refused):
    """A request that is refused for what HTTP says about it, before anybody looks at its content."""

    def __init__(self, status: int, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status


def of_error(error: errors.TocsinError) -> Problem:
    """The problem details of an error of ours."""
    if isinstance(error, HttpRefusal):
        return http_problem(error.status, error.message, hint=error.hint or None)
    return problem_of(error)


def of_http(error: HTTPException, request: Request[Any, Any, Any]) -> Problem:
    """The problem details of a refusal by the framework."""
    if error.status_code == 404:
        return http_problem(404, f"there is nothing at {str(request.url.path)[:100]!r}")
    if error.status_code == 405:
        return http_problem(405, f"{request.method} is not possible here", allowed=_allow(error))
    if isinstance(error, ValidationException) and isinstance(error.extra, list) and error.extra:
        return _of_parameter(error.extra[0], request)
    return http_problem(error.status_code, error.detail)


def _of_parameter(wrong: dict[str, Any], request: Request[Any, Any, Any]) -> Problem:
    """The framework says which parameter, and what it expected."""
    field, complaint = str(wrong.get("key", "")), str(wrong.get("message", ""))
    value = request.query_params.get(field)
    allowed = _range(field, request) or complaint.removeprefix("Expected ").replace("`", "")
    return problem_of(
        errors.InvalidInput(f"{shown(value)!r} is not accepted", field=field, value=value, allowed=allowed)
    )


def _range(field: str, request: Request[Any, Any, Any]) -> str:
    """The parameter's range in words, if it is a number with one."""
    for name, parameter in request.route_handler.parsed_fn_signature.parameters.items():
        known = parameter.kwarg_definition
        if isinstance(known, ParameterKwarg) and (known.name or name) == field and known.ge is not None:
            return f"a whole number from {known.ge} to {known.le}"
    return ""


def _allow(error: HTTPException) -> str | None:
    """Whoever may GET may also ask for the HEAD of it."""
    found = (error.headers or {}).get("allow")
    return None if found is None else with_head(found)


def with_head(allow: str) -> str:
    """The methods of an ``Allow`` header, with HEAD wherever GET is, in one order."""
    methods = {method.strip() for method in allow.split(",") if method.strip()}
    return ", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set())))


def answer_error(_: Request[Any, Any, Any], error: errors.TocsinError) -> Response[bytes]:
    problem = of_error(error)
    if problem.status >= 500:
        log.warning("request not carried out", error=type(error).__name__, reason=str(error))
    return response(problem, retry_after=error.wait_s if isinstance(error, errors.TooMany) else 1)


def as_asgi(error: errors.TocsinError) -> ASGIApp:
    """The answer to a request that the framework never sees."""
    return as_sent(answer_error(None, error))  # type: ignore[arg-type]  # why: it does not look at the request


def as_sent(answer: Response[bytes]) -> ASGIApp:
    return ASGIResponse(
        body=answer.content,
        media_type=MEDIA_TYPE,
        status_code=answer.status_code or 500,
        headers=[(name, value) for name, value in answer.headers.items()],
    )


def answer_http(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    if isinstance(error, InternalServerException) and error.detail == _CUT_OFF:  # no fault of ours
        return response(http_problem(400, error.detail))
    if error.status_code >= 500:
        return answer_unexpected(request, error)
    return response(of_http(error, request), allow=_allow(error))


def answer_unexpected(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    return unexpected(request.method, request.url.path, error)


def unexpected(method: str, path: str, error: Exception) -> Response[bytes]:
    """Our own mistake: the log gets all of it, the caller nothing that could help an attacker."""
    log.error("unexpected error", method=method, path=path, exc_info=error)
    return response(http_problem(500, "something went wrong inside the service", hint="its log says more"))


def response(problem: Problem, allow: str | None = None, retry_after: int = 1) -> Response[bytes]:
    headers = {} if allow is None else {"Allow": allow}
    if problem.status in (429, 503):
        headers["Retry-After"] = str(retry_after)
    if problem.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="tocsin"'
    return Response(
        msgspec.json.encode(problem), media_type=MEDIA_TYPE, status_code=problem.status, headers=headers
    )
