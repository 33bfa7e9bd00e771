"""YAML, JSON and TOML, read strictly: a key that stands twice in a mapping is a mistake, not a riddle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from tocsin.errors import InvalidInput

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNQUOTED = ("cannot start any token", "alias", "alphabetic")
"""What YAML says of a bare ``@daily`` or ``*/5``."""


def load_all(name: str, text: str) -> list[object]:
    """The documents of a file; in the place of one that cannot be understood, the reason.

    Behind a mistake in the syntax nothing can be read any more: its reason is the last.
    """
    found: list[object] = []
    try:
        loader = _Loader(text)
        while loader.check_node():
            found.append(_understood(loader, name, loader.get_node()))
    except yaml.YAMLError as wrong:
        found.append(_bad_yaml(name, wrong))
    except (RecursionError, ValueError) as wrong:
        found.append(InvalidInput(f"{name}: {wrong}", field="file", value=name))
    return found


def load_toml(name: str, text: str) -> list[object]:
    """The one document of a file, or the reason why there is none. TOML itself forbids a key that stands twice."""
    import tomllib

    try:
        return [tomllib.loads(text)]
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as wrong:
        return [InvalidInput(f"{name}: {wrong}", field="file", value=name, allowed="TOML")]


def load_json(name: str, text: str) -> list[object]:
    """The one document of a file, or the reason why there is none. As YAML a stray comma would pass unseen."""
    import json

    try:
        return [json.loads(text, object_pairs_hook=_each_key_once)] if text.strip() else []
    except json.JSONDecodeError as wrong:
        place = f"line {wrong.lineno}, column {wrong.colno}"
        complaint = f"{name}, {place}: {wrong.msg[:1].lower()}{wrong.msg[1:]}"
        return [InvalidInput(complaint, field="file", value=name, allowed="JSON")]
    except _Twice as wrong:
        return [_twice_in_json(name, text, wrong.key)]
    except (RecursionError, ValueError) as wrong:
        return [InvalidInput(f"{name}: {wrong}", field="file", value=name, allowed="JSON")]


class _Twice(ValueError):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def _each_key_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _Twice(next(name for name in names if names.count(name) > 1))
    return found


def _twice_in_json(name: str, text: str, key: str) -> InvalidInput:
    """Where it stands twice is what reading it as YAML tells, which JSON mostly is."""
    told = [found for found in load_all(name, text) if isinstance(found, InvalidInput)]
    plain = InvalidInput(
        f"{name}: the key {key!r} stands twice in one object",
        field="file",
        value=key,
        allowed="each key once",
    )
    return next((found for found in told if "already" in found.message), plain)


def _understood(loader: Any, name: str, node: yaml.Node) -> object:
    repeated = next(_repeated_keys(node), None)
    if repeated is not None:
        return _twice(name, *repeated)
    try:
        return loader.construct_document(node)
    except yaml.YAMLError as wrong:
        return _bad_yaml(name, wrong)
    except (RecursionError, ValueError) as wrong:
        return InvalidInput(f"{name}: {wrong}", field="file", value=name)


def _repeated_keys(document: yaml.Node) -> Iterator[tuple[yaml.ScalarNode, yaml.ScalarNode]]:
    """Looked for before aliases and merges are resolved: those may well repeat a key."""
    seen: set[int] = set()
    to_see = [document]
    while to_see:
        node = to_see.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            to_see += reversed(node.value)
        elif isinstance(node, yaml.MappingNode):
            yield from _repeated_in(node)
            to_see += [value for _, value in reversed(node.value)]


def _repeated_in(mapping: yaml.MappingNode) -> Iterator[tuple[yaml.ScalarNode, yaml.ScalarNode]]:
    first: dict[str, yaml.ScalarNode] = {}
    for key, _ in mapping.value:
        # By its text: in JSON, which it becomes, 1 and "1" are the same key.
        if isinstance(key, yaml.ScalarNode) and first.setdefault(key.value, key) is not key:
            yield first[key.value], key


def _twice(name: str, first: yaml.ScalarNode, again: yaml.ScalarNode) -> InvalidInput:
    lines = [node.start_mark.line + 1 for node in (first, again)]
    return InvalidInput(
        f"{name}, line {lines[1]}: the key {again.value!r} stands in line {lines[0]} already",
        field="file",
        value=again.value,
        allowed="each key of a mapping once",
    )


def _bad_yaml(name: str, wrong: yaml.YAMLError) -> InvalidInput:
    mark = getattr(wrong, "problem_mark", None)
    place = "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"
    problem = getattr(wrong, "problem", None) or str(wrong).replace("\n", " ")
    hint = "put the cron text in quotes" if any(sign in problem for sign in _UNQUOTED) else ""
    return InvalidInput(
        f"{name}{place}: {problem}", field="file", value=name, allowed="YAML or JSON", hint=hint
    )
