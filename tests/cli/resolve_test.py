"""``tocsin resolve``: somebody says what became of a launch that is in doubt."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.cli.person import at_a_terminal
from tests.receivers import hanging_up

NEVER = "0 0 29 2 *"
ASKS = b"leave it): "


@pytest.fixture(scope="module")
def dropping() -> Iterator[int]:
    """The port of a receiver that takes every call and hangs up without a word."""
    with hanging_up() as port:
        yield port


@pytest.fixture
def doubtful(tocsin, dropping) -> Callable[[str], str]:
    """Of a schedule with that id, the name of a launch in doubt."""

    def one(id: str) -> str:
        tocsin("add", id, NEVER, "--http", f"http://127.0.0.1:{dropping}/")
        view = tocsin("run", id, "--wait", "--json").json
        assert view["state"] == "in_doubt", view
        return view["name"]

    return one


def a_doubt_is_ended_by_saying_so(tocsin, doubtful):
    name = doubtful("doubt/one")
    assert name in tocsin("launches", "--state", "in_doubt").out
    done = tocsin("resolve", name, "--as", "succeeded", "--note", "the bank has it")
    assert (done.status, done.out) == (0, f"{name} succeeded\n")
    shown = tocsin("launch", name).out
    assert "resolved" in shown
    assert "the bank has it" in shown
    again = tocsin("resolve", name, "--as", "failed")
    assert again.status == 1
    assert "is not in doubt" in again.err
    assert "tocsin launches --state in_doubt" in again.err


def a_launch_in_doubt_that_is_cancelled_is_told_to_be_in_doubt_still(tocsin, doubtful):
    name = doubtful("doubt/cancelled")
    done = tocsin("cancel", name, "--reason", "enough")
    assert (done.status, done.out.startswith(f"{name} in_doubt: ")) == (0, True)
    assert done.out.endswith(
        "; it is stopped if the replica that was to call it tells that it runs (enough)\n"
    )
    assert tocsin("resolve", name, "--as", "failed").status == 0
    assert "has ended as failed" in tocsin("cancel", name).err


def a_doubtful_launch_is_called_again_under_its_name(tocsin, doubtful, wait):
    name = doubtful("doubt/two")
    done = tocsin("resolve", name, "--as", "relaunch")
    assert (done.status, f"{name} is called again" in done.out) == (0, True)
    wait(lambda: tocsin("launch", name, "--json").json["attempt"] == 2)
    wait(lambda: tocsin("launch", name, "--json").json["state"] == "in_doubt")
    assert tocsin("resolve", name, "--as", "skipped", "--json").json["state"] == "skipped"


def where_nobody_can_be_asked_it_must_be_said(tocsin, doubtful):
    name = doubtful("doubt/three")
    for more in ([], ["--json"]):
        done = tocsin("resolve", name, *more)
        assert (done.status, done.out) == (1, "")
        assert "succeeded, failed, skipped, relaunch" in done.err
    assert tocsin("resolve", name, "--as", "perhaps").status == 2


def a_person_sees_what_is_known_and_is_asked(tocsin, doubtful):
    name = doubtful("doubt/four")
    status, shown = at_a_terminal(
        tocsin.url, "resolve", name, answer="perhaps\nfailed\nthe bank said so", asks=ASKS
    )
    assert status == 0, shown
    assert "How do you know?" in shown
    assert "the bank said so" in tocsin("launch", name).out
    for told in ("in_doubt", "started", "is not one of succeeded", f"{name} failed"):
        assert told in shown, shown
    assert tocsin("launch", name, "--json").json["state"] == "failed"
    status, shown = at_a_terminal(tocsin.url, "resolve", name)
    assert (status, "is not in doubt: failed" in shown) == (1, True)


def a_person_may_leave_it(tocsin, doubtful):
    name = doubtful("doubt/five")
    status, shown = at_a_terminal(tocsin.url, "resolve", name, answer=" ", asks=ASKS)
    assert (status, "it is still in doubt" in shown) == (0, True)
    assert tocsin("launch", name, "--json").json["state"] == "in_doubt"


def what_never_was_cannot_be_resolved(tocsin):
    done = tocsin("resolve", "doubt/nobody-1", "--as", "failed")
    assert (done.status, "there is no launch" in done.err) == (1, True)
