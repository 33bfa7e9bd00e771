"""A real service on a data directory in which something has changed: it says what, and goes on or does not start."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tocsin.state import snapshot

Start = Callable[..., Any]


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Filled by a service that was then stopped."""
    from tests.api.conftest import Service

    data = tmp_path_factory.mktemp("left") / "data"
    running = Service(data, "--snapshot-interval", "1s")
    for number in range(2):
        before = running.ask("GET", "/v1/status").json["snapshot_sequence"]
        for each in range(15):
            running.create(f"group{number}/s{each}", description="y" * 200)
        _wait(lambda before=before: running.ask("GET", "/v1/status").json["snapshot_sequence"] != before)
    assert running.stop() == 0
    assert (data / "state.db.seal").exists()
    return data


def _wait(look: Callable[[], bool]) -> None:
    from tests.api.conftest import eventually

    eventually(look, within_s=20)


def _copy(left: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(left, tmp_path / "data"))


def _flip(path: Path, at: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[at] ^= 0x10
    path.write_bytes(raw)


def _at(path: Path, text: bytes) -> int:
    found = path.read_bytes().find(text)
    assert found > 0
    return found


def _goes_on(start: Start, data: Path) -> str:
    service = start(data)
    items = service.ask("GET", "/v1/schedules?limit=1000").json["items"]
    assert len(items) == 30
    assert {each["description"] for each in items} == {"y" * 200}
    service.create("one/more")
    assert service.stop() == 0
    return service.log.read_text()


def a_changed_state_file_is_named_and_rebuilt(left: Path, start: Start, tmp_path: Path) -> None:
    """A letter in a description: nothing but a checksum can find that."""
    data = _copy(left, tmp_path)
    _flip(data / "state.db", _at(data / "state.db", b"y" * 200) + 77)
    log = _goes_on(start, data)
    assert f"the state file {data / 'state.db'} is damaged: it was closed with the checksum" in log
    assert "state restored from a snapshot" in log


def after_a_kill_a_state_file_of_the_wrong_shape_is_named_and_rebuilt(
    left: Path, start: Start, tmp_path: Path
) -> None:
    data = _copy(left, tmp_path)
    service = start(data)
    service.stop(signal.SIGKILL)
    assert not (data / "state.db.seal").exists()
    raw = bytearray((data / "state.db").read_bytes())
    raw[-4096:] = b"\xff" * 4096
    (data / "state.db").write_bytes(raw)
    for suffix in ("-wal", "-shm"):
        (data / f"state.db{suffix}").unlink(missing_ok=True)
    log = _goes_on(start, data)
    assert f"the state file {data / 'state.db'} is damaged" in log


def a_changed_snapshot_is_named_and_passed_over(left: Path, start: Start, tmp_path: Path) -> None:
    data = _copy(left, tmp_path)
    for path in data.glob("state.db*"):
        path.unlink()
    newest = snapshot.data_of(data / "snapshots", snapshot.manifests(data / "snapshots")[0].seq)
    _flip(newest, _at(newest, b"y" * 200) + 77)
    log = _goes_on(start, data)
    assert f"{newest} is not what its manifest says: its checksum is" in log


def a_changed_entry_that_is_needed_is_named_and_nothing_is_started(left: Path, tmp_path: Path) -> None:
    data = _copy(left, tmp_path)
    for path in data.glob("state.db*"):
        path.unlink()
    raw = (data / "journal.db").read_bytes()
    _flip(data / "journal.db", raw.rfind(b"Resigned") + 3)
    command = [sys.executable, "-m", "tocsin", "serve", "--data", str(data), "--listen", "127.0.0.1:0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode != 0
    told = done.stdout + done.stderr
    assert "is damaged: its checksum does not match" in told
    assert "journal entry " in told
    assert "Traceback" not in told


def _small(data: Path) -> list[Path]:
    """What lies beside the databases: locks, marks, notes. Their content is of use, and no start depends on it."""
    found = [path for path in data.rglob("*") if path.is_file() and ".db" not in path.suffixes]
    found += [path for path in data.glob("*.db.*") if path.is_file()]
    return sorted(set(found))


_DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "zeros": lambda raw: b"\0" * len(raw),
    "garbage": lambda raw: b"\xff\xfe\n/\x80" * (len(raw) // 5 + 5),
    "half": lambda raw: raw[: len(raw) // 2],
}


@pytest.mark.parametrize("how", _DAMAGES)
def whatever_lies_beside_the_databases_may_be_damaged(
    left: Path, start: Start, tmp_path: Path, how: str
) -> None:
    """As a power cut leaves files that were written shortly before it."""
    data = _copy(left, tmp_path)
    paths = _small(data)
    assert {"journal.db.original", "state.db.seal", "clock.json", "terms", "offered", ".epoch"} <= {
        path.name for path in paths
    }
    for path in paths:
        path.write_bytes(_DAMAGES[how](path.read_bytes()))
    assert "Traceback" not in _goes_on(start, data)


def each_of_those_files_may_be_damaged_alone(left: Path, start: Start, tmp_path: Path) -> None:
    for number, path in enumerate(_small(left)):
        data = _copy(left, tmp_path / str(number))
        damaged = data / path.relative_to(left)
        damaged.write_bytes(_DAMAGES["zeros"](damaged.read_bytes()))
        assert "Traceback" not in _goes_on(start, data), path
