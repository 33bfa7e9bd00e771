"""Nothing that a caller sends can forge a line of the log or speak to the terminal."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

import pytest
from tests.cli.conftest import TOCSIN, Command, environment
from tests.ports import own_port

_SCRIPT = """
import structlog, sys
from tocsin.observe.logging import configure
configure(sys.argv[1])
log = structlog.get_logger()
evil = "a\\n2026-01-01 [info] forged \\x1b[31m\\u2028"
log.info("event", reason=evil)
log.info(evil)
try:
    raise ValueError(evil)
except ValueError as wrong:
    log.error("raised", exc_info=wrong)
import logging
logging.getLogger("uvicorn.error").warning("noise")
import asyncio
logging.getLogger("uvicorn.error").error("Exception in ASGI application", exc_info=asyncio.CancelledError("stop"))
logging.getLogger("library").warning("told %s", evil)
"""


@pytest.mark.parametrize("format", ["text", "json"])
def a_value_cannot_leave_its_line(format):
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, format], capture_output=True, text=True, timeout=20, check=True
    )
    assert done.stdout == ""
    assert "\x1b" not in done.stderr
    assert "noise" not in done.stderr
    assert "told" in done.stderr
    assert "a request was cut off, because the service ends" in done.stderr
    assert "CancelledError" not in done.stderr
    assert not [line for line in done.stderr.splitlines() if line.startswith("2026-01-01")]
    if format == "json":
        assert len([json.loads(line) for line in done.stderr.splitlines()]) == 5


_MANY = """
import structlog, sys, time
from tocsin.observe.logging import configure
configure("json")
log = structlog.get_logger()
began_s = time.monotonic()
for number in range(40_000):
    log.info("event", number=number, text="x" * 200)
print(number, flush=True)
sys.stdin.read()
log.info("the last one")
"""


def a_log_that_nobody_reads_keeps_nobody_waiting_and_tells_what_it_left_out():
    running = subprocess.Popen(
        [sys.executable, "-c", _MANY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdin is not None
    assert running.stdout is not None
    assert running.stderr is not None
    assert running.stdout.readline() == "39999\n"  # nobody has read a line of the log yet
    read = []
    while not read or "log lines were left out" not in read[-1]:
        read.append(running.stderr.readline())
    running.stdin.close()
    lines = [json.loads(line) for line in [*read, *running.stderr]]
    running.wait(20)
    told = [line["lines"] for line in lines if line["event"] == "log lines were left out"]
    assert told
    assert sum(told) + len([line for line in lines if "number" in line]) == 40_000
    assert any(line["event"] == "the last one" for line in lines)
    assert running.returncode == 0


def a_service_whose_log_has_no_reader_any_more_goes_on(tmp_path, serve, wait):
    serving = serve("--json", "--data", str(tmp_path / "data"), "--snapshot-interval", "1s", "--access-log")
    url = json.loads(serving.greeting)["url"]
    serving.process.stderr.close()  # each line from now on finds a broken pipe
    snapshots = tmp_path / "data" / "snapshots"
    command = Command(url)
    for number in range(20):
        assert command("add", f"s{number}", "* * * * * *", "--null").status == 0
    before = set(snapshots.glob("*"))
    wait(lambda: set(snapshots.glob("*")) - before)  # which is told in the log
    assert command("status").status == 0
    assert serving.process.poll() is None


def a_service_whose_log_is_on_a_full_disk_goes_on_and_stops_in_peace(tmp_path, wait):
    with open("/dev/full", "w") as full:
        running = subprocess.Popen(
            [*TOCSIN, "serve", "--json", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data")],
            stdout=subprocess.PIPE,
            stderr=full,
            env=environment(None),
            text=True,
        )
    try:
        assert running.stdout is not None
        command = Command(json.loads(running.stdout.readline())["url"])
        assert command("add", "one", "* * * * * *", "--null").status == 0
        wait(lambda: command("launches", "--json").json["items"])
        running.terminate()
        assert running.wait(timeout=30) == 0
    finally:
        running.kill()
        running.communicate()


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def a_service_without_standard_streams_starts_and_stops_in_peace(tmp_path, wait, closed):
    port = own_port()
    words = shlex.join([*TOCSIN, "serve", "--listen", f"127.0.0.1:{port}", "--data", str(tmp_path / "data")])
    running = subprocess.Popen(
        ["/bin/sh", "-c", f"exec {words} {closed}"], stderr=subprocess.DEVNULL, env=environment(None)
    )
    try:
        command = Command(f"http://127.0.0.1:{port}")
        wait(lambda: running.poll() is not None or command("status").status == 0)
        assert running.poll() is None
        assert command("add", "one", "* * * * * *", "--null").status == 0
        wait(lambda: command("launches", "--json").json["items"])
        running.terminate()
        assert running.wait(timeout=30) == 0
    finally:
        running.kill()
        running.wait()
