"""What the documents say is so."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest
import typer
import yaml

from tocsin import config
from tocsin.cli.main import app
from tocsin.model import schedule

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
COMMANDS = typer.main.get_command(app)


def _blocks(language: str = "") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def _tocsin_lines() -> list[str]:
    lines = [line for block in _blocks() for line in block.splitlines()]
    return [line.partition("  #")[0].strip() for line in lines if line.startswith("tocsin ")]


@pytest.mark.parametrize("line", _tocsin_lines())
def each_command_in_the_readme_can_be_typed(line: str) -> None:
    name, *words = shlex.split(line)[1:]
    command = COMMANDS.commands[name]
    command.make_context(name, words, resilient_parsing=False)


def _documented_lines() -> list[str]:
    texts = [path.read_text().replace("\\\n", " ") for path in (ROOT / "docs").glob("*.md")]
    lines = [line.strip() for text in texts for line in text.splitlines() if line.startswith("    tocsin ")]
    return [line.partition("  #")[0] for line in lines]


@pytest.mark.parametrize("line", _documented_lines())
def each_command_in_the_documents_can_be_typed(line: str) -> None:
    name, *words = shlex.split(line)[1:]
    COMMANDS.commands[name].make_context(name, words, resilient_parsing=False)


def the_schedule_in_the_readme_is_accepted() -> None:
    (block,) = _blocks("yaml")
    found = schedule.convert(yaml.safe_load(block))
    assert found.id == "billing/payroll"


def each_make_verb_in_the_readme_exists() -> None:
    verbs = set(re.findall(r"`?make ([a-z]+)`?", README)) | set(
        re.findall(r"^make ([a-z]+)$", README, re.MULTILINE)
    )
    known = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert verbs - {"sure"} <= known


def each_file_that_a_document_links_to_is_there() -> None:
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / link).exists(), f"{document.name}: {link}"


def the_readme_is_short_enough_to_be_read() -> None:
    assert len(README.splitlines()) <= 150


def _settings() -> dict[str, str | None]:
    """Each setting and the docstring behind it."""
    tree = ast.parse(Path(config.__file__).read_text())
    (body,) = [node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Settings"]
    found: dict[str, str | None] = {}
    for node, behind in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            is_text = isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant)
            found[node.target.id] = str(behind.value.value) if is_text else None
    return found


@pytest.mark.parametrize("name", _settings())
def each_setting_is_documented_and_can_be_given(name: str) -> None:
    assert _settings()[name], "say behind the setting what it is for"
    options = {option for parameter in COMMANDS.commands["serve"].params for option in parameter.opts}
    assert "--" + name.replace("_", "-") in options


@pytest.mark.parametrize("name", _settings())
def each_setting_shows_its_true_default(name: str) -> None:
    (option,) = [found for found in COMMANDS.commands["serve"].params if found.name == name]
    default = getattr(config.Settings(), name)
    if default != "":
        assert str(option.show_default) == str(default)
