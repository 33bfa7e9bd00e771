"""A secret that cannot be read holds up the calls that need it, and nobody else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tocsin.model.target import HttpTarget
from tocsin.targets import secret_reader
from tocsin.targets.secret_reader import FILES_AT_ONCE, SecretReader
from tocsin.targets.secrets import SecretMissingError, SecretRules, Use, read_secret


class _Hung:
    """Files of the folder ``hung`` cannot be read until somebody lets go."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.gate = threading.Event()
        self.reads = 0
        monkeypatch.setattr(secret_reader, "read_secret", self._read)

    def _read(self, use: Use, rules: SecretRules) -> bytes:
        if "/hung/" in use.reference:
            self.reads += 1
            assert self.gate.wait(60)
        return read_secret(use, rules)

    def file(self, name: str) -> str:
        path = self.folder / "hung" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("hush\n")
        return f"file:{path}"


@pytest.fixture
def hung(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Hung:
    monkeypatch.setenv("HOOK", "hush")
    (tmp_path / "key").write_text("hush\n")
    return _Hung(tmp_path, monkeypatch)


def _spec(secret: str) -> HttpTarget:
    return HttpTarget(url="http://127.0.0.1/", secret=secret)


def _run(work: Callable[[SecretReader], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(30):
            await work(SecretReader(SecretRules()))

    asyncio.run(whole())


def a_file_that_cannot_be_read_holds_up_nobody_else(hung: _Hung, tmp_path: Path) -> None:
    async def work(reader: SecretReader) -> None:
        waiting = [asyncio.create_task(reader.read(_spec(hung.file("a")))) for _ in range(100)]
        await asyncio.sleep(0)
        for reference in ("env:HOOK", f"file:{tmp_path}/key"):
            assert (await reader.read(_spec(reference))).keys == [b"hush"]
        for call in waiting[1:]:  # those who give up take nobody with them
            call.cancel()
        assert not waiting[0].done()
        hung.gate.set()
        assert (await waiting[0]).keys == [b"hush"]
        assert hung.reads == 1, "one thread reads for all of them"
        assert (await reader.read(_spec(hung.file("a")))).keys == [b"hush"]
        assert hung.reads == 2, "a new value counts as soon as it is there"

    _run(work)


def a_herd_with_a_file_for_each_call_reads_all_of_them(tmp_path: Path) -> None:
    async def work(reader: SecretReader) -> None:
        paths = [tmp_path / str(number) for number in range(4 * FILES_AT_ONCE)]
        for path in paths:
            path.write_text(f"hush {path.name}\n")
        found = await asyncio.gather(*(reader.read(_spec(f"file:{path}")) for path in paths))
        assert [each.keys for each in found] == [[f"hush {path.name}".encode()] for path in paths]

    _run(work)


def files_that_hang_leave_their_turns_to_others(
    hung: _Hung, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secret_reader, "ANSWER_WITHIN_S", 0.05)

    async def work(reader: SecretReader) -> None:
        waiting = [
            asyncio.create_task(reader.read(_spec(hung.file(str(number))))) for number in range(FILES_AT_ONCE)
        ]
        await asyncio.sleep(0)
        assert (await reader.read(_spec(f"file:{tmp_path}/key"))).keys == [b"hush"]
        for call in waiting:
            with pytest.raises(SecretMissingError, match=r"did not answer within 0.05s") as missing:
                await call
            assert not missing.value.permanent
        with pytest.raises(SecretMissingError, match="the file does not answer"):
            await reader.read(_spec(hung.file("0")))
        assert hung.reads == FILES_AT_ONCE, "it is not tried again at once"
        hung.gate.set()

    _run(work)


def a_path_that_leads_to_a_healthy_file_again_is_read_while_the_old_one_still_hangs(
    hung: _Hung, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secret_reader, "ANSWER_WITHIN_S", 0.05)
    monkeypatch.setattr(secret_reader, "TRIED_AGAIN_S", (0.0,))

    async def work(reader: SecretReader) -> None:
        reference = hung.file("a")
        with pytest.raises(SecretMissingError):
            await reader.read(_spec(reference))
        monkeypatch.setattr(secret_reader, "read_secret", read_secret)
        assert (await reader.read(_spec(reference))).keys == [b"hush"]
        hung.gate.set()

    _run(work)


def files_that_hang_take_no_more_threads_than_there_are_for_them(
    hung: _Hung, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secret_reader, "ANSWER_WITHIN_S", 0.05)
    monkeypatch.setattr(secret_reader, "HANGING_MAX", 3)

    async def work(reader: SecretReader) -> None:
        for number in range(3):
            with pytest.raises(SecretMissingError):
                await reader.read(_spec(hung.file(str(number))))
        with pytest.raises(SecretMissingError, match="too many other files"):
            await reader.read(_spec(f"file:{tmp_path}/key"))
        assert (await reader.read(_spec("env:HOOK"))).keys == [b"hush"]
        hung.gate.set()
        async with asyncio.timeout(10):
            while True:
                try:
                    assert (await reader.read(_spec(f"file:{tmp_path}/key"))).keys == [b"hush"]
                    return
                except SecretMissingError:  # the threads are ending
                    await asyncio.sleep(0.01)

    _run(work)


def a_file_that_hangs_is_tried_a_few_times_and_read_again_when_it_answers(
    hung: _Hung, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secret_reader, "ANSWER_WITHIN_S", 0.05)
    monkeypatch.setattr(secret_reader, "TRIED_AGAIN_S", (0.0, 0.0))

    async def work(reader: SecretReader) -> None:
        reference = hung.file("a")
        for _ in range(6):
            with pytest.raises(SecretMissingError):
                await reader.read(_spec(reference))
        assert hung.reads == 3
        hung.gate.set()
        async with asyncio.timeout(10):
            while True:
                try:
                    assert (await reader.read(_spec(reference))).keys == [b"hush"]
                    return
                except SecretMissingError:
                    await asyncio.sleep(0.01)

    _run(work)


def a_file_that_is_away_for_a_moment_is_worth_another_try(tmp_path: Path) -> None:
    async def work(reader: SecretReader) -> None:
        with pytest.raises(SecretMissingError) as missing:
            await reader.read(_spec(f"file:{tmp_path}/away"))
        assert not missing.value.permanent
        (tmp_path / "away").write_text("hush\n")
        assert (await reader.read(_spec(f"file:{tmp_path}/away"))).keys == [b"hush"]

    _run(work)


def a_secret_that_may_not_be_used_is_not_worth_another_try(tmp_path: Path) -> None:
    async def work(_: SecretReader) -> None:
        reader = SecretReader(SecretRules(("env:OTHER",)))
        with pytest.raises(SecretMissingError) as refused:
            await reader.read(_spec("env:HOOK"))
        assert refused.value.permanent

    _run(work)
