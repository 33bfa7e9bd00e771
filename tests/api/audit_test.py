"""``GET /v1/audit`` of a real service: what was expected and what became of it, in bounded pages."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.api.conftest import Service

from tocsin.journal import codec
from tocsin.model import change as c
from tocsin.model.entry import Entry


def _pages(service: Service, **params: Any) -> list[Any]:
    """All pages of one audit, of the same time."""
    found: list[Any] = []
    while True:
        answer = service.ask("GET", f"/v1/audit?{urlencode(params)}")
        assert answer.status == 200, answer
        found.append(answer.json)
        params |= {key: answer.json[key] for key in ("since", "until", "cursor")}
        if not answer.json["cursor"]:
            return found


def _total(pages: list[Any], name: str) -> int:
    return sum(page["counts"][name] for page in pages)


def _items(pages: list[Any]) -> dict[str, Any]:
    return {item["schedule"]: item for page in pages for item in page["items"]}


def _findings(pages: list[Any]) -> list[Any]:
    return [finding for page in pages for finding in page["findings"]]


def _launched(service: Service, id: str) -> int:
    answer = service.ask("GET", f"/v1/launches?schedule={id}&state=succeeded&limit=1000")
    return len(answer.json["items"])


def what_was_launched_is_accounted_for(service, wait):
    service.create("audited/second", cron="* * * * * *")
    service.create("audited/never")
    wait(lambda: _launched(service, "audited/second") >= 3)
    pages = _pages(service, prefix="audited/")
    assert set(_items(pages)) == {"audited/second"}
    assert sum(page["schedules"] for page in pages) == 2
    counts = _items(pages)["audited/second"]["counts"]
    assert counts["expected"] == counts["started"] + counts["waiting"] >= 3
    assert (_total(pages, "unaccounted"), _total(pages, "doubled"), _findings(pages)) == (0, 0, [])
    journal = pages[0]["journal"]
    assert journal["whole"]
    assert journal["entries"] > 3
    service.ask("DELETE", "/v1/schedules/audited/second")
    deleted = _items(_pages(service, schedule="audited/second"))["audited/second"]["counts"]
    assert deleted["expected"] >= counts["started"]
    assert deleted["unaccounted"] == deleted["waiting"] == 0


def a_page_looks_at_no_more_schedules_than_it_is_asked_to(service):
    for number in range(7):
        service.create(f"paged/{number}")
    pages = _pages(service, prefix="paged/", limit=3)
    assert [page["schedules"] for page in pages if page["journal"] is None] == [3, 3, 1]


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ("since=100&until=50", "until"),
        ("since=soon", "since"),
        ("cursor=nonsense", "cursor"),
        ("prefix=a//b", "prefix"),
        ("schedule=", "schedule"),
        ("form=1", "form"),
    ],
)
def a_question_that_makes_no_sense_is_refused(service, asked, field):
    answer = service.ask("GET", f"/v1/audit?{asked}")
    assert (answer.status, answer.json["field"]) == (400, field)


def the_cursor_of_another_list_is_none_of_this(service):
    for number in range(3):
        service.create(f"foreign/{number}")
    cursor = service.ask("GET", "/v1/schedules?limit=1").json["cursor"]
    assert service.ask("GET", f"/v1/audit?cursor={cursor}").status == 400


def whoever_reaches_a_part_sees_the_account_of_that_part(guarded, wait):
    for id in ("mine/a", "yours/a"):
        guarded.create(id, cron="* * * * * *")
    answer = guarded.ask("POST", "/v1/tokens", {"name": "auditor", "scopes": ["read"], "prefixes": ["mine"]})
    reader = guarded.as_(answer.json["token"])
    wait(lambda: _launched(guarded, "yours/a") >= 2)
    assert set(_items(_pages(reader))) == {"mine/a"}
    assert set(_items(_pages(guarded))) == {"mine/a", "yours/a"}
    assert reader.ask("GET", "/v1/audit?schedule=yours/a").status == 403
    assert _pages(reader, prefix="yours/")[-1]["schedules"] == 0


# What somebody did to the files


def _busy(start: Any, wait: Any, data: Path) -> tuple[Service, int]:
    """A service that has launched a few times, and the instant of one of its launches."""
    running = start(data)
    running.create("s", cron="* * * * * *")
    running.create("other", cron="*/2 * * * * *")
    wait(lambda: _launched(running, "s") >= 4)
    db = sqlite3.connect(data / "state.db")
    found = db.execute(
        "SELECT instant_s FROM launch JOIN schedule USING (sid) WHERE id = 's' ORDER BY 1 LIMIT 2"
    )
    instant_s = found.fetchall()[1][0]
    db.close()
    return running, instant_s


def a_launch_that_was_deleted_from_the_state_is_found_and_nothing_else(start, wait, tmp_path):
    """Under the hands of the service: a state that was changed while it was closed would be noticed and rebuilt."""
    running, instant_s = _busy(start, wait, tmp_path / "data")
    db = sqlite3.connect(tmp_path / "data" / "state.db")
    with db:
        db.execute(
            "DELETE FROM launch WHERE instant_s = ? AND sid = (SELECT sid FROM schedule WHERE id = 's')",
            (instant_s,),
        )
    db.close()
    pages = _pages(running)
    (found,) = _findings(pages)
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(instant_s))
    assert (found["kind"], found["schedule"], found["at"]) == ("unaccounted", "s", at)
    assert (_total(pages, "unaccounted"), _total(pages, "doubled")) == (1, 0)


def a_second_start_in_the_journal_is_found_and_nothing_else(start, wait, tmp_path):
    running, instant_s = _busy(start, wait, tmp_path / "data")
    assert running.stop() == 0
    db = sqlite3.connect(tmp_path / "data" / "journal.db")
    rows = db.execute("SELECT seq, raw FROM entry ORDER BY seq").fetchall()
    starts = [
        change
        for seq, raw in rows
        for change in codec.decode(raw, seq).changes
        if isinstance(change, c.LaunchesStarted) and instant_s in change.instants_s
    ]
    place = starts[0].instants_s.index(instant_s)
    twice = c.LaunchesStarted([starts[0].sids[place]], [1], [instant_s], [None], None, None)
    seq, raw = rows[-1]
    last = codec.decode(raw, seq)
    with db:
        tampered = Entry(last.id, last.prev, last.term, last.time_ms, [twice, *last.changes])
        db.execute("UPDATE entry SET raw = ? WHERE seq = ?", (codec.encode(tampered), seq))
    db.close()
    pages = _pages(start(tmp_path / "data"))
    (found,) = _findings(pages)
    assert (found["kind"], found["schedule"], found["sequence"]) == ("doubled", "s", seq)
    assert (_total(pages, "doubled"), _total(pages, "unaccounted")) == (1, 0)
