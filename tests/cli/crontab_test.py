"""What the lines of a crontab mean: settings, percent signs, formats. No service, but real shells."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.cli.transfer.crontab.files import Wish, read_sources, system_zone
from tocsin.cli.transfer.crontab.herds import herds
from tocsin.cli.transfer.crontab.ids import Names
from tocsin.cli.transfer.crontab.lines import Crontab, Line, Options, read_crontab
from tocsin.cli.transfer.crontab.text import setting, split_input, target
from tocsin.errors import InvalidInput, TocsinError
from tocsin.model.target import ExecTarget

HOMES = {"root": "/root", "www-data": "/var/www", "nobody": ""}


def read(text: str, **options: object) -> Crontab:
    whole = Options(**{"timezone": "UTC", "home_of": HOMES.get, **options})  # type: ignore[arg-type]  # why: by name
    return read_crontab(text, whole, Names("cron/"))


def only(text: str, **options: object) -> Line:
    """The last line's report."""
    return read(text + "\n", **options).lines[-1]


def schedule(text: str, **options: object):
    line = only(text, **options)
    assert line.schedule is not None, line.problem
    return line.schedule


# Settings


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("A=b", "A", "b"),
        ("  A  =  b c  ", "A", "b c"),
        ("\tA\t=\tb", "A", "b"),
        ('A="  b  "', "A", "  b  "),
        ("A='it\"s'", "A", 'it"s'),
        ("\"A B\"='c'", "A B", "c"),
        ('A=""', "A", ""),
        ("A=b # not a comment", "A", "b # not a comment"),
        ("A=$HOME/bin:~/x", "A", "$HOME/bin:~/x"),
        ("A=b=c", "A", "b=c"),
        ("A=b'c'", "A", "b'c'"),
    ],
)
def a_setting_is_read_as_cron_reads_it(line, name, value):
    assert setting(line) == (name, value)


@pytest.mark.parametrize(
    "line", ["A=", "A= ", 'A="b', 'A="b" c', "A='b\"", "* * * * * A=b x", "@daily A=b", "export A=b", "A b=c"]
)
def what_cron_does_not_take_for_a_setting_is_none(line):
    assert setting(line) is None


@pytest.mark.parametrize(
    "line", ["CRON_TZ=", 'CRON_TZ="Asia/Tokyo', "export CRON_TZ=Asia/Tokyo", "RANDOM_DELAY="]
)
def below_a_setting_of_the_time_that_cannot_be_read_nothing_is_imported(line):
    text = f"CRON_TZ=Europe/Berlin\n{line}\n0 1 * * * a\n{line.split()[-1].split('=')[0]}=0\n"
    _, refused, below, _ = read(text).lines
    assert (refused.kind, below.kind) == ("refused", "refused")
    assert "the lines below are refused" in refused.problem.message
    assert "line 2 was refused" in below.problem.message
    mended = read(
        f"{line}\n{'CRON_TZ=Asia/Tokyo' if 'TZ' in line else 'RANDOM_DELAY=5'}\n0 1 * * * a\n"
    ).lines[-1]
    assert mended.schedule is not None


def settings_apply_to_the_lines_below_them_only():
    lines = read("0 1 * * * a\nX=1\n0 2 * * * b\nX=2\nY=3\n0 3 * * * c\n").lines
    envs = [line.schedule.target.env for line in lines if line.schedule]
    assert envs == [{}, {"X": "1"}, {"X": "2", "Y": "3"}]


def the_shell_decides_who_runs_the_command():
    assert schedule("0 1 * * * a | b").target == ExecTarget(shell="a | b")
    assert schedule("SHELL=/bin/sh\n0 1 * * * a").target == ExecTarget(shell="a")
    bash = schedule("SHELL=/bin/bash\n0 1 * * * a | b").target
    assert bash == ExecTarget(argv=("/bin/bash", "-c", "a | b"), env={"SHELL": "/bin/bash"})


def home_is_where_the_command_works():
    told = schedule("HOME=/srv/x\n0 1 * * * a").target
    assert (told.cwd, told.env) == ("/srv/x", {"HOME": "/srv/x"})
    assert schedule("0 1 * * * a", user="root").target.cwd == "/root"
    assert schedule("0 1 * * * www-data a", system=True).target.cwd == "/var/www"


@pytest.mark.parametrize("options", [{}, {"user": "nobody"}, {"user": "elsewhere"}])
def an_unknown_home_is_left_open_and_said_once(options):
    found = read("0 1 * * * a\n0 2 * * * b\n", **options)
    assert [line.schedule.target.cwd for line in found.lines] == [None, None]
    (note,) = [note for note in found.notes if "home directory" in note]
    assert "lines 1 and 2" in note
    assert "HOME=" in note


def mailto_becomes_a_label_and_one_note_with_a_remedy():
    found = read('MAILTO=ops@x.org\n0 1 * * * a\n0 2 * * * b\nMAILTO=""\n0 3 * * * c\n')
    labels = [line.schedule.labels for line in found.lines if line.schedule]
    assert labels == [{"mailto": "ops@x.org"}, {"mailto": "ops@x.org"}, {}]
    (note,) = [note for note in found.notes if "MAILTO" in note]
    assert "does not mail" in note
    assert "tocsin output" in note


def cron_tz_moves_the_schedule_and_tz_does_not():
    moved = schedule("CRON_TZ=Asia/Tokyo\n0 1 * * * a", timezone="Europe/Berlin")
    assert (moved.timezone, moved.target.env) == ("Asia/Tokyo", {})
    stays = schedule("TZ=Asia/Tokyo\n0 1 * * * a", timezone="Europe/Berlin")
    assert (stays.timezone, stays.target.env) == ("Europe/Berlin", {"TZ": "Asia/Tokyo"})
    assert "CRON_TZ" in only("TZ=Asia/Tokyo").remarks[0]


def below_a_wrong_zone_nothing_is_imported_at_a_wrong_time():
    wrong, below, right, again = read("CRON_TZ=Berlin\n0 1 * * * a\nCRON_TZ=UTC\n0 1 * * * a\n").lines
    assert (wrong.kind, below.kind, right.kind, again.kind) == (
        "refused",
        "refused",
        "environment",
        "schedule",
    )
    assert "Europe/Berlin" in wrong.problem.hint
    inline = only("CRON_TZ=Europe/Berlin 0 1 * * * a")
    assert "a line of its own" in inline.problem.hint


def a_random_delay_becomes_jitter():
    assert schedule("RANDOM_DELAY=90\n0 1 * * * a").jitter == "1h30m"
    assert schedule("RANDOM_DELAY=0\n0 1 * * * a").jitter is None
    assert only("RANDOM_DELAY=soon").kind == "refused"


def logname_cannot_be_changed_and_that_is_said():
    assert "LOGNAME" in only("LOGNAME=joe").remarks[0]
    assert schedule("LOGNAME=joe\n0 1 * * * a").target.env == {}


# Percent signs


def cronlike(text: str) -> tuple[str, bytes]:
    """Letter by letter: the command and the bytes that cron writes into its standard input."""
    command, given, into_command, escaped, needs_newline = "", "", True, False, False
    for letter in text:
        if escaped and letter != "%":
            command, given = (command + "\\", given) if into_command else (command, given + "\\")
        if not escaped and letter == "%":
            if into_command:
                into_command = False
                continue
            letter = "\n"
        escaped = letter == "\\"
        if escaped:
            continue
        if into_command:
            command += letter
        else:
            given += letter
            needs_newline = letter != "\n"
    if escaped:
        command, given = (command + "\\", given) if into_command else (command, given + "\\")
    return command, (given + ("\n" if needs_newline else "")).encode()


@given(st.text(alphabet="\\%ab 'é", max_size=12))
def percent_signs_are_read_letter_for_letter_as_cron_does(text):
    command, given_text = split_input(text)
    assert (command, (given_text or "").encode()) == cronlike(text)


INPUTS = [
    "%Joe,%%Where are your kids?%",
    "%one%two \\% three",
    "%  blanks stay  % 'quotes' \"too\" $HOME `id` \\n \\\\",
    "%CRON_INPUT%CRON_INPUT_%",
    "%",
    "%ümläute",
    "%" + "long " * 20_000,
]


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
@pytest.mark.parametrize("text", INPUTS, ids=range(len(INPUTS)))
def the_shell_reads_byte_for_byte_what_cron_gives(shell, text):
    spec = target(shell, *split_input("cat" + text))
    argv = spec.get("argv") or ["/bin/sh", "-c", spec["shell"]]
    done = subprocess.run(argv, input=b"null", capture_output=True, check=True)
    assert done.stdout == cronlike("cat" + text)[1]


def a_shell_with_another_language_gets_its_input_too(tmp_path):
    strange = tmp_path / "strange"
    strange.write_text('#!/bin/sh\n[ "$1" = -c ] && printf "<%s>" "$2" && cat\n')
    strange.chmod(0o755)
    spec = target(str(strange), *split_input("set x 1; and 'this'%hello%"))
    done = subprocess.run(spec["argv"], input=b"null", capture_output=True, check=True)
    assert done.stdout == b"<set x 1; and 'this'>hello\n"


def the_commands_exit_status_and_its_own_text_survive_the_input():
    spec = target("/bin/sh", *split_input("read a; read b; test $a$b = 12 || exit 9; exit 3 # done%1%2"))
    assert subprocess.run(["/bin/sh", "-c", spec["shell"]], check=False).returncode == 3


def input_that_cannot_be_given_exactly_is_refused():
    assert "backslash" in only("0 1 * * * cat%\\").problem.message


# Lines


@pytest.mark.parametrize(
    ("line", "kind", "told"),
    [
        ("", "blank", ""),
        ("  \t", "blank", ""),
        ("  # x", "comment", ""),
        ("@reboot x", "skipped", "systemd"),
        ("@every_minute x", "refused", "* * * * *"),
        ("61 * * * * x", "refused", "0-59"),
        ("0 22-2 * * * x", "refused", "22-23,0-2"),
        ("0 5 * * /bin/x y", "refused", "is a * missing?"),
        ("* * * * *", "refused", "no command"),
        ("* * * * * * x", "refused", "6 fields"),
        ("0 0 5 * * ? x", "refused", "6 fields"),
        ("hello", "refused", "#"),
        ("A=", "refused", 'A=""'),
        ("export A=b", "refused", "leave out export"),
        ("* * * * * -n x", "refused", "leave them out"),
        ("0 0 30 2 * x", "refused", "never comes"),
        ("0 0 * * * x\udcff", "refused", "UTF-8"),
    ],
)
def every_line_has_its_kind_and_every_refusal_its_remedy(line, kind, told):
    found = only(f"0 1 * * * first\n{line}")
    assert found.kind == kind
    if told:
        problem = found.problem
        assert told in f"{problem.message} {problem.allowed} {problem.hint}"


def blanks_and_tabs_between_fields_do_not_matter():
    found = schedule("\t 5\t6  *\t*\t *   /bin/x\t--to  ops")
    assert (found.cron, found.target.shell) == ("5 6 * * *", "/bin/x\t--to  ops")


def windows_line_ends_and_a_missing_last_one_are_healed_and_said():
    found = read('A="b"\r\n\r\n0 1 * * * x\r\n0 2 * * * y')
    assert [line.kind for line in found.lines] == ["environment", "blank", "schedule", "schedule"]
    assert found.lines[2].schedule.target.shell == "x"
    assert "Windows" in " ".join(found.notes)
    assert "last line" in " ".join(found.notes)


@pytest.mark.parametrize(
    ("above", "description"),
    [
        ("# Back up all", "Back up all"),
        ("#Back\tup", "Back up"),
        ("# old\n# new", "new"),
        ("# far\n", ""),
        ("# ---- Night ----", "Night"),
        ("#-------", ""),
        ("# m h  dom mon dow   command", ""),
        ("#0 5 * * * /bin/old", ""),
        ("# *  *  *  *  * user-name command to be executed", ""),
        ("#@reboot x", ""),
    ],
)
def the_comment_right_above_is_the_description(above, description):
    assert schedule(f"{above}\n0 1 * * * x").description == description


def a_leading_minus_is_left_out_and_said():
    line = only("-*/5 * * * * x")
    assert (line.schedule.cron, "log" in line.remarks[0]) == ("*/5 * * * *", True)


# Formats


def a_system_crontab_names_its_users():
    found = schedule("0 1 * * *  root\t  cd / && x", system=True)
    assert (found.target.user, found.target.shell) == ("root", "cd / && x")
    assert "no user 'joe'" in read("0 1 * * * joe x\n", system=True).notes[-1]


@pytest.mark.parametrize(
    "rest", ["/bin/x --all", "echo hello", "backup", "backup --all", "[ -x /y ] && /y", "A=b x", "$HOME/x y"]
)
def a_user_crontab_taken_for_a_system_one_is_suspicious(rest):
    line = only(f"0 1 * * * {rest}", system=True, guessed=True)
    assert line.kind == "suspicious"
    assert "--user-format" in line.problem.hint


def a_system_crontab_taken_for_a_users_is_suspicious_unless_the_user_said_so():
    line = only("0 1 * * * root /bin/x", guessed=True)
    assert (line.kind, "--system" in line.problem.hint) == ("suspicious", True)
    assert schedule("0 1 * * * root -b x.C").target.shell == "root -b x.C"


@pytest.mark.parametrize(
    ("place", "system", "user"),
    [
        ("etc/crontab", True, None),
        ("etc/cron.d/php", True, None),
        ("home/crontab", False, None),
        ("var/spool/cron/crontabs/joe", False, "joe"),
        ("var/spool/cron/joe", False, "joe"),
    ],
)
def the_place_of_a_file_tells_its_format(tmp_path, place, system, user):
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    path.write_text("")
    (source,) = read_sources([str(path)], Wish())
    assert (source.system, source.user, source.guessed) == (system, user, True)
    assert source.reason
    if system:
        assert not read_sources([str(path)], Wish(user_format=True))[0].system
        with pytest.raises(TocsinError, match="--user-format"):
            read_sources([str(path)], Wish(user="joe"))


def contradictions_about_the_format_are_refused():
    with pytest.raises(InvalidInput, match="--user-format"):
        read_sources(["x"], Wish(system=True, user="joe"))


@pytest.mark.parametrize("how", ["localtime", "timezone", "neither"])
def the_zone_of_the_machine_is_found(tmp_path, how):
    if how == "localtime":
        Path(tmp_path / "localtime").symlink_to("/usr/share/zoneinfo/Europe/Berlin")
    if how == "timezone":
        (tmp_path / "timezone").write_text("Europe/Berlin\n")
    assert system_zone(tmp_path) == ("UTC" if how == "neither" else "Europe/Berlin")


# Herds


def a_herd_is_told_with_its_remedy():
    lines = read("".join(f"0 3 * * * x{number}\n" for number in range(7))).lines
    (note,) = herds(line.schedule for line in lines)
    assert "7 schedules start together at 03:00 UTC" in note
    assert "'? 3 * * *'" in note
    hourly = read("".join(f"0 * * * * x{number}\n" for number in range(7))).lines
    assert len(herds(line.schedule for line in hourly)) == 1


def what_only_looks_like_a_herd_is_not_told():
    days = "".join(f"0 3 * * {day} a{day}\n" for day in range(7))
    often = "".join(f"*/5 * * * * b{number}\n" for number in range(7))
    spread = "".join(f"? 3 * * * c{number}\n" for number in range(4))
    assert herds(line.schedule for line in read(days + often + spread).lines) == []
