"""The core asks nobody: no clock, no chance, no network, no environment."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tocsin

ROOT = Path(tocsin.__file__).parent
PURE = ["cron", "model", "state", "decide", "errors.py"]
FORBIDDEN = {"asyncio", "time", "random", "secrets", "uuid", "socket", "threading", "subprocess", "signal"}
FORBIDDEN_CALLS = {"now", "utcnow", "today", "getenv", "urandom", "environ"}


def _files() -> list[Path]:
    found: list[Path] = []
    for name in PURE:
        place = ROOT / name
        found += sorted(place.rglob("*.py")) if place.is_dir() else [place]
    return found


@pytest.mark.parametrize("path", _files(), ids=lambda path: str(path.relative_to(ROOT)))
def the_core_asks_nobody(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert not {alias.name.partition(".")[0] for alias in node.names} & FORBIDDEN
        elif isinstance(node, ast.ImportFrom):
            assert (node.module or "").partition(".")[0] not in FORBIDDEN
        elif isinstance(node, ast.Attribute):
            assert node.attr not in FORBIDDEN_CALLS, f"line {node.lineno}: .{node.attr}"
