"""Which field was probably meant by one that does not exist."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from difflib import get_close_matches

import msgspec


def meant(shape: object, path: str, name: str) -> str:
    """The field nearest to ``name`` among those at ``path`` below ``shape``; empty: none is near."""
    shapes = list(_structs(shape))
    for step in filter(None, path.split(".")):
        below = [typing.get_type_hints(found).get(step) for found in shapes]
        shapes = [struct for kind in below for struct in _structs(kind)]
    known = {field for found in shapes for field in found.__struct_encode_fields__} - {name}
    return next(iter(get_close_matches(name.lower(), sorted(known), n=1, cutoff=0.7)), "")


def _structs(kind: object) -> Iterator[type[msgspec.Struct]]:
    """The structs that a type allows: itself, or those of a union."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
    for part in typing.get_args(kind):
        yield from _structs(part)
