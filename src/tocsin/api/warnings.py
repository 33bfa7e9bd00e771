"""Warnings about a schedule that was written all the same."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tocsin.model.references import references_in
from tocsin.model.schedule import ScheduleView
from tocsin.model.target import HttpTarget, TargetSpec
from tocsin.state.apply.schedules import Put

_CREDENTIALS = frozenset(
    {"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-auth-token"}
)


class Warned(Put):
    """The result of a write, with warnings about it."""

    warnings: list[str]

    @classmethod
    def of(cls, put: Put, warnings: Sequence[str]) -> Warned:
        former = put.warnings if isinstance(put, Warned) else []
        warned = cls(put, put.act, put.row)
        warned.warnings = [*former, *warnings]
        return warned


def with_warnings(view: ScheduleView, written: object) -> ScheduleView:
    """The schedule, with the warnings about the write that made it."""
    return msgspec.structs.replace(view, warnings=written.warnings) if isinstance(written, Warned) else view


def literal_credential(spec: TargetSpec) -> str:
    """The first header that seems to hold a credential in clear. Empty: none does."""
    if not isinstance(spec, HttpTarget):
        return ""
    for name, value in spec.headers.items():
        if name.lower() in _CREDENTIALS and not references_in(value):
            return name
    return ""


def about_credential(name: str) -> str:
    return (
        f"the header {name!r} is stored and exported in clear: whoever may read the schedule can read it. Give a "
        "reference instead, such as ${env:NAME} or ${file:/path}"
    )
