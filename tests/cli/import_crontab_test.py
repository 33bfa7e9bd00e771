"""``tocsin import-crontab``: whole crontabs into a real service, every line accounted for."""

from __future__ import annotations

import json
import socket
from collections import Counter
from pathlib import Path

import pytest
import yaml

HERE = Path(__file__).parent / "crontabs"
# Its commands are never started: their directory, HOME, exists nowhere.
SHOP = str(HERE / "shop.crontab")
BERLIN = ("--tz", "Europe/Berlin")
IMPORTED = ("created", "updated", "unchanged")


def found(tocsin, start: str) -> str:
    """The one id that begins so: behind that stands the mark of its line."""
    (item,) = tocsin("list", start, "--json").json["items"]
    return item["id"]


def results(document) -> Counter:
    return Counter(line["result"] for file in document["files"] for line in file["lines"])


def a_crontab_of_more_than_two_hundred_lines_is_imported_and_every_line_accounted_for(tocsin):
    raw = Path(SHOP).read_bytes()
    done = tocsin("import-crontab", SHOP, *BERLIN, "--prefix", "shop/", "--json")
    (file,) = done.json["files"]
    count = raw.count(b"\n")
    assert count > 200
    assert [line["line"] for line in file["lines"]] == list(range(1, count + 1))
    told = results(done.json)
    assert told == done.json["summary"]
    assert told.total() == count
    assert set(told) == {"blank", "comment", "environment", "created", "refused", "suspicious", "skipped"}
    assert done.status == 1, "some lines are refused"
    listed = tocsin("list", "shop/", "--limit", "0", "--json").json["items"]
    assert {item["id"] for item in listed} == {line["id"] for line in file["lines"] if "id" in line}
    assert len(listed) == told["created"] > 120
    for line in file["lines"]:
        if line["result"] in ("refused", "suspicious", "skipped"):
            assert line["reason"]
            assert line["hint"] or line["allowed"], line


def no_command_of_the_files_can_be_started(alone):
    done = alone(
        "import-crontab", SHOP, str(HERE / "etc/crontab"), str(HERE / "etc/cron.d"), "--dry-run", "--json"
    )
    targets = [
        line["schedule"]["target"] for file in done.json["files"] for line in file["lines"] if "id" in line
    ]
    assert {target["cwd"].split("/")[1] for target in targets} == {"nonexistent"}


def importing_twice_changes_nothing_and_what_was_paused_stays_paused(tocsin):
    words = ("import-crontab", SHOP, *BERLIN, "--prefix", "twice/")
    first = tocsin(*words, "--json").json
    paused = found(tocsin, "twice/heartbeat-")
    tocsin("pause", paused)
    again = tocsin(*words, "--json").json
    assert first["summary"]["created"] == again["summary"]["unchanged"] > 120
    assert not {"created", "updated"} & set(again["summary"])
    assert tocsin("show", paused, "--json").json["enabled"] is False
    (heartbeat,) = [line for line in again["files"][0]["lines"] if line.get("id") == paused]
    assert heartbeat["remarks"] == ["still paused"]


def a_changed_line_is_updated_and_the_others_are_left_alone(tocsin):
    text = "0 1 * * * /bin/a\n%s * * * /bin/b\n"
    words = ("import-crontab", "-", *BERLIN, "--prefix", "edit/", "--json")
    tocsin(*words, stdin=text % "0 2")
    done = tocsin(*words, stdin=text % "0 3")
    assert (done.status, done.json["summary"]) == (0, {"unchanged": 1, "updated": 1})


def the_report_says_for_each_line_what_became_of_it(tocsin):
    good = "# Every morning\n25 6 * * * /nonexistent/logrotate /etc/logrotate.conf\n"
    text = f"MAILTO=me\n{good}61 * * * * x\n@reboot y\n"
    done = tocsin("import-crontab", "-", *BERLIN, "--prefix", "told/", stdin=text)
    head, _, *rows, summary = done.out.splitlines()
    assert "user format" in head
    assert "Europe/Berlin" in head
    words = [row.split() for row in rows]
    assert words[0] == ["1", "environment", "MAILTO"]
    assert words[1][:3] == ["3", "created", found(tocsin, "told/logrotate-logrotate.conf-")]
    assert "25 6 * * *" in rows[1]
    assert "at 06:25, every day, Europe/Berlin" in rows[1]
    assert [row[:2] for row in words[2:]] == [["4", "refused"], ["5", "skipped"]]
    assert summary == "5 lines: 1 created, 1 refused, 1 skipped, 1 environment, 1 comment"
    assert "line 4: refused: minute: 61 is out of range" in done.err
    assert "allowed: 0-59" in done.err
    assert "systemd" in done.err
    assert done.err.count("Tocsin does not mail") == 1
    assert done.status == 1


def a_skipped_line_alone_does_not_make_the_import_fail(tocsin):
    text = "@reboot y\n0 1 * * * x\n"
    assert tocsin("import-crontab", "-", "--prefix", "skip/", stdin=text).status == 0
    strict = tocsin("import-crontab", "-", "--prefix", "skip2/", "--strict", stdin=text)
    assert (strict.status, "held back" in strict.out) == (1, True)


def strict_imports_all_or_nothing(tocsin):
    done = tocsin(
        "import-crontab", "-", "--prefix", "strict/", "--strict", stdin="0 1 * * * a\n61 * * * * b\n"
    )
    assert (done.status, "nothing was imported" in done.err) == (1, True)
    assert tocsin("list", "strict/").out == ""
    assert tocsin("import-crontab", "-", "--prefix", "strict/", "--strict", stdin="0 1 * * * a\n").status == 0


def a_dry_run_needs_no_service(alone):
    done = alone("import-crontab", SHOP, *BERLIN, "--dry-run", "--json")
    assert done.status == 1
    assert done.json["summary"]["ready"] > 120
    good = alone("import-crontab", "-", "--dry-run", stdin="0 1 * * * a\n")
    assert good.status == 0
    assert alone("import-crontab", "-", stdin="0 1 * * * a\n").status == 3


def yaml_for_apply_says_exactly_what_the_import_would_do(tocsin, alone, folder):
    made = alone("import-crontab", SHOP, *BERLIN, "--prefix", "yaml/", "--output", "yaml")
    assert made.status == 1
    assert "line 209: refused: minute: 61 is out of range" in made.out
    assert "line 209: refused" in made.err
    file = folder({"made.yaml": made.out}) / "made.yaml"
    assert len(list(yaml.safe_load_all(made.out))) > 120
    applied = tocsin("apply", "-f", str(file))
    assert applied.status == 0, applied.err
    done = tocsin("import-crontab", SHOP, *BERLIN, "--prefix", "yaml/", "--json").json["summary"]
    assert done["unchanged"] == len(applied.out.splitlines())
    assert not {"created", "updated"} & set(done)


def system_crontabs_are_recognised_by_their_place(tocsin):
    done = tocsin(
        "import-crontab", str(HERE / "etc/crontab"), str(HERE / "etc/cron.d"), "--prefix", "etc/", "--json"
    )
    files = done.json["files"]
    assert [Path(file["file"]).name for file in files] == ["crontab", "php", "sysstat"]
    assert {file["format"] for file in files} == {"system"}
    assert "php.dpkg-old" in files[1]["notes"][0]
    suspicious = [line for line in files[0]["lines"] if line["result"] == "suspicious"]
    assert len(suspicious) == 3
    assert all("--user-format" in line["hint"] for line in suspicious)
    shown = tocsin("show", found(tocsin, "etc/sessionclean-"), "--json").json
    assert (shown["target"]["user"], shown["labels"]["crontab"]) == (
        "root",
        f"{socket.gethostname()}:{HERE / 'etc/cron.d/php'}",
    )
    assert shown["description"] == "Look for and purge old sessions every 30 minutes"


def a_wrong_guess_of_the_format_can_be_seen_and_remedied(tocsin):
    text = "0 1 * * * root /bin/a\n"
    guessed = tocsin("import-crontab", "-", "--prefix", "guess/", stdin=text)
    assert guessed.status == 1
    assert "user format: a guess" in guessed.out
    assert "--system" in guessed.err
    right = tocsin("import-crontab", "-", "--prefix", "guess/", "--system", stdin=text)
    assert (right.status, "system format" in right.out) == (0, True)
    assert tocsin("show", found(tocsin, "guess/a-"), "--json").json["target"]["user"] == "root"


def labels_and_the_user_are_passed_on(tocsin):
    words = ("--prefix", "with/", "--label", "host=web1", "--user", "root")
    assert tocsin("import-crontab", "-", *words, stdin="0 1 * * * a\n").status == 0
    shown = tocsin("show", found(tocsin, "with/a-"), "--json").json
    assert shown["labels"] == {"crontab": f"root@{socket.gethostname()}:-", "host": "web1"}
    assert shown["target"]["user"] == "root"


def a_schedule_from_elsewhere_is_never_replaced(tocsin, folder):
    path = folder({"one": "0 1 * * * b\n", "two": "0 2 * * * b\n0 2 * * * a\n"})
    dry = tocsin("import-crontab", str(path / "two"), "--prefix", "own/", "--dry-run", "--json").json
    b, a = (line["id"] for line in dry["files"][0]["lines"])
    tocsin("add", a, "@yearly", "--null")
    assert tocsin("import-crontab", str(path / "one"), "--prefix", "own/").status == 0
    done = tocsin("import-crontab", str(path / "two"), "--prefix", "own/")
    assert done.status == 1
    origin = tocsin("show", b, "--json").json["labels"]["crontab"]
    assert f"from another crontab, {origin!r}" in done.err
    assert "not from a crontab" in done.err
    assert tocsin("show", b, "--json").json["cron"] == "0 1 * * *"
    taken = tocsin(
        "import-crontab", str(path / "two"), "--prefix", "own/", "--label", f"crontab={origin}", "--json"
    )
    assert taken.json["summary"] == {"updated": 1, "refused": 1}


def what_comes_behind_a_percent_sign_reaches_the_command_when_it_is_launched(tocsin):
    text = "0 0 1 1 * cat; exit 3%Joe,%%Where are your \\% kids?% 'x' $HOME \\n%\n"
    tocsin("import-crontab", "-", "--prefix", "real/", stdin=text)
    launch = tocsin("run", found(tocsin, "real/cat-"), "--wait", "--json").json
    assert (launch["state"], launch["exit_code"]) == ("failed", 3)
    shown = tocsin("output", launch["name"])
    assert shown.out == "Joe,\n\nWhere are your % kids?\n 'x' $HOME \\n\n"


def a_command_is_launched_in_the_environment_of_its_crontab(tocsin, tmp_path):
    settings = f'SHELL=/bin/bash\nHOME={tmp_path}\nGREETING = "  hello  "\nTZ=Asia/Tokyo\n'
    text = f"{settings}0 0 1 1 * [[ -n x ]] && env && pwd\n"
    tocsin("import-crontab", "-", "--prefix", "env/", stdin=text)
    (item,) = tocsin("list", "env/", "--json").json["items"]
    launch = tocsin("run", item["id"], "--wait", "--json").json
    printed = tocsin("output", launch["name"]).out.splitlines()
    for line in ("GREETING=  hello  ", f"HOME={tmp_path}", "TZ=Asia/Tokyo", "SHELL=/bin/bash", str(tmp_path)):
        assert line in printed


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["missing"], "No such file"),
        (["-", "--system", "--user", "joe"], "--system"),
        (["-", "--output", "xml"], "allowed: yaml"),
        (["-", "--output", "yaml", "--json"], "not both"),
        (["-", "--prefix", "/x"], "--prefix"),
        (["-", "--tz", "Berlin"], "Europe/Berlin"),
        (["-", "--label", "x"], "label"),
    ],
)
def a_mistake_in_the_call_is_a_sentence(alone, words, told):
    done = alone("import-crontab", *words, stdin="0 1 * * * a\n")
    assert done.status == 1
    assert told in done.err


def a_person_sees_a_table_that_fits_and_no_secret(tocsin, folder):
    file = folder({"x.crontab": "DB_PASSWORD=hunter2\n0 1 * * * /bin/a --password hunter2\n"}) / "x.crontab"
    shown = tocsin.terminal("import-crontab", str(file), "--prefix", "person/", *BERLIN)
    title = next(line for line in shown.out.splitlines() if line.startswith("LINE"))
    assert title.split() == ["LINE", "RESULT", "ID", "MEANING"]
    assert "person/a-password" in shown.out
    assert "hunter2" not in shown.out + shown.err
    assert max(len(line) for line in shown.out.splitlines()[1:]) <= 80


def help_teaches_with_an_example(alone):
    shown = alone("import-crontab", "--help").out
    assert "crontab -l | tocsin import-crontab - --dry-run" in shown


def an_empty_crontab_is_no_mistake(alone):
    done = alone("import-crontab", "-", "--dry-run", "--json", stdin="")
    assert (done.status, json.loads(done.out)["summary"]) == (0, {})


def crontabs_of_the_same_name_are_not_taken_for_each_other(tocsin, folder):
    path = folder({"a/crontab": "0 1 * * * same\n", "b/crontab": "0 2 * * * same\n"})
    assert tocsin("import-crontab", str(path / "a/crontab"), "--prefix", "twins/").status == 0
    done = tocsin("import-crontab", str(path / "b/crontab"), "--prefix", "twins/")
    assert (done.status, "from another crontab" in done.err) == (1, True)
    assert tocsin("show", found(tocsin, "twins/same-"), "--json").json["cron"] == "0 1 * * *"


def a_refusal_is_told_once(alone):
    done = alone("import-crontab", "-", "--dry-run", stdin="0 0 * * funday cmd\n@fortnightly cmd\n")
    assert done.status == 1
    assert (done.out + done.err).count("'@fortnightly' is not a nickname") == 1
    assert "only 4 fields" not in done.out + done.err
    assert "weekday" in done.err, "what is wrong is the name, not the number of fields"
    assert "@midnight" in done.err
