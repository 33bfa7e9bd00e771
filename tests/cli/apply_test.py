"""``tocsin apply``: files in, schedules created, updated or left alone; mistakes told with their place."""

from __future__ import annotations

import json

GOOD = """\
# two documents and a list
id: apply/a
cron: "0 0 29 2 *"
target: {kind: "null"}
---
- {id: apply/b, cron: "@daily", target: {kind: exec, shell: "echo b"}, start: 2030-01-01T00:00:00Z}
- {id: apply/c, cron: "@daily", target: {kind: exec, argv: [echo, c]}, payload: {day: 2026-01-01, 1: 2}}
"""


def documents_are_created_then_unchanged_then_updated(tocsin, folder):
    file = folder({"a.yaml": GOOD}) / "a.yaml"
    assert tocsin("apply", "-f", str(file)).out == "apply/a created\napply/b created\napply/c created\n"
    assert tocsin("apply", "-f", str(file)).out == "apply/a unchanged\napply/b unchanged\napply/c unchanged\n"
    file.write_text(GOOD.replace("echo b", "echo B"))
    changed = tocsin("apply", "-f", str(file))
    assert (changed.status, changed.out.splitlines()[1]) == (0, "apply/b updated (version 2)")
    as_json = tocsin("apply", "-f", str(file), "--json").out.splitlines()
    assert json.loads(as_json[1]) == {"id": "apply/b", "result": "unchanged", "version": 2}


def a_directory_and_standard_input_are_read_too(tocsin, folder):
    one = '{"id": "dir/%s", "cron": "@daily", "target": {"kind": "null"}}'
    path = folder({"x/1.json": one % 1, "x/y/2.yml": one % 2, "x/readme.txt": "not a schedule"})
    done = tocsin("apply", "-f", str(path / "x"), "-f", "-", stdin=one % 3)
    assert done.out == "dir/1 created\ndir/2 created\ndir/3 created\n"


def what_was_shown_can_be_applied_again(tocsin):
    tocsin("add", "again/one", "@every 1h", "--null", "--label", "a=b")
    shown = tocsin("show", "again/one", "--json").out
    assert tocsin("apply", "-f", "-", stdin=shown).out == "again/one unchanged\n"
    listed = tocsin("list", "again/", "--json").out
    assert tocsin("apply", "-f", "-", stdin=listed).out == "again/one unchanged\n"


def nothing_is_sent_when_anything_is_wrong(tocsin, folder):
    text = (
        "{id: half/good, cron: '@daily', target: {kind: 'null'}}\n---\n"
        "{id: half/bad, cron: '61 * * * *', target: {kind: 'null'}}\n---\n"
        "{id: half/worse, cron: '@daily', target: {kind: 'null'}, colour: red}\n"
    )
    file = folder({"half.yaml": text}) / "half.yaml"
    done = tocsin("apply", "-f", str(file))
    assert (done.status, done.out) == (1, "")
    assert f"{file}, document 2, half/bad" in done.err
    assert "61" in done.err
    assert f"{file}, document 3, half/worse" in done.err
    assert "colour" in done.err
    assert tocsin("list", "half/").out == ""


def a_file_that_cannot_be_read_is_named(tocsin, folder):
    path = folder(
        {
            "at.yaml": "id: a\ncron: @daily\n",
            "star.yaml": "id: a\ncron: * * * * *\n",
            "tab.yaml": "id: a\n\tcron: x\n",
            "empty.yaml": "",
            "text.yaml": "hello",
        }
    )
    (path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    for name, told in {
        "at.yaml": ["line 2", "quotes"],
        "star.yaml": ["line 2", "quotes"],
        "tab.yaml": ["line 2"],
        "empty.yaml": ["no schedule"],
        "text.yaml": ["mapping"],
        "binary.yaml": ["binary.yaml"],
        "missing.yaml": ["No such file"],
    }.items():
        done = tocsin("apply", "-f", str(path / name))
        assert done.status == 1, name
        for part in (name, *told):
            assert part in done.err, (name, done.err)
        assert len(done.err.splitlines()) <= 2, done.err


def an_id_that_is_defined_twice_is_a_mistake(tocsin):
    one = "{id: twice/one, cron: '@daily', target: {kind: 'null'}}\n"
    done = tocsin("apply", "-f", "-", stdin=f"{one}---\n{one}")
    assert (done.status, "defined twice" in done.err) == (1, True)


def mistakes_are_problem_details_for_a_program(tocsin):
    done = tocsin("apply", "-f", "-", "--json", stdin="[{id: '', cron: x}, 7]")
    problems = [json.loads(line) for line in done.err.splitlines()]
    assert done.status == 1
    assert [problem["status"] for problem in problems] == [400, 400]
    assert "item 2" in problems[1]["detail"]
