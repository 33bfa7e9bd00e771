"""A test is any public function of a ``*_test.py`` file whose name is a claim, and nothing that it imports."""

from __future__ import annotations

import inspect
from typing import Any

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: Any, name: str, obj: Any) -> list[Any] | None:
    if inspect.isfunction(obj) and obj.__code__.co_filename != str(collector.path):
        wrapped = inspect.unwrap(obj)
        if wrapped.__code__.co_filename != str(collector.path):
            return []
    return None
