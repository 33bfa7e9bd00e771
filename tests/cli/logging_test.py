"""Nothing that a caller sends can forge a line of the log or speak to the terminal."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

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
