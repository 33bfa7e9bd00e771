"""The file of limits, read strictly when the service starts: what is misspelt there would limit nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from tocsin.errors import InvalidInput
from tocsin.model.limit import LIMITS_MAX, Limit

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FIELDS = Limit.__struct_fields__
_SHAPE = "a list of limits, each with target or label, and rate or concurrency"
_HINT = "docs/herd.md shows a file of limits"
_NUMBERS = ("burst", "concurrency")


def read_limits(path: str) -> tuple[Limit, ...]:
    """The limits of a file. Raises with the line, the field and what is allowed there."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as wrong:
        told = wrong.strerror if isinstance(wrong, OSError) else "it is no text in UTF-8"
        raise InvalidInput(
            f"the file of limits cannot be read: {told}",
            field="limits",
            value=path,
            allowed="a file in YAML",
            hint="look at the path, or leave --limits away",
        ) from None
    return parse_limits(text, path)


def parse_limits(text: str, name: str) -> tuple[Limit, ...]:
    """``name``: of the file, for whoever has to mend it."""
    try:
        document = _Loader(text).get_single_node()
    except yaml.YAMLError as wrong:
        mark = getattr(wrong, "problem_mark", None)
        line = 0 if mark is None else mark.line + 1
        problem = getattr(wrong, "problem", None) or str(wrong).replace("\n", " ")
        raise _wrong(name, line, problem, "limits", name, "YAML") from None
    except (RecursionError, ValueError) as wrong:
        raise _wrong(name, 0, _printable(str(wrong)), "limits", name, "YAML") from None
    found: list[Limit] = []
    lines: dict[str, int] = {}
    for node in _items(document, name):
        limit, line = _limit(node, name), node.start_mark.line + 1
        if limit.name in lines:
            told = f"{limit.name!r} has its limit in line {lines[limit.name]} already"
            raise _wrong(name, line, told, "target" if limit.target else "label", limit.name, "each one once")
        lines[limit.name] = line
        found.append(limit)
    return tuple(found)


def _items(document: yaml.Node | None, name: str) -> list[yaml.Node]:
    """A list, or a mapping whose only key ``limits`` has one."""
    if document is None:
        return []
    if isinstance(document, yaml.MappingNode):
        keys = [(key.value, value) for key, value in document.value]
        if [key for key, _ in keys] == ["limits"]:
            document = keys[0][1]
    if isinstance(document, yaml.ScalarNode) and document.value in ("", "null", "~"):
        return []
    if not isinstance(document, yaml.SequenceNode):
        raise _wrong(name, document.start_mark.line + 1, f"it is not {_SHAPE}", "limits", "", _SHAPE)
    if len(document.value) > LIMITS_MAX:
        number = len(document.value)
        raise _wrong(name, 0, f"{number} limits are too many", "limits", number, f"up to {LIMITS_MAX}")
    return list(document.value)


def _limit(node: yaml.Node, name: str) -> Limit:
    line = node.start_mark.line + 1
    if not isinstance(node, yaml.MappingNode):
        raise _wrong(name, line, "it is not a limit", "limits", _told(node), _SHAPE)
    given: dict[str, Any] = {}
    lines: dict[str, int] = {}
    for field, value, line_of_field in _fields(node, name):
        if field in given:
            told = f"{field!r} stands in line {lines[field]} already"
            raise _wrong(name, line_of_field, told, field, value, "each field once")
        given[field], lines[field] = value, line_of_field
    limit = Limit(**given)
    try:
        limit.check()
    except InvalidInput as wrong:
        at = lines.get(wrong.field or "", line)
        raise _wrong(name, at, wrong.message, wrong.field or "limits", wrong.value, wrong.allowed) from None
    origin = limit.detail.rstrip("/").lower() if limit.kind == "http" else limit.detail
    return msgspec.structs.replace(
        limit, target=f"{limit.kind} {origin}".rstrip(), rate=limit.rate.replace(" ", "")
    )


def _fields(node: yaml.MappingNode, name: str) -> Iterator[tuple[str, Any, int]]:
    for key, value in node.value:
        line, field = key.start_mark.line + 1, _told(key)
        if field not in _FIELDS:
            raise _wrong(name, line, f"{field!r} is not known", field, field, ", ".join(_FIELDS))
        if not isinstance(value, yaml.ScalarNode):
            raise _wrong(name, line, f"{field} is one value", field, _told(value), "text or a number")
        yield field, _value(name, line, field, value.value), line


def _value(name: str, line: int, field: str, text: str) -> str | int:
    """As it is written: ``1e3`` or ``yes`` are not meant as YAML reads them."""
    if field not in _NUMBERS:
        return text.strip()
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise _wrong(name, line, f"{_printable(text)!r} is not a whole number", field, text, "1 or more")
    return int(text)


def _told(node: yaml.Node) -> str:
    return _printable(node.value) if isinstance(node, yaml.ScalarNode) else "(not a text)"


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text[:100])


def _wrong(name: str, line: int, message: str, field: str, value: object, allowed: str) -> InvalidInput:
    place = f"{_printable(name)}, line {line}" if line else _printable(name)
    return InvalidInput(f"{place}: {message}", field=field, value=value, allowed=allowed, hint=_HINT)
