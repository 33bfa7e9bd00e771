"""``tocsin completion``, and what is said to one who mistypes a command."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import environment
from tests.needs import lacking

NEVER = "0 0 29 2 *"
_SCRIPT = """\
source <(tocsin completion bash) || exit 9
complete -p tocsin || exit 8
COMP_WORDS=("$@")
COMP_CWORD=$(( $# - 1 ))
_tocsin_completion tocsin
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def tab(tmp_path):
    """What a real bash finds when somebody types these words and then Tab."""
    if not shutil.which("bash"):
        lacking("bash")
    program = tmp_path / "tocsin"
    program.write_text(f"#!{sys.executable}\nfrom tocsin.cli.main import main\nmain()\n")
    program.chmod(0o755)

    def pressed(url: str, *words: str) -> list[str]:
        done = subprocess.run(
            ["bash", "--norc", "-c", _SCRIPT, "bash", "tocsin", *words],
            env={**environment(url), "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        assert done.stderr == ""
        installed, *found = done.stdout.splitlines()
        assert "_tocsin_completion" in installed
        return [word for word in found if word]

    return pressed


def commands_and_options_are_completed(alone, tab):
    assert tab(alone.url, "re") == ["resume", "restore", "resolve", "repair"]
    assert tab(alone.url, "token", "") == ["create", "list", "revoke"]
    assert tab(alone.url, "show", "--js") == ["--json"]
    assert tab(alone.url, "resolve", "x", "--as", "s") == ["succeeded", "skipped"]


def ids_and_names_are_completed_from_the_service(tocsin, tab):
    for id in ("tab/one", "tab/other", "else/one"):
        tocsin("add", id, NEVER, "--null")
    assert tab(tocsin.url, "show", "tab/o") == ["tab/one", "tab/other"]
    assert tab(tocsin.url, "pause", "tab/on") == ["tab/one"]
    assert tab(tocsin.url, "history", "el") == ["else/one"]
    name = tocsin("run", "tab/one", "--wait", "--json").json["name"]
    assert tab(tocsin.url, "launch", "tab/") == [name]
    assert tab("http://127.0.0.1:1", "show", "--url", str(tocsin.url), "tab/on") == ["tab/one"]


def where_no_service_answers_there_is_silence(alone, tab):
    assert tab(alone.url, "show", "tab/") == []
    assert tab("nonsense", "show", "tab/") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def each_shell_has_its_script(alone, shell):
    done = alone("completion", shell)
    assert (done.status, f"complete_{shell}" in done.out, done.err) == (0, True, "")
    assert alone("completion", shell, "--json").json == {"shell": shell, "script": done.out.rstrip("\n")}
    assert alone("completion", "tcsh").status == 2


@pytest.mark.parametrize(
    ("typed", "meant"), [("paus", "pause"), ("launchs", "launches"), ("hstory", "history")]
)
def one_who_mistypes_a_command_is_told_what_was_probably_meant(alone, typed, meant):
    done = alone(typed)
    assert (done.status, done.out) == (2, "")
    assert f"did you mean {meant}?" in done.err


def every_command_has_an_example_and_json():
    from typer.main import get_command

    from tocsin.cli.main import app

    def leaves(group):
        for command in group.commands.values():
            yield from leaves(command) if hasattr(command, "commands") else [command]

    found = list(leaves(get_command(app)))
    assert len(found) > 30
    for command in found:
        assert "Example" in command.help, command.name
        assert "--json" in [name for option in command.params for name in option.opts], command.name


def every_module_of_the_cli_is_in_its_list():
    import tocsin.cli

    told = tocsin.cli.__doc__ or ""
    folder = Path(tocsin.cli.__file__).parent
    names = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    missing = [name for name in sorted(names) if f"``{name}``" not in told]
    assert missing == []
