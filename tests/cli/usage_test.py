"""What is typed and not understood, and what ``--help`` says."""

from __future__ import annotations

import json
import subprocess

import pytest
from tests.cli.conftest import TOCSIN, environment

import tocsin as package


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("list -n abc", "--limit: it is not a whole number"),
        ("list -n -1", "--limit: it is out of range"),
        ("list --jsn", "--jsn: there is no such option"),
        ("list --url", "--url: a value must follow it"),
        ("list a b", "arguments: 'b' is more than is understood"),
        ("add x", "CRON: it is missing"),
        ("frobnicate", "command: there is no 'frobnicate'"),
        ("token creat", "command: there is no 'creat'"),
        ("completion tcsh", "'tcsh' is not known"),
        ("resolve a-1 --as perhaps", "--as: 'perhaps' is not known"),
    ],
)
def what_is_not_understood_is_told_in_two_lines(alone, words, told):
    done = alone(*words.split())
    assert (done.status, done.out) == (2, "")
    first, second = done.err.splitlines()
    assert first.startswith("tocsin: ")
    assert told in first
    assert "see: tocsin " in second
    assert second.endswith(" --help")


def a_program_is_told_so_as_a_problem(alone):
    done = alone("list", "-n", "abc", "--json")
    assert (done.status, done.out) == (2, "")
    problem = json.loads(done.err)
    assert (problem["field"], problem["allowed"], problem["status"]) == ("--limit", "0 or more", 400)


def what_stands_in_the_environment_is_blamed_there():
    done = subprocess.run(
        [*TOCSIN, "serve"],
        env={**environment(None), "TOCSIN_RATE_LIMIT": "many"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tocsin: TOCSIN_RATE_LIMIT: it is not a whole number\n")


def the_version_is_told_both_ways(alone):
    told = f"tocsin {package.__version__}\n"
    assert (alone("--version").out, alone("version").out) == (told, told)


def help_names_the_variables_and_no_types_of_python(alone):
    whole = alone("--help").out
    for name in ("TOCSIN_URL", "TOCSIN_TOKEN", "TOCSIN_CA"):
        assert name in whole
    for command in ("add", "list", "launches", "why", "import-crontab", "set"):
        shown = alone(command, "--help").out
        for odd in ("<bool>", "<str>", "list[", "[[", "{"):
            assert odd not in shown.partition("Examples:")[0], (command, odd)
    assert "Usage: tocsin why [OPTIONS] ID [AT]" in alone("why", "--help").out


@pytest.mark.parametrize(
    "words", [["show", ""], ["rm", ""], ["versions", "a//b"], ["launch", "nonsense"], ["cancel", ""]]
)
def what_can_be_no_id_is_not_asked_for(alone, words):
    done = alone(*words)
    assert (done.status, done.out) == (1, ""), "not 3: nobody was asked"
    assert "allowed: " in done.err


def the_sum_is_enough_for_who_wants_no_more(tocsin):
    for number in range(3):
        tocsin("add", f"quiet/{number}", "@yearly", "--null")
    done = tocsin("bulk", "pause", "--prefix", "quiet/", "--yes", "--quiet")
    assert (done.status, done.out, done.err) == (0, "", "3 paused\n")


def a_json_file_is_read_as_json(alone, folder):
    path = folder({"bad.json": '[\n  {"id": "a",}\n]\n', "twice.json": '{"id": "a",\n "id": "b"}'})
    done = alone("apply", "-f", str(path / "bad.json"))
    assert (done.status, "bad.json, line 2, column" in done.err, "allowed: JSON" in done.err) == (
        1,
        True,
        True,
    )
    assert (
        "line 2: the key 'id' stands in line 1 already" in alone("apply", "-f", str(path / "twice.json")).err
    )


def a_service_tells_of_settings_that_it_does_not_know():
    from tocsin.config import misspelt

    given = [
        "TOCSIN_HISTROY_AGE",
        "TOCSIN_URL",
        "TOCSIN_ATTEMPT",
        "TOCSIN_DATA",
        "TOCSIN_XYZZY",
        "PATH",
        "TOCSIN_SECRET_PAYROLL",
    ]
    assert misspelt(given) == [("TOCSIN_HISTROY_AGE", "TOCSIN_HISTORY_AGE"), ("TOCSIN_XYZZY", "")]


@pytest.mark.parametrize(
    ("address", "told", "not_told"),
    [
        ("127.0.0.1:99999", "65535", "another Tocsin"),
        ("nowhere.invalid:0", "cannot listen", "another Tocsin"),
    ],
)
def a_wrong_address_to_listen_on_is_told_apart_from_one_that_is_taken(
    address, told, not_told, tmp_path, alone
):
    done = alone.process("serve", "--data", str(tmp_path / "data"), "--listen", address)
    assert (done.status, told in done.err, not_told in done.err) == (1, True, False), done.err
