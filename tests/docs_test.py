"""What the documents say is so."""

from __future__ import annotations

import re
import runpy
import shlex
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
import yaml

from tocsin import config
from tocsin.cli.main import app
from tocsin.cron import Expression
from tocsin.errors import InvalidSchedule
from tocsin.model import schedule

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
SETTINGS = SimpleNamespace(**runpy.run_path(str(ROOT / "docs" / "settings.py")))
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
    assert len(README.splitlines()) <= 120


@pytest.mark.parametrize("name", SETTINGS.texts())
def each_setting_is_documented_and_can_be_given(name: str) -> None:
    assert SETTINGS.texts()[name], "say behind the setting what it is for"
    options = {option for parameter in COMMANDS.commands["serve"].params for option in parameter.opts}
    assert "--" + name.replace("_", "-") in options


@pytest.mark.parametrize("name", SETTINGS.texts())
def each_setting_shows_its_true_default(name: str) -> None:
    (option,) = [found for found in COMMANDS.commands["serve"].params if found.name == name]
    default = getattr(config.Settings(), name)
    if default != "":
        assert str(option.show_default) == str(default)


def the_page_of_settings_is_what_the_code_says() -> None:
    assert SETTINGS.PAGE.read_text() == SETTINGS.page(), "'make docs' writes it anew"


# docs/cron.md: each row of its tables

_CRON = (ROOT / "docs" / "cron.md").read_text()


def _rows(section: str, columns: int) -> list[list[str]]:
    """The rows of the tables with so many columns in a section, whose first cell is a text in backquotes."""
    (text,) = re.findall(rf"^{re.escape(section)}\n(.*?)(?=^#|\Z)", _CRON, re.MULTILINE | re.DOTALL)
    rows = [re.split(r" \| ", line.strip("| ")) for line in text.splitlines() if line.startswith("| `")]
    return [row for row in rows if len(row) == columns]


def _text(cell: str) -> str:
    return cell.strip().strip("`")


@pytest.mark.parametrize(
    ("text", "zone", "after", "instants"),
    [
        *((text, "UTC", after, instants) for text, _, after, instants in _rows("# The schedule text", 4)),
        *_rows("## Time zones and daylight saving", 4),
    ],
)
def each_text_in_the_guide_has_its_instants(text: str, zone: str, after: str, instants: str) -> None:
    expected = [datetime.fromisoformat(instant) for instant in instants.split(", ")]
    found = Expression.parse(_text(text), timezone=zone)
    assert found.upcoming(datetime.fromisoformat(after), len(expected)) == expected


@pytest.mark.parametrize("text", [row[0] for row in _rows("## Any value: `?` and `~`", 2)])
def each_text_with_a_choice_in_the_guide_is_accepted(text: str) -> None:
    assert Expression.parse(_text(text), identity="guide").upcoming(
        datetime.fromisoformat("2026-01-01T00:00:00Z"), 1
    )


@pytest.mark.parametrize("text", [row[0] for row in _rows("## Refused", 2)])
def each_refused_text_in_the_guide_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchedule):
        Expression.parse(_text(text))
