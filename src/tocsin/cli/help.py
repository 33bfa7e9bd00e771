"""What ``--help`` says of options and arguments, in words of a person: no types of Python, no brackets in brackets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def tidied(params: Sequence[Any]) -> list[Any]:
    """The same parameters. A switch has no value to tell of, and what an argument is called is enough."""
    for param in params:
        if param.param_type_name == "argument":
            param.display_type_rich = _nothing
        elif param.metavar is None and not _has_choices(param):
            param.metavar = _value_of(param)
    return list(params)


def usage_of(params: Sequence[Any]) -> list[str]:
    """``[OPTIONS] ID [AT]``."""
    arguments = [param for param in params if param.param_type_name == "argument"]
    told = [(param.metavar or param.name.upper(), param.required) for param in arguments]
    return ["[OPTIONS]", *(name if is_required else f"[{name}]" for name, is_required in told)]


def _value_of(option: Any) -> str:
    if getattr(option, "is_flag", False) or getattr(option, "count", False):
        return ""
    return "N" if _kind(option) is int else "TEXT"


def _kind(option: Any) -> object:
    return getattr(getattr(option, "type_descriptor", None), "annotation", None)


def _has_choices(option: Any) -> bool:
    described = getattr(option, "type_descriptor", None)
    return bool(getattr(described, "is_choice", False) or getattr(option.__dict__.get("type"), "choices", ()))


def _nothing(ctx: Any) -> str:
    return ""
