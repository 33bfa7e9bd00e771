"""``tocsin token``, ``tocsin whoami``, and how one who is not let in is told so."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest
from tests.cli.conftest import TOCSIN, Command, Serving, environment

NEVER = "0 0 29 2 *"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Command]:
    """A service that lets nobody in without a token; whoever calls it here is its admin."""
    data = tmp_path_factory.mktemp("guarded") / "data"
    serving = Serving("--json", "--data", str(data), "--tokens", "always")
    yield Command(json.loads(serving.greeting)["url"], (data / "admin.token").read_text().strip())
    status, err = serving.stop()
    assert status == 0, err


def made(guarded: Command, name: str, *words: str) -> Command:
    """The command in the hands of somebody with a new token."""
    done = guarded("token", "create", name, *words)
    assert done.status == 0, done.err
    return Command(guarded.url, done.out.strip())


def a_token_is_alone_on_stdout_and_told_once(guarded):
    line = f"TOCSIN_TOKEN=$({' '.join(TOCSIN)} token create piped --scope read) && export TOCSIN_TOKEN && "
    done = subprocess.run(
        ["bash", "-c", line + f"{' '.join(TOCSIN)} whoami --json"],
        env=environment(guarded.url, guarded.token),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout)["name"] == "piped"
    assert "only this once" in done.stderr
    assert "tocsin_" not in done.stderr


def a_token_reaches_as_far_as_was_said(guarded):
    guarded("add", "billing/one", NEVER, "--null")
    guarded("add", "other/one", NEVER, "--null")
    operator = made(
        guarded, "operator", "--scope", "read,operate", "--prefix", "billing/", "--expires", "30d"
    )
    assert [view["id"] for view in operator("list", "--json").json["items"]] == ["billing/one"]
    assert operator("pause", "billing/one").status == 0
    outside = operator("pause", "other/one")
    assert outside.status == 1
    assert "outside of what the token 'operator' reaches" in outside.err
    assert "tocsin whoami" in outside.err
    denied = operator("rm", "billing/one")
    assert (denied.status, "'write'" in denied.err) == (1, True)
    told = operator("whoami").out
    assert "operator" in told
    assert "operate, read" in told
    assert "billing/" in told
    assert "operator" in guarded("history", "billing/one", "--actor", "operator").out


def a_token_that_was_revoked_lets_nobody_in(guarded):
    reader = made(guarded, "reader", "--scope", "read")
    assert reader("list").status == 0
    assert guarded("token", "revoke", "reader").out == "reader revoked\n"
    done = reader("list")
    assert (done.status, done.out) == (1, "")
    assert "does not accept the token in TOCSIN_TOKEN" in done.err
    assert "revoked" in done.err
    assert reader.token not in done.err
    gone = guarded("token", "revoke", "reader")
    assert (gone.status, "tocsin token list" in gone.err) == (1, True)


def one_without_a_token_is_told_where_to_get_one(guarded):
    done = Command(guarded.url)("list")
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith(f"tocsin: {guarded.url} asks for a token, and TOCSIN_TOKEN is not set\n")
    assert "admin.token" in done.err
    assert len(done.err.splitlines()) == 2
    assert json.loads(Command(guarded.url)("list", "--json").err)["status"] == 401
    assert Command(guarded.url)("export").status == 1


def tokens_are_listed_without_their_secrets(guarded):
    made(guarded, "listed", "--scope", "read", "--scope", "write", "--prefix", "a/", "--prefix", "b/")
    done = guarded("token", "list")
    row = next(line for line in done.out.splitlines() if line.startswith("listed "))
    for told in ("read,write", "a/, b/", "never", "not yet", "admin"):
        assert told in row
    assert "tocsin_" not in done.out
    items = guarded("token", "list", "--json").json["items"]
    assert "listed" in [item["name"] for item in items]
    assert set(guarded("token", "create", "whole", "--scope", "read", "--json").json) >= {
        "token",
        "expires_at",
    }


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (("create", "x", "--scope", "reed"), 1, ["reed", "read, write, exec, operate, admin"]),
        (("create", "a b", "--scope", "read"), 1, ["name", "a b"]),
        (("create", "x", "--scope", "read", "--expires", "30"), 1, ["--expires", "30s"]),
        (("create", "x", "--scope", "admin", "--prefix", "a/"), 1, ["prefixes", "admin"]),
        (("create", "x"), 2, ["--scope"]),
        (("crate", "x"), 2, ["create"]),
    ],
)
def a_mistake_is_told(tocsin, words, status, told):
    done = tocsin("token", *words)
    assert (done.status, done.out) == (status, "")
    for part in told:
        assert part in done.err, done.err


def where_no_token_is_needed_whoami_says_so(tocsin):
    assert "none is needed here" in tocsin("whoami").out
    assert tocsin("whoami", "--json").json["prefixes"] == []
    assert "no tokens" in tocsin("token", "list").err


def one_who_asks_too_often_is_told_to_wait(serve, tmp_path):
    serving = serve("--json", "--data", str(tmp_path / "data"), "--rate-limit", "1")
    tocsin = Command(json.loads(serving.greeting)["url"])
    done = next(found for found in (tocsin("whoami") for _ in range(50)) if found.status)
    assert done.status == 1
    assert "was asked too often: more than 1 requests a second" in done.err
    assert "wait" in done.err
