"""``tocsin apply --prune`` never takes what it could not read for what is not wanted any more."""

from __future__ import annotations

import json
import os

import pytest
from tests.cli.person import at_a_terminal


def documents(label: str, *ids: str) -> str:
    one = {"cron": "@daily", "target": {"kind": "null"}, "labels": {"by": label}}
    return json.dumps([{"id": f"{label}/{id}", **one} for id in ids])


def ids(tocsin, label: str) -> list[str]:
    items = tocsin("list", f"{label}/", "--limit", "0", "--json").json["items"]
    return [view["id"].partition("/")[2] for view in items]


def pruned(tocsin, path, label: str, *more: str):
    return tocsin("apply", "-f", str(path), "--prune", "--label", f"by={label}", "--yes", *more)


def dangle(path):
    (path / "sub/b.yaml").unlink()
    (path / "sub/b.yaml").symlink_to("gone.yaml")


def unhook(path):
    (path / "sub").rename(path.parent / "moved")
    (path / "sub").symlink_to("gone")


def truncate(path):
    (path / "sub/b.yaml").write_text("")


def comment(path):
    (path / "sub/b.yaml").write_text("# to come\n---\n")


def empty(path):
    (path / "sub/b.yaml").write_text("schedules: []\n")


def unmount(path):
    (path / "sub/b.yaml").unlink()


def clog(path):
    (path / "sub/b.yaml").unlink()
    os.mkfifo(path / "sub/b.yaml")


ACCIDENTS = [
    dangle,
    unhook,
    truncate,
    comment,
    empty,
    clog,
    unmount,
]


@pytest.mark.parametrize("accident", ACCIDENTS, ids=lambda accident: accident.__name__)
def what_cannot_be_read_is_a_mistake_with_prune_and_a_remark_without(tocsin, tmp_path, accident):
    label = accident.__name__
    path = tmp_path / "schedules"
    (path / "sub").mkdir(parents=True)
    (path / "a.yaml").write_text(documents(label, "a", "c"))
    (path / "sub/b.yaml").write_text(documents(label, "b"))
    assert pruned(tocsin, path, label).status == 0
    accident(path)
    for more in ([], ["--prune-all"], ["--diff"]):
        done = pruned(tocsin, path, label, *more)
        assert (done.status, done.out) == (1, "")
        assert str(path / "sub") in done.err
        assert "--prune would remove" in done.err
    assert ids(tocsin, label) == ["a", "b", "c"]
    plain = tocsin("apply", "-f", str(path))
    assert (plain.status, f"note: {path / 'sub'}" in plain.err) == (0, True)


def a_directory_that_cannot_be_listed_is_a_mistake(tocsin, tmp_path, monkeypatch):
    (tmp_path / "a.yaml").write_text(documents("deep", "a"))
    # A path that is too long cannot be listed by anybody; what is forbidden, root may list all the same.
    monkeypatch.chdir(tmp_path)
    for _ in range(20):
        os.mkdir("d" * 250)
        os.chdir("d" * 250)
    for more in ([], ["--prune", "--label", "by=deep", "--yes"]):
        done = tocsin("apply", "-f", str(tmp_path), *more)
        assert (done.status, done.out) == (1, "")
        assert "too long" in done.err


def a_link_to_a_directory_is_followed_and_a_loop_ends(tocsin, tmp_path):
    path = tmp_path / "schedules"
    path.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/b.yaml").write_text(documents("links", "b"))
    (path / "a.yaml").write_text(documents("links", "a"))
    (path / "again.yaml").symlink_to("a.yaml")
    (path / "sub").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere/up").symlink_to(path)
    (path / "itself").symlink_to(".")
    done = pruned(tocsin, path, "links")
    assert (done.status, done.out) == (0, "links/a created\nlinks/b created\n")


def an_empty_directory_never_means_to_remove_all(tocsin, tmp_path):
    tocsin("apply", "-f", "-", stdin=documents("void", "a", "b"))
    for more in ([], ["--prune-all"], ["--diff"]):
        done = pruned(tocsin, tmp_path, "void", *more)
        assert (done.status, "no schedule" in done.err) == (1, True)
    assert ids(tocsin, "void") == ["a", "b"]


def an_empty_directory_beside_a_full_one_is_a_mistake(tocsin, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "void").mkdir()
    (tmp_path / "full/.git/refs").mkdir(parents=True)
    (tmp_path / "full/a.json").write_text(documents("beside", "a", "b"))
    assert pruned(tocsin, tmp_path / "full", "beside").status == 0
    done = pruned(tocsin, tmp_path / "full", "beside", "-f", str(tmp_path / "void"))
    assert (done.status, f"{tmp_path / 'void'}: there is no schedule" in done.err) == (1, True)


def to_remove_all_that_carries_the_label_takes_more_than_yes(tocsin, folder):
    tocsin("apply", "-f", "-", stdin=documents("all", "a", "b"))
    path = folder({"new.json": documents("all", "c")})
    assert "ALL 2 schedules that carry by=all" in pruned(tocsin, path, "all", "--diff").err
    done = pruned(tocsin, path, "all")
    assert (done.status, done.out) == (1, "")
    assert "ALL 2 schedules that carry by=all" in done.err
    assert "--prune-all" in done.err
    assert ids(tocsin, "all") == ["a", "b"], "nothing was sent either"
    done = pruned(tocsin, path, "all", "--prune-all")
    assert (done.status, done.out) == (0, "all/c created\nall/a removed\nall/b removed\n")


def to_remove_more_than_half_of_ten_takes_more_than_yes(tocsin, folder):
    numbers = [str(number) for number in range(10)]
    tocsin("apply", "-f", "-", stdin=documents("half", *numbers))
    path = folder({"few.json": documents("half", *numbers[:4])})
    done = pruned(tocsin, path, "half")
    assert (done.status, "6 of the 10 schedules" in done.err, "MORE THAN HALF" in done.err) == (1, True, True)
    assert len(ids(tocsin, "half")) == 10
    (path / "few.json").write_text(documents("half", *numbers[:5]))
    assert pruned(tocsin, path, "half").status == 0, "half is not more than half"
    (path / "few.json").write_text(documents("half", "0"))
    assert pruned(tocsin, path, "half").status == 0, "and five are few"


def a_person_is_asked_in_capitals_even_after_yes(tocsin, folder):
    tocsin("apply", "-f", "-", stdin=documents("caps", "a"))
    path = str(folder({"new.json": documents("caps", "b")}))
    words = ("apply", "-f", path, "--prune", "--label", "by=caps", "--yes")
    status, shown = at_a_terminal(tocsin.url, *words, answer="n")
    assert (status, "Remove THE ONLY SCHEDULE that carries by=caps?" in shown) == (1, True), shown
    assert ids(tocsin, "caps") == ["a"]
    status, _ = at_a_terminal(tocsin.url, *words, answer="y")
    assert (status, ids(tocsin, "caps")) == (0, ["b"])


def prune_all_alone_is_refused(alone, folder):
    path = folder({"a.json": documents("x", "a")})
    done = alone("apply", "-f", str(path), "--prune-all")
    assert (done.status, "together with --prune" in done.err) == (1, True)
