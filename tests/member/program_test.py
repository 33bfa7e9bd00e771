"""Which etcd is used, how it is called, and what is made of what it prints."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from pathlib import Path

import pytest
from tests.member.town import imposter, until

from tocsin.clock import SystemClock
from tocsin.errors import ClusterError
from tocsin.member import chatter
from tocsin.member.chatter import Chatter
from tocsin.member.process import Process, find
from tocsin.member.program import Program, find_program, listening_host
from tocsin.member.secret import Credentials
from tocsin.member.secret_file import Secrets
from tocsin.model.cluster import Member


def _saying(folder: Path, text: str) -> str:
    return imposter(folder, f"echo '{text}'")


def a_missing_etcd_says_how_to_get_it() -> None:
    with pytest.raises(ClusterError, match="no program 'no-such-etcd'") as refused:
        find_program("no-such-etcd")
    assert "apt-get install etcd-server" in refused.value.hint


@pytest.mark.parametrize("version", ["3.5.0", "3.5.1", "3.5.2"])
def versions_that_damage_data_are_refused(tmp_path: Path, version: str) -> None:
    with pytest.raises(ClusterError, match="can damage its data") as refused:
        find_program(_saying(tmp_path, f"etcd Version: {version}"))
    assert "3.5.3" in refused.value.hint


@pytest.mark.parametrize("version", ["3.3.27", "2.3.8"])
def old_versions_are_refused(tmp_path: Path, version: str) -> None:
    with pytest.raises(ClusterError, match="too old"):
        find_program(_saying(tmp_path, f"etcd Version: {version}"))


@pytest.mark.parametrize("version", ["3.4.0", "3.5.3", "3.6.1", "3.10.0"])
def all_others_are_fine(tmp_path: Path, version: str) -> None:
    found = find_program(_saying(tmp_path, f"etcd Version: {version}"))
    assert ".".join(map(str, found.version)) == version


def another_program_is_not_taken_for_etcd(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="is not etcd"):
        find_program(_saying(tmp_path, "hello"))


def options_are_given_only_where_they_are_known(tmp_path: Path) -> None:
    member = Member("a", peer="127.0.0.1:8410")
    credentials = Credentials(Secrets(b"s" * 32), member, tmp_path)
    new = Program("etcd", (3, 7, 0), "  --peer-skip-client-san-verification 'false'\n")
    command = new.command(member, credentials, tmp_path / "etcd")
    assert "--peer-skip-client-san-verification=true" in command
    assert not [option for option in command if option.startswith(("--experimental", "--logger"))]


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("127.0.0.1:8410", "127.0.0.1"),
        ("localhost:8410", "127.0.0.1"),
        ("203.0.113.9:8410", "0.0.0.0"),
        ("no-such-host.invalid:8410", "0.0.0.0"),
        ("[2001:db8::9]:8410", "::"),
    ],
)
def it_listens_where_this_machine_can(address: str, host: str) -> None:
    assert listening_host(Member("a", peer=address)) == host


def the_gravest_of_the_last_words_counts(tmp_path: Path) -> None:
    said = Chatter(tmp_path / "etcd.log")
    with said.open() as file:
        file.write(b'{"level":"fatal","msg":"failed to purge","error":"no space left on device"}\n')
        file.write(b'{"level":"info","msg":"closing"}\n')
    assert said.last_words() == "failed to purge: no space left on device"
    with said.open() as file:
        file.write(b"error verifying flags\n")
    assert said.last_words() == "error verifying flags"
    assert not said.has_said("failed to purge")


def a_log_does_not_grow_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chatter, "_BYTES_MAX", 1000)
    said = Chatter(tmp_path / "etcd.log")
    with said.open() as file:
        for _ in range(100):
            file.write(b"x" * 99 + b"\n")
            file.flush()
            said.rotate()
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert len(sizes) == 2
    assert max(sizes) <= 1100


def nobody_else_can_read_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chatter, "_BYTES_MAX", 10)
    (tmp_path / "etcd.log").write_text("from before anybody minded")
    (tmp_path / "etcd.log").chmod(0o644)
    Chatter(tmp_path / "etcd.log").open().close()
    assert {path.name for path in tmp_path.iterdir()} == {"etcd.log", "etcd.log.1"}
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def a_flood_of_words_is_cut_within_seconds_and_only_its_end_is_kept(tmp_path: Path) -> None:
    """Whoever can open a connection can make etcd write a line."""

    async def unasked() -> list[str]:
        return []

    async def never() -> bool:
        return False

    async def story() -> None:
        flood = imposter(tmp_path, "head -c 30000000 /dev/zero; exec sleep 600")
        process = Process(
            [flood],
            tmp_path / "member" / "etcd",
            SystemClock(),
            once=unasked,
            removed=never,
            went_back=lambda: None,
        )
        before = tmp_path / "member" / "etcd.log.1"

        async def is_cut() -> bool:
            return before.exists() and before.with_name("etcd.log").stat().st_size < chatter._BYTES_MAX

        await process.start(never)
        try:
            await asyncio.wait_for(until(is_cut, "the log to be cut"), 15)
        finally:
            await process.stop()
        assert before.stat().st_size <= chatter._BYTES_MAX

    asyncio.run(story())


def _find_soon(data: Path) -> tuple[int, list[str]] | None:
    """A process that was just started has no arguments for a moment."""
    until_s = time.monotonic() + 10
    while (found := find(data)) is None and time.monotonic() < until_s:
        time.sleep(0.01)
    return found


def the_process_of_another_user_is_not_taken_for_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "etcd"
    with subprocess.Popen(
        ["tail", "-f", "/dev/null", "--", f"--data-dir={data}"], stderr=subprocess.DEVNULL
    ) as one:
        try:
            found = _find_soon(data)
            assert found is not None
            assert found[0] == one.pid
            monkeypatch.setattr(os, "geteuid", lambda: 1 + os.getuid())
            assert find(data) is None
        finally:
            one.kill()
