"""Errors as RFC 9457 problem details, and back: the server writes them, the client raises them again."""

from __future__ import annotations

import re
from http import HTTPStatus

from tocsin import errors
from tocsin.model.answer import Problem

_TYPE = "tag:tocsin,2026:"
_VALUE_LENGTH_MAX = 200
_STATUS: tuple[tuple[type[errors.TocsinError], int], ...] = (
    (errors.InvalidInput, 400),
    (errors.NotFound, 404),
    (errors.AlreadyExists, 409),
    (errors.Unauthenticated, 401),
    (errors.Forbidden, 403),
    (errors.TooMany, 429),
    (errors.VersionConflict, 412),
    (errors.Refused, 409),
    (errors.JournalFull, 503),
    (errors.JournalUnavailable, 503),
    (errors.Unknown, 503),
    (errors.Stopping, 503),
    (errors.BackupError, 503),
    (errors.NoLeader, 503),
    (errors.ClockNotBelieved, 503),
    (errors.ClusterError, 409),
    (errors.Uncertain, 504),
    (errors.Unreachable, 503),
)
_BY_STATUS: dict[int, type[errors.TocsinError]] = {
    401: errors.Unauthenticated,
    403: errors.Forbidden,
    429: errors.TooMany,
    404: errors.NotFound,
    409: errors.Refused,
    412: errors.VersionConflict,
}


def problem_of(error: errors.TocsinError) -> Problem:
    """The problem details of one of our errors."""
    invalid = error if isinstance(error, errors.InvalidInput) else None
    name = type(error).__name__
    return Problem(
        type=_TYPE + _dashed(name),
        title=_dashed(name).replace("-", " ").capitalize(),
        status=next((status for kind, status in _STATUS if isinstance(error, kind)), 500),
        detail=error.message,
        field=None if invalid is None else invalid.field,
        value=None if invalid is None else shown(invalid.value),
        allowed=None if invalid is None else invalid.allowed or None,
        hint=error.hint or None,
        retryable=error.retryable,
    )


def http_problem(status: int, detail: str, **more: object) -> Problem:
    """The problem details of what is said by the HTTP status alone."""
    fields = {"retryable": False, **more}
    return Problem(
        type="about:blank",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        **fields,  # type: ignore[arg-type]  # why: the callers pass fields of Problem
    )


def error_of(problem: Problem) -> errors.TocsinError:
    """The error that a problem was made from."""
    hint = problem.hint or ""
    fallback: type[errors.TocsinError] = _BY_STATUS.get(problem.status, errors.TocsinError)
    kind = _kinds().get(problem.type.removeprefix(_TYPE), fallback)
    if issubclass(kind, errors.InvalidInput):
        return kind(
            problem.detail,
            field=problem.field or "",
            value=problem.value,
            allowed=problem.allowed or "",
            hint=hint,
        )
    return kind(problem.detail, hint=hint)


def shown(value: object) -> object:
    """Values come back as they were given, but never a megabyte of them, and only what JSON can say."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**53:
        value = str(value)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _VALUE_LENGTH_MAX else text[: _VALUE_LENGTH_MAX - 3] + "..."


def _kinds() -> dict[str, type[errors.TocsinError]]:
    found = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    return {_dashed(kind.__name__): kind for kind in found if issubclass(kind, errors.TocsinError)}


def _dashed(name: str) -> str:
    """``VersionConflict`` as ``version-conflict``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()
