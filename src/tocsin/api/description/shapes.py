"""What is sent and answered as JSON schema: from the structs themselves, with the words of ``wording``."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import UnionType
from typing import Any, get_args

import msgspec
import msgspec.inspect as inspecting

from tocsin.api.bodies import SchedulePatch
from tocsin.api.description import wording

REF = "#/components/schemas/{name}"


def components(used: list[Any]) -> dict[str, dict[str, Any]]:
    """The schemas of these types and of all that they are made of, by name."""
    _, schemas = msgspec.json.schema_components(used, ref_template=REF)
    for name, schema in schemas.items():
        _put_words(name, schema)
    for struct in _structs(used):
        _put_moments(struct, schemas[struct.cls.__name__]["properties"])
    if SchedulePatch.__name__ in schemas:
        schemas[SchedulePatch.__name__] = _patch(schemas["Schedule"])
    return dict(sorted(schemas.items()))


def schema_of(shape: Any, used: list[Any]) -> dict[str, Any]:
    """The schema of a type, noted for the components. Lines may be of several kinds that no tag tells apart."""
    if isinstance(shape, UnionType):
        return {"anyOf": [schema_of(each, used) for each in get_args(shape)]}
    used.append(shape)
    (schema,), _ = msgspec.json.schema_components([shape], ref_template=REF)
    return schema


def _put_words(name: str, schema: dict[str, Any]) -> None:
    """Descriptions and limits into the properties. Where null is possible too, limits belong to the other half."""
    if "description" in schema:
        schema["description"] = prose(schema["description"])
    schema.update(wording.WHOLE.get(name, {}))
    for field, words in wording.FIELDS.get(name, {}).items():
        found = schema.get("properties", {}).get(field)
        if found is None:
            continue
        choices = found.get("anyOf", [])
        if {"type": "null"} in choices and len(choices) == 2:
            (half,) = (choice for choice in choices if choice != {"type": "null"})
            limits = {key: value for key, value in words.items() if key not in ("description", "examples")}
            _update(half, limits)
            found.update({key: value for key, value in words.items() if key not in limits})
        else:
            _update(found, words)


def _structs(shapes: list[Any]) -> Iterator[inspecting.StructType]:
    """Every struct among these types, and those that their fields are made of."""
    seen: set[type] = set()
    waiting = list(inspecting.multi_type_info(shapes))
    while waiting:
        found = waiting.pop(0)
        waiting += _parts(found)
        if isinstance(found, inspecting.StructType) and found.cls not in seen:
            seen.add(found.cls)
            waiting += [field.type for field in found.fields]
            yield found


def _parts(found: inspecting.Type) -> list[inspecting.Type]:
    parts = getattr(found, "types", None) or (
        getattr(found, "item_type", None),
        getattr(found, "value_type", None),
    )
    return [part for part in parts if part is not None]


def _put_moments(struct: inspecting.StructType, properties: dict[str, Any]) -> None:
    """A moment may come with or without an offset as far as its type goes; here it always has one."""
    for field in struct.fields:
        for found in (field.type, *_parts(field.type)):
            if isinstance(found, inspecting.DateTimeType):
                schema = properties[field.encode_name]
                half = schema.get("items") or next(iter(schema.get("anyOf", [schema])))
                half["format"] = "date-time"


def _update(schema: dict[str, Any], words: dict[str, Any]) -> None:
    """None takes away what the type says and the words say better."""
    schema.update(words)
    for key in [key for key, value in schema.items() if value is None and key != "default"]:
        del schema[key]


def _patch(schedule: dict[str, Any]) -> dict[str, Any]:
    """A schedule of which every part may be missing; null stands for the default, where there is one."""
    properties: dict[str, Any] = {}
    for name, schema in schedule["properties"].items():
        must = name in schedule["required"]
        described = {key: schema[key] for key in ("description", "examples") if key in schema}
        rest = {key: value for key, value in schema.items() if key not in ("default", *described)}
        if name == "target":
            rest = {"type": "object"}
        choices = rest["anyOf"] if set(rest) == {"anyOf"} else [rest] if rest else []
        is_nullable = not must and choices and {"type": "null"} not in choices
        properties[name] = {
            **described,
            **({"anyOf": [*choices, {"type": "null"}]} if is_nullable else rest),
        }
    return {
        "title": "SchedulePatch",
        "description": prose(inspect.getdoc(SchedulePatch) or ""),
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }


def prose(text: str) -> str:
    """A docstring as one paragraph of Markdown."""
    return " ".join(text.replace("``", "`").split())
