"""Writes ``settings.md`` out of the class ``Settings`` and the docstrings behind its fields."""

from __future__ import annotations

import ast
from pathlib import Path

from tocsin import config
from tocsin.config import Settings

PAGE = Path(__file__).with_suffix(".md")
_HEAD = """# Settings

Each setting of `tocsin serve` is an option or a variable of the environment. The option counts for more.
`make docs` writes this page out of [config.py](../src/tocsin/config.py).

| option | variable | default | what it is for |
|---|---|---|---|
"""


def texts() -> dict[str, str]:
    """Each setting and the docstring behind it; empty: there is none."""
    tree = ast.parse(Path(config.__file__).read_text(encoding="utf-8"))
    (body,) = [node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Settings"]
    found: dict[str, str] = {}
    for node, behind in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            is_text = isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant)
            found[node.target.id] = str(behind.value.value) if is_text else ""
    return found


def page() -> str:
    defaults = Settings()
    rows = []
    for name, text in texts().items():
        default = getattr(defaults, name)
        shown = "" if default == "" else f"`{str(default).lower() if isinstance(default, bool) else default}`"
        words = " ".join(text.split()).replace("``", "`").replace("|", "\\|")
        rows.append(f"| `--{name.replace('_', '-')}` | `TOCSIN_{name.upper()}` | {shown} | {words} |\n")
    return _HEAD + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
