"""``tocsin export``, ``tocsin import`` and ``tocsin bulk``: many schedules at once."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys

from tests.cli.conftest import TOCSIN, environment
from tests.cli.person import at_a_terminal

NEVER = "0 0 29 2 *"


def lines(prefix: str, count: int, **more: object) -> str:
    one = {"cron": NEVER, "target": {"kind": "null"}, **more}
    return "".join(json.dumps({"id": f"{prefix}/{number:05}", **one}) + "\n" for number in range(count))


def what_is_exported_can_be_imported(tocsin, tmp_path):
    tocsin(
        "add", "trip/one", "30 2 * * mon-fri", "--tz", "Europe/Berlin", "--shell", "echo 'a: b'", "--paused"
    )
    tocsin("add", "trip/two", "@daily", "--null", "--payload", '{"é": [1, null]}', "--label", "a=b")
    path = tmp_path / "all.ndjson.gz"
    assert tocsin("export", "--prefix", "trip/", "--file", str(path)).out == f"{path}: 2 schedules\n"
    assert list(tmp_path.iterdir()) == [path], "nothing else is left behind"
    before = tocsin("export", "--prefix", "trip/").out
    assert gzip.decompress(path.read_bytes()).decode() == before
    assert [json.loads(line)["id"] for line in before.splitlines()] == ["trip/one", "trip/two"]
    tocsin("rm", "trip/one", "trip/two")
    assert tocsin("import", str(path)).out == "2 lines: 2 created\n"
    assert tocsin("export", "--prefix", "trip/").out == before
    assert tocsin("import", str(path)).out == "2 lines: 2 unchanged\n"


def an_export_as_yaml_is_what_apply_reads(tocsin):
    tocsin(
        "add", "yaml/one", "@daily", "--shell", "echo 'x: y' # z", "--description", "on", "--label", "a=yes"
    )
    tocsin("add", "yaml/two", NEVER, "--null", "--start", "2030-01-01T00:00:00Z")
    text = tocsin("export", "--prefix", "yaml/", "-o", "yaml").out
    assert tocsin("apply", "-f", "-", stdin=text).out == "yaml/one unchanged\nyaml/two unchanged\n"
    assert tocsin("export", "-o", "yaml", "--json").status == 1


def an_export_can_be_narrowed_down(tocsin, tmp_path):
    tocsin("add", "some/one", NEVER, "--null", "--label", "team=a", "--paused")
    tocsin("add", "some/two", NEVER, "--null", "--label", "team=b")
    assert json.loads(tocsin("export", "--label", "team=a").out)["id"] == "some/one"
    assert json.loads(tocsin("export", "--prefix", "some/", "--enabled").out)["id"] == "some/two"
    path = tmp_path / "some.ndjson"
    told = tocsin("export", "--prefix", "some/", "--file", str(path), "--json").json
    assert told == {"file": str(path), "schedules": 2}
    none = tocsin("export", "--prefix", "nothing/")
    assert (none.status, none.out, none.err) == (0, "", "no schedules\n")


def a_file_that_cannot_be_written_is_told_and_an_old_one_stays(tocsin, alone, tmp_path):
    done = tocsin("export", "--file", str(tmp_path / "no" / "file"))
    assert (done.status, "--file" in done.err) == (1, True)
    path = tmp_path / "kept"
    path.write_text("old")
    assert alone("export", "--file", str(path)).status == 3
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def each_line_that_is_refused_is_told(tocsin):
    tocsin("add", "bad/taken", NEVER, "--null")
    text = (
        lines("bad", 1)
        + "\n"
        + '{"id": "bad/minute", "cron": "61 * * * *", "target": {"kind": "null"}}\n'
        + "nonsense\n"
        + '{"id": "bad/taken", "cron": "@daily", "target": {"kind": "null"}}'
    )
    checked = tocsin("import", "-", "--check", stdin=text)
    assert (checked.status, checked.out) == (1, "4 lines: 2 good, 2 refused; nothing was written\n")
    done = tocsin("import", "-", stdin=text)
    assert (done.status, done.out) == (1, "4 lines: 1 created, 3 refused\n")
    minute, nonsense, taken = done.err.splitlines()
    assert minute.startswith("line 3 (bad/minute): minute: 61 is out of range; allowed: ")
    assert nonsense.startswith("line 4: ")
    assert taken.startswith("line 5 (bad/taken): ")
    assert "--replace" in taken
    *refused, summary = map(json.loads, tocsin("import", "-", "--json", stdin=text).out.splitlines())
    assert [line["line"] for line in refused] == [3, 4, 5]
    assert refused[0]["error"]["field"] == "minute"
    assert summary == {"done": True, "counts": {"unchanged": 1, "refused": 3}}
    replaced = tocsin("import", "-", "--replace", stdin=text)
    assert replaced.out == "4 lines: 1 edited, 1 unchanged, 2 refused\n"


def after_a_hundred_the_refused_are_counted(tocsin):
    done = tocsin("import", "-", stdin=lines("hundred", 103, cron="never"))
    assert done.status == 1
    assert len(done.err.splitlines()) == 101
    assert done.err.endswith("and 3 more lines were refused\n")
    assert (
        len(tocsin("import", "-", "--json", stdin=lines("hundred", 103, cron="never")).out.splitlines())
        == 104
    )


def what_is_not_lines_of_json_is_refused_as_a_whole(tocsin, tmp_path):
    for text in ("id: x\ncron: '@daily'\n", '[{"id": "x"}]', '{\n  "id": "x"\n}\n'):
        done = tocsin("import", "-", stdin=text)
        assert (done.status, done.out) == (1, "")
        assert "tocsin apply" in done.err
    for path in (tmp_path, tmp_path / "missing"):
        done = tocsin("import", str(path))
        assert (done.status, str(path) in done.err) == (1, True)
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(lines("cut", 20_000).encode())[:-2000])
    done = tocsin("import", str(cut))
    assert (done.status, "cut.gz cannot be read" in done.err) == (1, True)
    assert tocsin("import", "-", stdin="").out == "0 lines\n"


def an_import_is_never_all_in_memory(tocsin, tmp_path):
    path = tmp_path / "many.ndjson.gz"
    with gzip.open(path, "wt", compresslevel=1) as file:
        for _ in range(2000):
            file.write(lines("same", 1, payload="x" * 60_000))
    watched = (
        "import re, sys; from tocsin.cli.main import app\n"
        "try: app(sys.argv[1:])\n"
        "finally: print(re.search(r'VmHWM:\\s+(\\d+) kB', open('/proc/self/status').read())[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", watched, "import", str(path), "--check"],
        env=environment(tocsin.url),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    told, peak_kb = done.stdout.splitlines()
    assert told == "2000 lines: 2000 good; nothing was written"
    assert int(peak_kb) < 100_000, "120 MB went through"


def an_import_from_a_silent_pipe_can_be_interrupted(tocsin):
    running = subprocess.Popen(
        [*TOCSIN, "import", "-"],
        env=environment(tocsin.url),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdin is not None
    assert running.stderr is not None
    running.stdin.write(lines("silent", 600, cron="never"))
    running.stdin.flush()
    assert running.stderr.readline().startswith("line 1 (silent/00000): ")
    running.send_signal(signal.SIGINT)
    assert running.wait(10) == 130, "it does not wait for the pipe"
    running.communicate()


def an_import_says_that_it_can_be_sent_again(serve, tmp_path):
    serving = serve("--json", "--data", str(tmp_path / "data"))
    running = subprocess.Popen(
        [*TOCSIN, "import", "-"],
        env=environment(json.loads(serving.greeting)["url"]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdin is not None
    assert running.stderr is not None
    running.stdin.write(lines("killed", 600, cron="never"))
    running.stdin.flush()
    running.stderr.readline()
    serving.process.kill()
    assert running.wait(10) == 3
    _, err = running.communicate()
    assert "was cut off" in err
    assert "the same lines can be sent again" in err


def a_person_sees_how_far_an_import_is(tocsin, tmp_path):
    path = tmp_path / "seen.ndjson"
    path.write_text(lines("seen", 3000))
    status, shown = at_a_terminal(tocsin.url, "import", str(path))
    assert status == 0
    assert "importing" in shown
    assert "3000 lines: 3000 created" in shown


def many_are_paused_resumed_launched_and_removed(tocsin):
    tocsin("import", "-", stdin=lines("bulk", 3, labels={"team": "bulk"}))
    tocsin("pause", "bulk/00000")
    seen = tocsin("bulk", "pause", "--prefix", "bulk/", "--preview")
    assert seen.out == "bulk/00000 unchanged\nbulk/00001 would be paused\nbulk/00002 would be paused\n"
    assert seen.err == "1 unchanged, 2 would be paused\n"
    done = tocsin("bulk", "pause", "--label", "team=bulk", "--yes", "--note", "down")
    assert (done.status, done.out) == (0, "bulk/00000 unchanged\nbulk/00001 paused\nbulk/00002 paused\n")
    assert done.err == "2 paused, 1 unchanged\n"
    assert "paused (down)" in tocsin("show", "bulk/00001").out
    *each, summary = map(
        json.loads, tocsin("bulk", "resume", "--prefix", "bulk/", "-y", "--json").out.splitlines()
    )
    assert [line["result"] for line in each] == ["resumed"] * 3
    assert summary == {"done": True, "counts": {"resumed": 3}}
    words = ("bulk", "label", "--set", "tier=gold", "--unset", "team", "--prefix", "bulk/")
    assert tocsin(*words, "--yes").err == "3 labelled\n"
    assert json.loads(tocsin("show", "bulk/00000", "--json").out)["labels"] == {"tier": "gold"}
    assert tocsin(*words, "--yes").err == "3 unchanged\n"
    assert "--unset K" in tocsin("bulk", "label", "--prefix", "bulk/", "--yes").err
    assert tocsin("bulk", "run", "--prefix", "bulk/0000", "--yes").err == "3 launched\n"
    assert tocsin("bulk", "rm", "--prefix", "bulk/", "--yes").out.splitlines()[0] == "bulk/00000 removed"
    assert tocsin("list", "bulk/").out == ""
    assert tocsin("bulk", "rm", "--prefix", "bulk/", "--yes").err == "nothing to do\n"


def which_schedules_are_meant_must_be_said(tocsin):
    for words in (["--yes"], ["--all", "--prefix", "a", "--yes"]):
        done = tocsin("bulk", "rm", *words)
        assert (done.status, done.out, "--all for all" in done.err) == (1, "", True)
    unsure = tocsin("bulk", "rm", "--all")
    assert (unsure.status, unsure.out, "--yes" in unsure.err) == (1, "", True)
    assert "would be paused" in tocsin("bulk", "pause", "--all", "--preview").out


def a_person_is_asked_with_the_count(tocsin):
    tocsin("import", "-", stdin=lines("asked", 30))
    words = ("bulk", "rm", "--prefix", "asked/")
    status, shown = at_a_terminal(tocsin.url, *words, answer="n")
    assert status == 1
    for told in ("- asked/00009", "and 20 more", "Remove these 30 schedules?", "nothing was done"):
        assert told in shown, shown
    tocsin("pause", "asked/00000")
    status, shown = at_a_terminal(tocsin.url, "bulk", "pause", "--prefix", "asked/00", answer="n")
    assert "Pause these 29 schedules?" in shown, "one is paused already"
    status, shown = at_a_terminal(tocsin.url, *words, answer="y")
    assert (status, "30 removed" in shown, "30/30" in shown) == (0, True, True)
    status, shown = at_a_terminal(tocsin.url, *words)
    assert (status, "nothing to do" in shown) == (0, True)


def a_refusal_of_one_is_told_and_counted(tocsin):
    tocsin("import", "-", stdin=lines("half", 2))
    token = tocsin("token", "create", "half", "--scope", "read").out.strip()
    done = subprocess.run(
        [*TOCSIN, "bulk", "pause", "--prefix", "half/", "--yes"],
        env=environment(tocsin.url, token),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "has not the scope 'operate'" in done.stderr
