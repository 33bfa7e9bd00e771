"""A crontab that was edited is imported again: no line takes over another's schedule, and none is launched twice."""

from __future__ import annotations

import re

import pytest
from tests.cli.person import at_a_terminal


class Crontab:
    """One crontab on this machine, imported again and again under its own prefix."""

    def __init__(self, tocsin, path, prefix: str) -> None:
        self.tocsin, self.path, self.prefix = tocsin, path, prefix

    def words(self, text: str, *more: str) -> tuple[str, ...]:
        self.path.write_text(text)
        return ("import-crontab", str(self.path), "--tz", "UTC", "--prefix", self.prefix, *more)

    def __call__(self, text: str, *more: str, status: int = 0):
        done = self.tocsin(*self.words(text, *more, "--json"))
        assert done.status == status, done
        return done.json

    @property
    def present(self) -> list[tuple[str, str, bool]]:
        """What there is: when, what, and whether it is enabled."""
        items = self.tocsin("list", self.prefix, "--limit", "0", "--json").json["items"]
        shown = [self.tocsin("show", item["id"], "--json").json for item in items]
        return sorted((view["cron"], view["target"]["shell"], view.get("enabled", True)) for view in shown)


@pytest.fixture
def crontab(tocsin, tmp_path, request) -> Crontab:
    return Crontab(tocsin, tmp_path / "crontab.txt", re.sub(r"\W+", "-", request.node.name) + "/")


def ids(document) -> dict[str, str]:
    lines = [line for file in document["files"] for line in file["lines"] if "id" in line]
    return {line["text"]: line["id"] for line in lines}


def one_of_two_lines_with_the_same_command_can_go(crontab):
    first = ids(crontab("0 1 * * * sync\n0 13 * * * sync\n"))
    done = crontab("0 13 * * * sync\n")
    assert [(each["id"], each["result"]) for each in done["stale"]] == [(first["0 1 * * * sync"], "stale")]
    assert crontab.present == [("0 1 * * *", "sync", True), ("0 13 * * *", "sync", True)], "13:00 only once"
    crontab("0 13 * * * sync\n", "--prune", "--yes")
    assert crontab.present == [("0 13 * * *", "sync", True)]


def a_second_line_with_the_same_command_can_come(crontab):
    old = ids(crontab("0 1 * * * sync\n"))["0 1 * * * sync"]
    done = crontab("0 1 * * * sync\n0 13 * * * sync\n")
    assert done["stale"] == []
    assert done["files"][0]["lines"][0]["remarks"] == [f"in place of {old}"]
    assert crontab.present == [("0 1 * * *", "sync", True), ("0 13 * * *", "sync", True)]
    again = crontab("0 1 * * * sync\n0 13 * * * sync\n")
    assert (again["summary"], again["stale"]) == ({"unchanged": 2}, [])


def a_line_inserted_above_inherits_nothing(crontab):
    broken = ids(crontab("0 1 * * * /opt/a/job.sh\n"))["0 1 * * * /opt/a/job.sh"]
    crontab.tocsin("pause", broken)
    done = crontab("0 2 * * * /opt/b/job.sh\n0 1 * * * /opt/a/job.sh\n")
    assert (done["summary"], done["stale"]) == ({"created": 1, "unchanged": 1}, [])
    assert crontab.present == [("0 1 * * *", "/opt/a/job.sh", False), ("0 2 * * *", "/opt/b/job.sh", True)]


@pytest.mark.parametrize("time", ["0 1", "0 5"], ids=["same_time", "new_time"])
def what_was_paused_stays_paused_when_its_line_gets_another_id(crontab, time):
    crontab.tocsin("pause", ids(crontab("0 1 * * * sync\n"))["0 1 * * * sync"])
    done = crontab(f"{time} * * * sync\n9 9 * * * sync\n")
    assert "paused" in done["files"][0]["lines"][0]["remarks"][0]
    paused = [cron for cron, _, enabled in crontab.present if not enabled]
    assert f"{time} * * *" in paused


def the_same_line_twice_is_two_schedules_and_one_is_stale_when_it_goes(crontab):
    crontab("0 1 * * * a\n0 1 * * * a\n")
    assert len(crontab.present) == 2, "cron would run both"
    assert crontab("0 1 * * * a\n0 1 * * * a\n")["summary"] == {"unchanged": 2}
    assert len(crontab("0 1 * * * a\n")["stale"]) == 1
    crontab("0 1 * * * a\n", "--prune", "--yes")
    assert len(crontab.present) == 1


def a_user_that_was_forgotten_the_first_time_makes_no_second_schedule(crontab):
    crontab("0 1 * * * a\n")
    done = crontab("0 1 * * * a\n", "--user", "root")
    assert (done["summary"], done["stale"], len(crontab.present)) == ({"created": 1}, [], 1)


def what_is_stale_is_told_with_its_remedy_and_removes_itself_never(crontab):
    gone = ids(crontab("0 1 * * * a\n0 2 * * * b\n"))["0 2 * * * b"]
    done = crontab.tocsin(*crontab.words("0 1 * * * a\n"))
    assert done.status == 0
    assert f"stale: {gone}: no line of " in done.out
    assert "1 stale" in done.out.splitlines()[-1]
    assert "--prune" in done.err
    assert "tocsin rm" in done.err
    assert len(crontab.present) == 2


def nothing_is_pruned_when_a_line_was_refused(crontab):
    crontab("0 1 * * * a\n0 2 * * * b\n")
    done = crontab.tocsin(*crontab.words("0 1 * * * a\n61 2 * * * b\n", "--prune", "--yes"))
    assert (done.status, "nothing was removed" in done.err) == (1, True)
    assert "correct it first" in done.err
    assert len(crontab.present) == 2
    held = crontab("CRON_TZ=Nowhere\n0 1 * * * a\n0 2 * * * b\n", status=1)
    assert held["stale"] == [], "a line that cannot be timed is not gone"


def an_empty_crontab_does_not_mean_to_remove_all(crontab):
    crontab("0 1 * * * a\n0 2 * * * b\n")
    done = crontab.tocsin(*crontab.words("", "--prune", "--yes"))
    assert (done.status, "ALL 2 schedules" in done.err, "--prune-all" in done.err) == (1, True, True)
    assert len(crontab.present) == 2
    assert {each["result"] for each in crontab("", "--prune", "--prune-all")["stale"]} == {"removed"}
    assert crontab.present == []


def a_person_is_asked_before_anything_is_sent(crontab):
    crontab("0 1 * * * a\n0 2 * * * b\n")
    words = crontab.words("0 1 * * * a\n0 3 * * * c\n", "--prune")
    status, shown = at_a_terminal(crontab.tocsin.url, *words, answer="n")
    assert (status, "Remove this schedule?" in shown, "nothing was imported" in shown) == (1, True, True)
    assert [what for _, what, _ in crontab.present] == ["a", "b"]
    status, shown = at_a_terminal(crontab.tocsin.url, *words, answer="y")
    assert (status, "removed: " in shown) == (0, True)
    assert [what for _, what, _ in crontab.present] == ["a", "c"]


def who_cannot_be_asked_must_say_yes_and_a_dry_run_removes_nothing(crontab):
    done = crontab.tocsin(*crontab.words("0 1 * * * a\n", "--prune"), stdin="")
    assert (done.status, "--yes" in done.err) == (1, True)
    done = crontab.tocsin(*crontab.words("0 1 * * * a\n", "--prune", "--yes", "--dry-run"))
    assert (done.status, "--dry-run" in done.err) == (1, True)
    assert crontab.present == []


def the_same_command_in_two_files_is_never_one_schedule(crontab, folder):
    path = folder({"one": "0 1 * * * a\n", "two": "0 2 * * * a\n"})
    words = ("import-crontab", str(path / "one"), str(path / "two"), "--prefix", crontab.prefix)
    done = crontab.tocsin(*words)
    assert (done.status, f"the same command stands in {path / 'one'}, line 1" in done.err) == (1, True)
    assert [cron for cron, _, _ in crontab.present] == ["0 1 * * *"]
    twice = crontab.tocsin(*words[:2], str(path / "one"), "--prefix", crontab.prefix)
    assert twice.status == 1
    assert len(crontab.present) == 1


def a_hand_made_schedule_of_the_same_line_is_told(crontab):
    own = f"{crontab.prefix}own"
    crontab.tocsin("add", own, "0 1 * * *", "--tz", "UTC", "--shell", "a")
    done = crontab("0 1 * * * a\n0 2 * * * b\n")
    assert (done["summary"], done["stale"]) == ({"created": 2}, [])
    assert any(own in note and "tocsin rm" in note for note in done["notes"])


def another_prefix_is_told_because_both_are_launched(crontab):
    crontab("0 1 * * * a\n")
    old = ids(crontab("0 1 * * * a\n"))["0 1 * * * a"]
    crontab.prefix = f"other-{crontab.prefix}"
    done = crontab("0 1 * * * a\n", "--prune", "--yes")
    assert done["stale"] == []
    assert any(old in note for note in done["notes"])
    assert crontab.tocsin("show", old).status == 0
