"""The ids of a crontab's lines: readable, and of the line alone, so that no other line can take them over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.cli.transfer.crontab.ids import Identity, Names, slug
from tocsin.cli.transfer.crontab.lines import Crontab, Options, read_crontab


def read(text: str, user: str | None = None) -> Crontab:
    return read_crontab(text, Options(timezone="UTC", user=user), Names("cron/"))


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("cd /srv && nice -n 5 /opt/bin/backup.sh --daily >/dev/null 2>&1", "backup-daily"),
        ("test -x /a || { cd / && run-parts --report /etc/cron.daily; }", "run-parts-report-cron.daily"),
        ("if [ -e /f ]; then /srv/flagged; fi", "flagged"),
        ("flock -n /tmp/l -c 'php /var/www/artisan schedule:run'", "artisan-schedule-run"),
        ("curl -fsS https://u:pw@x.org/hooks/run?token=abc", "curl-x.org-run"),
        ("mysqldump -phunter2 --password=hunter2 --password hunter2 blog", "mysqldump-password-blog"),
        ("ümläute", "ml-ute"),
        ("'", "command"),
        ("x" * 500, "x" * 60),
    ],
)
def an_id_is_what_a_person_would_call_the_command(command, name):
    assert slug(command) == name


WORDS = st.sampled_from(["a", "b", "cd / && a", "a -2", "a 2", "é"])
IDENTITIES = st.builds(Identity, st.sampled_from(["", "u"]), WORDS, *[st.sampled_from(["", "1", "2"])] * 3)


@given(st.lists(IDENTITIES), st.randoms())
def ids_are_unique_and_do_not_depend_on_the_order_of_the_lines(lines, random):
    ids = Names("c/").give(lines)
    assert len(set(ids)) == len(ids)
    pairs = sorted(zip(lines, ids, strict=True))
    random.shuffle(lines)
    assert sorted(zip(lines, Names("c/").give(lines), strict=True)) == pairs


def named(text: str, user: str | None = None) -> list[str]:
    return [line.schedule.id for line in read(text, user).lines]


def a_new_time_or_other_lines_around_it_move_no_id():
    before = named("0 1 * * * a x\n0 1 * * * cd / && a x\n")
    assert named("7 7 * * * a y\n8 8 * * * cd / && a x\n9 9 * * * a x\n")[:0:-1] == before
    assert before[0].startswith("cron/a-x-")


def what_stands_in_several_lines_is_known_by_its_time_and_by_the_settings_above():
    one, two = named("0 1 * * * a\n0 2 * * * a\n")
    assert named("0 2 * * * a\n0 3 * * * a\n0 1 * * * a\n")[::2] == [two, one]
    zones = read("CRON_TZ=UTC\n0 1 * * * a\nCRON_TZ=Asia/Tokyo\n0 1 * * * a\n").lines
    moved = read("CRON_TZ=Asia/Tokyo\n0 1 * * * a\nCRON_TZ=UTC\n0 1 * * * a\n").lines
    ids = [{line.schedule.timezone: line.schedule.id for line in found[1::2]} for found in (zones, moved)]
    assert ids[0] == ids[1]
    assert len(set(ids[0].values())) == 2


def what_a_command_reads_and_who_runs_it_make_it_another():
    assert len(set(named("0 1 * * * a\n0 1 * * * a%x\n0 1 * * * a%y\n"))) == 3
    assert named("0 1 * * * a\n", user="root") != named("0 1 * * * a\n")


def a_line_below_a_wrong_zone_is_still_known():
    good, bad = read("0 1 * * * a\n"), read("CRON_TZ=Berlin\n0 1 * * * a\n")
    assert bad.held_ids == {good.lines[0].schedule.id}
