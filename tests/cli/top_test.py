"""``top``: once, as JSON, and before the eyes of a person, also while the service is away."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.cli.conftest import TOCSIN, Command, environment

from tocsin.cli.look import overview
from tocsin.cli.present import width
from tocsin.model.activity import Activity, ActivityBucket, ActivityView
from tocsin.model.answer import LaunchPage, StatusView
from tocsin.model.cluster import ClusterView, ReplicaView
from tocsin.model.launch import LaunchView

NEVER = "0 0 29 2 *"
NOW = datetime(2026, 11, 15, 17, 40, 30, tzinfo=UTC)


class Watching:
    """``tocsin top`` in a terminal of its own."""

    def __init__(self, *words: str, columns: int = 100, rows: int = 40) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process = subprocess.Popen(
            [*TOCSIN, "top", *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**environment(None), "TERM": "xterm"},
            start_new_session=True,
        )
        self._theirs = theirs
        self.shown = ""

    def until(self, text: str, within_s: float = 20) -> str:
        """All that was shown up to this text. What was shown before is forgotten."""
        deadline = time.monotonic() + within_s
        while text not in self.shown:
            ready, _, _ = select.select([self._ours], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"{text!r} did not come: {self.shown[-2000:]}"
            part = os.read(self._ours, 65536).decode(errors="replace")
            self.shown += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", part)
        before, _, self.shown = self.shown.partition(text)
        return before + text

    def type(self, key: bytes) -> None:
        os.write(self._ours, key)

    def ends(self) -> int:
        """Its status. What it still shows is read: nobody can leave a terminal that takes nothing."""
        deadline = time.monotonic() + 20
        while self.process.poll() is None:
            assert time.monotonic() < deadline, "it did not end"
            if select.select([self._ours], [], [], 0.05)[0]:
                os.read(self._ours, 65536)
        return self.process.returncode

    def is_as_it_was(self) -> bool:
        """Lines are lines again, and what is typed is shown."""
        wanted = termios.ICANON | termios.ECHO
        return bool(termios.tcgetattr(self._theirs)[3] & wanted == wanted)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)


@pytest.fixture
def watch() -> Iterator[Callable[..., Watching]]:
    opened: list[Watching] = []

    def one(*words: str, **size: int) -> Watching:
        opened.append(Watching(*words, **size))
        return opened[-1]

    yield one
    for each in opened:
        each.close()


def once_shows_all_of_it_and_ends(tocsin: Command) -> None:
    tocsin("add", "top/bad", NEVER, "--shell", "exit 3")
    name = tocsin("run", "top/bad", "--wait", "--json").json["name"]
    for done in (tocsin("top", "--once"), tocsin("top"), tocsin.terminal("top", "--once")):
        assert (done.status, done.err) == (0, "")
        order = [done.out.index(part) for part in ("NEEDS A PERSON", name, "LAUNCHES PER MINUTE", "REPLICAS")]
        assert order == sorted(order), "what needs a person comes first"
        assert re.search(r"last hour +\d+ started, 0 late, [1-9]\d* failed", done.out)
        assert re.search(r"lateness +", done.out)
        assert " leads, term 1" in done.out
        assert "█" in done.out


def a_program_gets_what_the_api_answers(tocsin: Command) -> None:
    found = tocsin("top", "--json").json
    assert set(found) == {"status", "cluster", "activity", "trouble"}
    assert found["status"]["term"] == found["cluster"]["term"]
    assert len(found["activity"]["items"]) in (60, 61)


def where_nobody_answers_once_says_so(alone: Command) -> None:
    for words in (("top", "--once"), ("top", "--json")):
        done = alone(*words)
        assert (done.status, done.out) == (3, "")
        assert "nothing answers" in done.err


@pytest.mark.parametrize("key", [b"q", b"Q", b"\x03"], ids=["q", "Q", "Ctrl-C"])
def a_key_ends_it_and_the_terminal_is_as_it_was(tocsin: Command, watch: Any, key: bytes) -> None:
    at = watch("--url", tocsin.url)
    at.until("NEEDS A PERSON")
    at.until("REPLICAS")
    if key == b"\x03":
        at.process.send_signal(signal.SIGINT)  # which the terminal makes of it where it is in charge
    else:
        at.type(key)
    assert at.ends() == 0
    assert at.is_as_it_was()


def it_is_drawn_again_as_things_happen(tocsin: Command, watch: Any) -> None:
    tocsin("add", "top/seen", NEVER, "--shell", "exit 9")
    at = watch("--url", tocsin.url)
    at.until("REPLICAS")
    name = tocsin("run", "top/seen", "--wait", "--json").json["name"]
    at.until(name)
    at.type(b"q")
    assert at.ends() == 0


def it_says_so_while_nobody_answers_and_goes_on(serve: Any, watch: Any, tmp_path: Any) -> None:
    first = serve("--json", "--data", str(tmp_path / "data"))
    url = json.loads(first.greeting)["url"]
    at = watch("--url", f"http://127.0.0.1:1,{url}")
    at.until("NEEDS A PERSON")
    first.stop()
    at.until("no answer since")
    serve("--json", "--data", str(tmp_path / "data"), "--listen", url.removeprefix("http://"))
    at.until("term 2")
    at.type(b"q")
    assert at.ends() == 0


def it_may_be_there_before_the_service_and_ends_all_the_same(watch: Any) -> None:
    at = watch("--url", "http://127.0.0.1:1")
    at.until("waiting for an answer")
    at.until("no answer since")
    at.type(b"q")
    assert at.ends() == 0


# What is drawn


def _bucket(minute: int, started: int = 10, **numbers: int) -> ActivityBucket:
    return ActivityBucket(
        at=NOW.replace(second=0) - timedelta(minutes=60 - minute),
        **{**_NOTHING, "started": started, **numbers},
    )


_NOTHING: dict[str, Any] = dict.fromkeys(
    ("late", "succeeded", "failed", "skipped", "cancelled", "in_doubt", "missed", "retries"), 0
) | dict.fromkeys(("lateness_p50_ms", "lateness_p99_ms", "lateness_max_ms"))


def _found(buckets: list[ActivityBucket], issues: list[str], trouble: list[LaunchView]) -> overview.Found:
    status = StatusView(
        replica="a",
        version="1",
        started_at=NOW,
        uptime_s=9,
        role="leader",
        leader="a",
        term=3,
        sequence=9,
        incarnation="i",
        digest="d",
        schedules=1_000_000,
        enabled=999,
        open=4,
        retrying=1,
        stalled=0,
        lag_ms=0,
        failed=1,
        in_doubt=1,
        missed=0,
        next_due=NOW,
        snapshot_sequence=1,
        snapshot_age_s=61,
        tzdata="2026a",
        issues=issues,
    )
    replicas = [
        ReplicaView(name="a", role="leader", peer="", api="", lag=0, snapshot_age_s=61),
        ReplicaView(name="b", role="follower", peer="", api="", lag=17, snapshot_age_s=3),
        ReplicaView(name="c", role="unreachable", peer="", api="", problem="no \x1b[2J answer " + "x" * 300),
    ]
    cluster = ClusterView(
        answered_by="a",
        leader="a",
        term=3,
        sequence=9,
        incarnation="i",
        majority=2,
        reachable=2,
        digests_agree=True,
        replicas=replicas,
    )
    totals = Activity(**{**_NOTHING, "started": 3, "lateness_p50_ms": 5, "lateness_p99_ms": 2_000})
    view = ActivityView(since=NOW, until=NOW, bucket_s=60, items=buckets, totals=totals)
    return overview.Found(status, cluster, view, LaunchPage(trouble))


def _launch(name: str, state: str, reason: str) -> LaunchView:
    return LaunchView(
        name=name,
        schedule="s",
        scheduled_at=NOW,
        state=state,
        reason=reason,
        attempt=1,
        term=1,
        replica="a",
        version=1,
        started_at=NOW,
        ended_at=NOW,
        exit_code=None,
        lateness_ms=0,
    )


@pytest.mark.parametrize("columns", [60, 79, 80, 100, 132, 200, 300])
@pytest.mark.parametrize("rows", [24, 50])
def it_fits_into_the_window(columns: int, rows: int) -> None:
    buckets = [_bucket(minute, started=minute * 100) for minute in range(61)]
    trouble = [_launch("x" * 150, "in_doubt", "日本語" * 40)]
    drawn = overview.lines(_found(buckets, ["issue " * 60] * 9, trouble), columns, rows)
    assert max(map(width, drawn)) <= min(columns, 200)
    assert len(drawn) < rows
    assert "".join(drawn).isprintable()


def what_went_wrong_has_a_letter_below_its_bar() -> None:
    buckets = [_bucket(minute) for minute in range(61)]
    buckets[5] = _bucket(5, failed=1, late=2)
    buckets[6] = _bucket(6, late=1)
    buckets[7] = _bucket(7, in_doubt=1)
    buckets[8] = _bucket(8, started=0, missed=1)
    drawn = overview.lines(_found(buckets, [], []), 80)
    (marks,) = [line for line in drawn if re.fullmatch(r" *[FDML ]+", line) and line.strip()]
    bars = drawn[drawn.index(marks) - 1]
    first = bars.index("┤") + 1
    assert marks[first:].rstrip() == "     FLDM"
    assert bars[first : first + 61] == "████████ " + "█" * 52


def letters_and_not_only_colours_tell_what_became_of_a_launch() -> None:
    trouble = [_launch("pay-1", "failed", "exit status 1"), _launch("pay-2", "in_doubt", "")]
    drawn = overview.lines(_found([_bucket(60)], [], trouble), 100)
    assert [line[:12] for line in drawn[2:4]] == ["F pay-1  fai", "D pay-2  in "]
