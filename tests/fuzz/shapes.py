"""Values of any shape that a struct declares, for hypothesis."""

from __future__ import annotations

import types
from typing import Any, Union, get_args, get_origin

import msgspec
from hypothesis import strategies as st
from tests.peers.messages_test import SCHEDULE, TOKEN

from tocsin.model.schedule import Schedule
from tocsin.model.token import Token

_PLAIN: dict[object, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**63), 2**63 - 1),
    str: st.text(max_size=40),
    bool: st.booleans(),
    bytes: st.binary(max_size=40),
    type(None): st.none(),
    Schedule: st.builds(
        lambda description, payload: msgspec.structs.replace(
            SCHEDULE, description=description, payload=payload
        ),
        st.text(max_size=40),
        st.recursive(
            st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=9),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
            ),
            max_leaves=6,
        ),
    ),
    Token: st.builds(lambda name: msgspec.structs.replace(TOKEN, name=name), st.text(max_size=9)),
}


def values(shape: Any) -> st.SearchStrategy[Any]:
    """Any value of a field of this type."""
    if shape in _PLAIN:
        return _PLAIN[shape]
    if get_origin(shape) in (Union, types.UnionType):
        return st.one_of([values(each) for each in get_args(shape)])
    if get_origin(shape) is list:
        return st.lists(values(get_args(shape)[0]), max_size=4)
    return structs(shape)


def structs(kind: Any) -> st.SearchStrategy[Any]:
    fields = msgspec.structs.fields(kind)
    return st.builds(kind, **{field.name: values(field.type) for field in fields})
