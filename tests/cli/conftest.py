"""A real service, and the real command in a process of its own."""

from __future__ import annotations

import functools
import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.main import get_command
from typer.testing import CliRunner

TOCSIN = [sys.executable, "-m", "tocsin"]


class Done(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def environment(url: str | None, token: str = "") -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("TOCSIN_")}
    given = {"TOCSIN_URL": url, "TOCSIN_TOKEN": token}
    return {**kept, "TZ": "America/New_York", **{key: value for key, value in given.items() if value}}


@functools.cache
def _program() -> Any:
    """Built from its functions once: that takes longer than most of what is asked of it."""
    from tocsin.cli.main import app

    return get_command(app)


class Command:
    """``tocsin ...`` against one service: in this process, which saves its start, or in one of its own."""

    def __init__(self, url: str | None, token: str = "") -> None:
        self.url = url
        self.token = token

    def __call__(self, *words: str, stdin: str | None = None) -> Done:
        kept = environment(self.url, self.token)
        outer = {key: None for key in os.environ if key not in kept}
        with CliRunner().isolation(stdin, {**kept, **outer}) as (out, err, _):
            with pytest.raises(SystemExit) as ended:
                _program().main(args=words, prog_name="tocsin")
            sys.stdout.flush()
            sys.stderr.flush()
            return Done(ended.value.code or 0, out.getvalue().decode(), err.getvalue().decode())

    def process(self, *words: str) -> Done:
        done = subprocess.run(
            [*TOCSIN, *words],
            capture_output=True,
            env=environment(self.url, self.token),
            timeout=30,
            check=False,
            text=True,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    def terminal(self, *words: str, columns: int = 80) -> Done:
        """Before the eyes of a person: stdout is a terminal of so many columns. Colours are taken out."""
        ours, theirs = pty.openpty()
        running = subprocess.Popen(
            [*TOCSIN, *words],
            stdout=theirs,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            env={**environment(self.url, self.token), "COLUMNS": str(columns), "TERM": "xterm"},
            text=True,
        )
        os.close(theirs)
        shown = _all_of(ours)
        _, err = running.communicate(timeout=30)
        return Done(running.returncode, re.sub(r"\x1b\[[0-9;]*m", "", shown).replace("\r\n", "\n"), err)


def _all_of(terminal: int) -> str:
    parts = []
    with open(terminal, "rb", buffering=0) as reader:
        try:
            while part := reader.read(65536):
                parts.append(part)
        except OSError:
            pass  # how Linux says that nobody writes to the terminal any more
    return b"".join(parts).decode()


class Serving:
    """``tocsin serve`` that was started and greeted."""

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen(
            [*TOCSIN, "serve", "--listen", "127.0.0.1:0", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(None),
            text=True,
        )
        self.greeting = self._greeting()

    def _greeting(self) -> str:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], 20)
        assert ready, "no greeting in time"
        return os.read(self.process.stdout.fileno(), 65536).decode()

    def stop(self) -> tuple[int, str]:
        self.process.terminate()
        try:
            _, err = self.process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            _, err = self.process.communicate()
            raise AssertionError(f"the service did not stop: {err[-3000:]}") from None
        return self.process.returncode, err


@pytest.fixture(autouse=True)
def _viewer_in_new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(scope="module")
def tocsin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Command]:
    serving = Serving("--json", "--data", str(tmp_path_factory.mktemp("node") / "data"))
    yield Command(json.loads(serving.greeting)["url"])
    status, err = serving.stop()
    assert status == 0, err


@pytest.fixture
def alone() -> Command:
    """The command where no service is running."""
    return Command("http://127.0.0.1:1")


@pytest.fixture
def serve() -> Iterator[Callable[..., Serving]]:
    started: list[Serving] = []

    def one(*words: str) -> Serving:
        started.append(Serving(*words))
        return started[-1]

    yield one
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
            each.process.communicate()


@pytest.fixture
def wait() -> Callable[..., Any]:
    def eventually(look: Callable[[], Any], *, within_s: float = 15) -> Any:
        deadline = time.monotonic() + within_s
        while not (found := look()):
            assert time.monotonic() < deadline, "it did not happen in time"
        return found

    return eventually


@pytest.fixture
def folder(tmp_path: Path) -> Callable[[dict[str, str]], Path]:
    """A directory with these files."""

    def filled(files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return filled
