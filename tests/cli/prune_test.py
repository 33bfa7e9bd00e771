"""``tocsin apply --prune``: what has no document any more is removed, under labels and on purpose."""

from __future__ import annotations

import json
import subprocess
import urllib.request

from tests.cli.conftest import TOCSIN, environment
from tests.cli.person import at_a_terminal

PRUNE = ("--prune", "--label")


def documents(label: str, *ids: str) -> str:
    one = {"cron": "@daily", "target": {"kind": "null"}, "labels": {"by": label}}
    return json.dumps([{"id": f"{label}/{id}", **one} for id in ids])


def what_has_no_document_is_removed(tocsin):
    tocsin("apply", "-f", "-", stdin=documents("gone", "a", "b", "c"))
    tocsin("add", "gone/other", "@daily", "--null")
    done = tocsin("apply", "-f", "-", *PRUNE, "by=gone", "--yes", stdin=documents("gone", "b", "d"))
    assert done.out == "gone/b unchanged\ngone/d created\ngone/a removed\ngone/c removed\n"
    assert done.status == 0
    left = [view["id"] for view in tocsin("list", "gone/", "--json").json["items"]]
    assert left == ["gone/b", "gone/d", "gone/other"], "what does not carry the label is left alone"
    again = tocsin("apply", "-f", "-", *PRUNE, "by=gone", "--yes", "--json", stdin=documents("gone", "b"))
    assert json.loads(again.out.splitlines()[-1]) == {"id": "gone/d", "result": "removed"}


def every_label_must_hold(tocsin):
    tocsin("add", "both/one", "@daily", "--null", "--label", "by=both", "--label", "env=test")
    tocsin("add", "both/two", "@daily", "--null", "--label", "by=both")
    kept = '{"id": "both/three", "cron": "@daily", "target": {"kind": "null"}, "labels": {"by": "both", "env": "test"}}'
    done = tocsin("apply", "-f", "-", *PRUNE, "by=both", "--label", "env=test", "--prune-all", stdin=kept)
    assert done.out == "both/three created\nboth/one removed\n"


def without_a_label_it_is_refused(tocsin):
    done = tocsin("apply", "-f", "-", "--prune", "--yes", stdin=documents("bare", "a"))
    assert (done.status, done.out) == (1, "")
    assert "every schedule that is not in the files would be removed" in done.err
    assert tocsin("list", "bare/").out == ""


def a_label_without_prune_is_refused(tocsin):
    done = tocsin("apply", "-f", "-", "--label", "by=x", stdin=documents("x", "a"))
    assert (done.status, "--prune" in done.err) == (1, True)


def a_document_without_the_label_is_refused_by_name(tocsin):
    text = documents("named", "a") + "\n---\n" + documents("stranger", "b")
    done = tocsin("apply", "-f", "-", *PRUNE, "by=named", "--yes", stdin=text)
    assert (done.status, done.out) == (1, "")
    assert "stranger/b does not carry by=named" in done.err
    assert "named/a" not in done.err
    assert tocsin("list", "named/").out == ""


def nobody_to_ask_means_that_yes_must_be_said(tocsin):
    done = tocsin("apply", "-f", "-", *PRUNE, "by=ask", stdin=documents("ask", "a"))
    assert (done.status, done.out, "--yes" in done.err) == (1, "", True)
    assert tocsin("list", "ask/").out == "", "nothing was sent either"


def nothing_is_removed_when_anything_was_refused(tocsin, folder):
    tocsin("apply", "-f", "-", stdin=documents("part", "old", "kept"))
    wish = {"name": "part", "scopes": ["read", "write"], "prefixes": ["part"]}
    asked = urllib.request.Request(
        f"{tocsin.url}/v1/tokens", json.dumps(wish).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(asked) as answer:
        token = json.load(answer)["token"]
    outside = documents("part", "kept").replace("part/kept", "elsewhere/a")
    path = folder({"a.json": documents("part", "kept"), "b.json": outside})
    for more in ([], ["--diff"]):
        done = subprocess.run(
            [*TOCSIN, "apply", "-f", str(path), *PRUNE, "by=part", "--yes", *more],
            env={**environment(tocsin.url), "TOCSIN_TOKEN": token},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert done.returncode == 1, done
        assert "1 unchanged, 1 refused" in done.stdout if more else done.stdout == "part/kept unchanged\n"
        assert "elsewhere/a" in done.stderr
        assert "removed, because not everything could be applied" in done.stderr
    assert tocsin("show", "part/old").status == 0


def an_empty_folder_removes_nothing(tocsin, tmp_path):
    tocsin("apply", "-f", "-", stdin=documents("empty", "a"))
    done = tocsin("apply", "-f", str(tmp_path), *PRUNE, "by=empty", "--yes")
    assert (done.status, "no schedule" in done.err) == (1, True)
    assert tocsin("show", "empty/a").status == 0


def a_person_is_asked_and_may_say_no(tocsin, folder):
    tocsin("apply", "-f", "-", stdin=documents("person", "a", "b", "c"))
    path = str(folder({"a.json": documents("person", "a").replace("@daily", "@weekly")}) / "a.json")
    status, shown = at_a_terminal(tocsin.url, "apply", "-f", path, *PRUNE, "by=person", answer="n")
    assert status == 1
    for told in ("- person/b", "- person/c", "Remove these 2 schedules?", "nothing was changed"):
        assert told in shown, shown
    assert tocsin("show", "person/a", "--json").json["cron"] == "@daily", "the question comes first"
    assert tocsin("show", "person/b").status == 0
    status, shown = at_a_terminal(tocsin.url, "apply", "-f", path, *PRUNE, "by=person", answer="y")
    assert (status, "person/b removed" in shown) == (0, True)
    status, shown = at_a_terminal(tocsin.url, "apply", "-f", path, *PRUNE, "by=person")
    assert (status, "Remove" in shown) == (0, False), "with nothing to remove nobody is asked"


def a_person_sees_how_far_it_is(tocsin, folder):
    path = str(folder({"a.json": documents("bar", *map(str, range(60)))}) / "a.json")
    status, shown = at_a_terminal(tocsin.url, "apply", "-f", path)
    assert status == 0
    assert "60/60" in shown
    assert shown.count(" created") == 60
