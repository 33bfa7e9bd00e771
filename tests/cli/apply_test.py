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
    expected = {"id": "apply/b", "result": "unchanged", "version": 2, "enabled": True}
    assert json.loads(as_json[1]) == expected


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


def what_an_operator_paused_stays_paused_unless_the_document_says_otherwise(tocsin):
    text = "{id: paused/one, cron: '@daily', target: {kind: 'null'}%s}"
    tocsin("apply", "-f", "-", stdin=text % "")
    tocsin("pause", "paused/one", "--note", "the bank is down")
    again = tocsin("apply", "-f", "-", stdin=text % "").out
    assert again == "paused/one unchanged, still paused\n"
    assert "paused (the bank is down)" in tocsin("show", "paused/one").out
    edited = tocsin("apply", "-f", "-", stdin=text % ", timeout: 1m").out
    assert edited == "paused/one updated (version 3), still paused\n"
    assert tocsin("show", "paused/one", "--json").json["enabled"] is False
    resumed = tocsin("apply", "-f", "-", stdin=text % ", timeout: 1m, enabled: true").out
    assert resumed == "paused/one updated (version 4), resumed\n"
    assert tocsin("show", "paused/one", "--json").json["enabled"] is True


def a_key_that_stands_twice_is_named_with_file_and_line(tocsin, folder):
    files = {
        "top.yaml": "id: a\ncron: '@daily'\ntarget: {kind: 'null'}\ncron: '@hourly'\n",
        "deep.yaml": "- id: a\n  cron: '@daily'\n  target:\n    kind: exec\n    shell: a\n    shell: b\n",
        "plain.json": '{"id": "a", "cron": "@daily",\n "target": {"kind": "null"}, "id": "b"}',
    }
    path = folder(files)
    for name, told in {
        "top.yaml": "top.yaml, line 4: the key 'cron' stands in line 2 already",
        "deep.yaml": "deep.yaml, line 6: the key 'shell' stands in line 5 already",
        "plain.json": "plain.json, line 2: the key 'id' stands in line 1 already",
    }.items():
        done = tocsin("apply", "-f", str(path / name))
        assert (done.status, done.out) == (1, "")
        assert told in done.err


def a_merged_key_may_be_overridden(tocsin):
    text = (
        "- &base {id: merge/a, cron: '@daily', target: {kind: 'null'}, labels: &l {a: b}}\n"
        "- {<<: *base, id: merge/b, labels: {<<: *l, a: c}}\n"
    )
    assert tocsin("apply", "-f", "-", stdin=text).out == "merge/a created\nmerge/b created\n"


def the_mistakes_of_all_documents_of_all_files_are_told_at_once(tocsin, folder):
    good = "{id: all/good, cron: '@daily', target: {kind: 'null'}}\n"
    path = folder(
        {
            "1.yaml": f"{good}---\nid: a\nid: b\n---\n{{id: all/bad, cron: '61 * * * *', target: {{kind: 'null'}}}}",
            "3.yaml": "{id: all/worse, cron: nonsense, target: {kind: 'null'}}\n---\n[unclosed",
        }
    )
    (path / "2.yaml").write_bytes(b"\xff\xfe")
    done = tocsin("apply", "-f", str(path))
    assert (done.status, done.out) == (1, "")
    for told in ("line 4: the key 'id'", "all/bad", "2.yaml", "all/worse", "3.yaml, line"):
        assert told in done.err, done.err
    assert tocsin("list", "all/").out == ""


def toml_is_read_too(tocsin, folder):
    path = folder(
        {
            "one.toml": 'id = "toml/one"\ncron = "@daily"\n[target]\nkind = "null"\n',
            "two.toml": '[[schedules]]\nid = "toml/two"\ncron = "@daily"\ntarget = {kind = "null"}\n'
            'start = 2030-01-01T00:00:00Z\n[[schedules]]\nid = "toml/three"\ncron = "@daily"\ntarget.kind = "null"\n',
            "items.toml": '[[items]]\nid = "toml/four"\ncron = "@daily"\ntarget = {kind = "null"}\n',
        }
    )
    done = tocsin("apply", "-f", str(path))
    assert done.out == "toml/four created\ntoml/one created\ntoml/two created\ntoml/three created\n"
    assert tocsin("show", "toml/two", "--json").json["start"] == "2030-01-01T00:00:00Z"


def mistakes_in_toml_are_told_with_their_place(tocsin, folder):
    path = folder(
        {
            "twice.toml": 'id = "a"\nid = "b"\n',
            "open.toml": 'id = "a\n',
            "wrong.toml": '[[schedules]]\nid = "toml/wrong"\ncron = "nonsense"\ntarget = {kind = "null"}\n',
        }
    )
    done = tocsin("apply", "-f", str(path))
    assert (done.status, done.out) == (1, "")
    for told in ("twice.toml", "open.toml", "at line 1", "wrong.toml, item 1, toml/wrong"):
        assert told in done.err, done.err


def yaml_may_call_its_list_schedules(tocsin):
    text = "x-base: &base {cron: '@daily', target: {kind: 'null'}}\nschedules:\n- {<<: *base, id: list/a}\n"
    assert tocsin("apply", "-f", "-", stdin=text).out == "list/a created\n"
    beside = tocsin("apply", "-f", "-", stdin="timezone: UTC\nschedules: []\n")
    assert (beside.status, "'timezone' cannot stand beside 'schedules'" in beside.err) == (1, True)


def a_field_that_does_not_exist_comes_with_the_one_that_was_meant(tocsin):
    text = "{id: meant/a, cron: '@daily', timezon: UTC, target: {kind: exec, shel: date}}"
    assert "did you mean timezone?" in tocsin("apply", "-f", "-", stdin=text).err
    text = text.replace("timezon:", "timezone:")
    assert "did you mean shell?" in tocsin("apply", "-f", "-", stdin=text).err
    unlike = text.replace("shel:", "colour:")
    assert "did you mean" not in tocsin("apply", "-f", "-", stdin=unlike).err


def many_documents_are_told_in_their_order(tocsin, folder):
    one = "{id: many/%d, cron: '@daily', target: {kind: 'null'}}\n"
    path = folder({"many.yaml": "---\n".join(one % number for number in range(100))})
    done = tocsin("apply", "-f", str(path))
    assert done.out == "".join(f"many/{number} created\n" for number in range(100))
    assert done.err == "", "no bar where nobody looks"
