"""What stands behind the question mark: each parameter with its words, and nothing that nobody knows.

A parameter that is mistyped would otherwise be ignored, and the whole list be taken for the part that was meant.
"""

from __future__ import annotations

import base64
import difflib
import re
import zlib
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl

from litestar.connection import Request
from litestar.handlers.base import BaseRouteHandler
from litestar.params import HeaderParameter, ParameterKwarg, QueryParameter
from litestar.typing import FieldDefinition

from tocsin.errors import InvalidInput
from tocsin.model.ids import ID_LENGTH_MAX, check_id
from tocsin.model.problem import shown
from tocsin.model.schedule import LABELS_MAX
from tocsin.model.target import KINDS

PAGE_MAX = 1000
REPEATED_MAX = 32
"""The most values of a parameter that may be given several times."""
ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._@+-]*(/(?!\.{1,2}(/|$))[A-Za-z0-9._@+-]+)*$"
PREFIX_PATTERN = r"^([A-Za-z0-9][A-Za-z0-9._@+/-]*)?$"
_CURSOR_PATTERN = r"^([A-Za-z0-9_-]{6,300})?$"
_LABEL_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}=[^\x00-\x1f\x7f]{0,200}$"
MOMENT: dict[str, Any] = {
    "anyOf": [
        {"type": "string", "format": "date-time"},
        {"type": "string", "pattern": "^-?[0-9]{1,10}$"},
    ],
    "examples": ["2026-01-31T09:00:00Z"],
}

Limit = Annotated[int, QueryParameter(ge=1, le=PAGE_MAX, description="How many at most.")]
Cursor = Annotated[
    str,
    QueryParameter(
        description="The cursor of the page before. Without it the list begins at its beginning.",
        schema_extra={"pattern": _CURSOR_PATTERN, "format": "cursor"},
    ),
]
Prefix = Annotated[
    str,
    QueryParameter(
        description="Only ids that begin with this.",
        schema_extra={"pattern": PREFIX_PATTERN, "maxLength": ID_LENGTH_MAX, "examples": ["billing/"]},
    ),
]
Labels = Annotated[
    list[str] | None,
    QueryParameter(
        description="`key=value`. May be given several times: all of them must hold.",
        schema_extra={
            "items": {"type": "string", "pattern": _LABEL_PATTERN, "examples": ["team=finance"]},
            "maxItems": LABELS_MAX,
        },
    ),
]
Enabled = Annotated[
    str | None,
    QueryParameter(
        description="Only those that are enabled, or only those that are paused.",
        schema_extra={"type": "boolean"},
    ),
]
TargetKind = Annotated[
    str | None,
    QueryParameter(description="Only those with this kind of target.", schema_extra={"enum": [*KINDS]}),
]
ScheduleId = Annotated[
    str | None,
    QueryParameter(
        description="Only launches of this schedule. It may have been deleted since.",
        schema_extra={"pattern": ID_PATTERN, "maxLength": ID_LENGTH_MAX, "examples": ["billing/payroll"]},
    ),
]
IfMatch = Annotated[
    str | None,
    HeaderParameter(
        name="If-Match",
        description='Only if the schedule is at this version, given as its ETag, such as `"3"`. `*`: any version.',
        schema_extra={"format": "entity-tags", "examples": ['"3"']},
    ),
]
IfNoneMatch = Annotated[
    str | None,
    HeaderParameter(
        name="If-None-Match",
        description="Only if the schedule is at another version than this. `*`: only if there is none.",
        schema_extra={"format": "entity-tags", "examples": ['"3"']},
    ),
]


def moment(description: str) -> ParameterKwarg:
    """A parameter that is a moment: RFC 3339, or unix seconds."""
    return QueryParameter(description=description, schema_extra=MOMENT)


def check_known(request: Request[Any, Any, Any]) -> None:
    """Refuse what the handler does not ask for, and what it asks for once but was given twice. Probes and pages
    are left alone: others put things behind their addresses."""
    if not request.scope["query_string"] or request.scope.get("method") == "OPTIONS":
        return
    if not request.scope["path"].startswith("/v1/"):
        return
    known = parameters(request.route_handler)
    given = parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True)
    for name, count in Counter(name for name, _ in given).items():
        if name not in known:
            raise _unknown(name, list(known))
        if count > 1 and not known[name].is_non_string_sequence and not _is_optional_list(known[name]):
            raise InvalidInput(
                f"it was given {count} times", field=name, value=count, allowed="one value", hint="leave one"
            )
    for name, value in given:
        # The framework would take this word for a parameter that was left out.
        if value.lower() == "null" and known[name].is_optional and str not in _types(known[name]):
            raise InvalidInput(
                "'null' is not a value", field=name, value=value, allowed="a value", hint="leave it out"
            )


@cache
def parameters(handler: BaseRouteHandler) -> dict[str, FieldDefinition]:
    """The query parameters of a handler, by the names that callers use."""
    return {
        field.kwarg_definition.name or name: field
        for name, field in handler.parsed_fn_signature.parameters.items()
        if isinstance(field.kwarg_definition, QueryParameter)
    }


def _types(field: FieldDefinition) -> list[Any]:
    return [inner.annotation for inner in field.inner_types]


def _is_optional_list(field: FieldDefinition) -> bool:
    return any(inner.is_non_string_sequence for inner in field.inner_types)


def _unknown(name: str, known: list[str]) -> InvalidInput:
    meant = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    return InvalidInput(
        f"there is no parameter {name[:60]!r} here",
        field=name[:60] or "query",
        value=shown(name),
        allowed=", ".join(known) or "no parameters",
        hint=f"did you mean {meant[0]}?" if meant else "",
    )


# Cursors. What is in them is nobody's business, and only what was handed out is taken back.


def cursor_of(kind: Literal["s", "l", "r", "a"], position: str) -> str:
    """The position in a list, as a caller may hand it back; empty stays empty: the list has ended."""
    if not position:
        return ""
    content = (kind + position).encode()
    return base64.urlsafe_b64encode(_checksum(content) + content).rstrip(b"=").decode()


def position_of(kind: Literal["s", "l", "r", "a"], cursor: str) -> str:
    """The position that a cursor stands for."""
    if not cursor:
        return ""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        content = raw[4:].decode()
    except ValueError:  # of base64 and of UTF-8 alike
        content = ""
    position = content[1:]
    # A checksum finds what was mistyped; whoever computes one may put anything behind it.
    if content[:1] != kind or cursor_of(kind, position) != cursor or not _could_be(kind, position):
        raise InvalidInput(
            "that is not a cursor of this list",
            field="cursor",
            value=cursor,
            allowed="the cursor of the page before, unchanged",
            hint="leave it out to begin at the beginning",
        )
    return position


def _could_be(kind: Literal["s", "l", "r", "a"], position: str) -> bool:
    """Is it an id, or the number of a launch or record?"""
    if kind == "a":  # of an audit: in the journal, or among the schedules
        if re.fullmatch(r"![0-9]{1,18}|=", position):
            return True
        kind, position = "s", position.removeprefix("=")
    if kind != "s":
        return re.fullmatch(r"[0-9]{1,18}", position) is not None
    try:
        check_id(position)
    except InvalidInput:
        return False
    return True


def _checksum(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(4, "big")


# Filters


def prefix_of(text: str) -> str:
    """The beginning of an id. One that no id can have is a mistake, not an empty list."""
    if text:
        # What is cut off in the middle (after a slash, within "..") would be an id with something more behind it.
        check_id(text[: ID_LENGTH_MAX - 1] + "x", field="prefix") if text[-1] in "/." else check_id(
            text, field="prefix"
        )
    return text


def labels_of(pairs: list[str] | None) -> dict[str, str]:
    """``key=value`` pairs. One key cannot have two values at once."""
    check_few(pairs, LABELS_MAX, "label")
    labels: dict[str, str] = {}
    for pair in pairs or ():
        key, sign, value = pair.partition("=")
        if not sign:
            raise _no_label(pair)
        check_label(key, value)
        if labels.setdefault(key, value) != value:
            raise InvalidInput(
                f"{key!r} cannot be both {labels[key]!r} and {value!r}",
                field="label",
                value=pair,
                allowed="one value for each key",
            )
    return labels


def check_few(given: Sequence[str] | None, most: int, field: str) -> None:
    """As the description says of a parameter that may be given several times."""
    if given is not None and len(given) > most:
        raise InvalidInput(
            f"{len(given)} times {field!r} are too many",
            field=field,
            value=len(given),
            allowed=f"up to {most}",
        )


def check_label(key: str, value: str) -> None:
    """Could a schedule have this label? To look for one that none can have is a mistake."""
    if "=" in key or not re.fullmatch(_LABEL_PATTERN.strip("^$"), f"{key}={value}"):
        raise _no_label(f"{key}={value}")


def _no_label(pair: str) -> InvalidInput:
    return InvalidInput(
        f"{pair[:60]!r} is not a label",
        field="label",
        value=pair,
        allowed="key=value: a key of up to 63 of A-Z a-z 0-9 . _ / -, a value of up to 200 characters",
    )


def one_of(text: str | None, known: Sequence[str], field: str) -> str | None:
    """One of a few words."""
    if text is not None and text not in known:
        meant = difflib.get_close_matches(text, known, n=1)
        raise InvalidInput(
            f"{text[:60]!r} is not known",
            field=field,
            value=text,
            allowed=", ".join(known),
            hint=f"did you mean {meant[0]}?" if meant else "",
        )
    return text


def truth_of(text: str | None) -> bool | None:
    """``true`` or ``false``."""
    return None if one_of(text, ("true", "false"), "enabled") is None else text == "true"
