"""The object store is killed in the middle of a copy."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.backup.conftest import Source, Weed

from tocsin.backup.store import Backups
from tocsin.clock import SystemClock
from tocsin.errors import BackupError, Refused, Stopping
from tocsin.observe.metrics import Metrics
from tocsin.replica import backuper
from tocsin.replica.backuper import Backuper
from tocsin.state.snapshot import Manifest

SIZE = 40_000_000  # random bytes do not shrink: it takes several parts
CLOCK = SystemClock()


@pytest.mark.parametrize("share", [0.5, 1.0], ids=["in the middle", "at the end of the data"])
def an_interrupted_copy_is_no_backup_and_can_be_made_again(
    mortal_weed: Weed, source: Source, share: float, tmp_path: Path
) -> None:
    mortal_weed.bucket("bucket")
    backups = Backups(mortal_weed.url("bucket/x"))
    made = source.snapshot(5, size=SIZE)
    killed = []

    def kill(done: int, of: int) -> None:
        if done >= of * share and not killed:
            killed.append(done)
            mortal_weed.kill()

    with pytest.raises(BackupError):
        backups.put(source.folder, made, kill)
    assert killed
    mortal_weed.start()
    assert list(backups.survey()) == []
    again = backups.put(source.folder, made)
    assert backups.newest_valid() == again
    assert backups.fetch_newest(tmp_path / "out").snapshot == made


def _backuper(url: str, source: Source, keep: int = 2) -> tuple[Backuper, Metrics]:
    metrics = Metrics()
    return Backuper(Backups(url, keep), source.folder, CLOCK, metrics), metrics


def _value(metrics: Metrics, name: str) -> float:
    found = metrics.registry.get_sample_value(name)
    assert found is not None
    return found


async def _until(is_so: object, within_s: float = 40) -> None:
    assert callable(is_so)
    async with asyncio.timeout(within_s):
        while not is_so():
            await CLOCK.wait(asyncio.Event(), 0.05)


def what_failed_is_tried_again_until_it_is_there(
    mortal_weed: Weed, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backuper, "FIRST_DELAY_S", 0.2)
    monkeypatch.setattr(backuper, "DELAY_MAX_S", 0.5)
    mortal_weed.bucket("bucket")

    async def whole() -> None:
        worker, metrics = _backuper(mortal_weed.url("bucket/x"), source)
        mortal_weed.kill()
        running = asyncio.create_task(worker.run())
        await _until(lambda: worker.problem)
        with pytest.raises(BackupError):
            await worker.copied(source.snapshot(1))
        assert "cannot be reached" in worker.problem
        assert _value(metrics, "tocsin_backup_failures_total") >= 1
        newest = source.snapshot(2)
        worker.offer(newest)
        await asyncio.to_thread(mortal_weed.start)
        await _until(lambda: worker.newest)
        assert worker.newest is not None
        assert worker.newest.snapshot == newest
        assert worker.problem == ""
        assert _value(metrics, "tocsin_backups_total") == 1
        worker.stop()
        await running

    asyncio.run(whole())


def the_newest_is_copied_and_old_ones_are_pruned(url: str, source: Source) -> None:
    async def whole() -> None:
        worker, metrics = _backuper(url, source)
        running = asyncio.create_task(worker.run())
        now_ms = CLOCK.wall_ms()
        for seq in range(1, 5):
            made = await worker.copied(source.snapshot(seq, time_ms=now_ms - 60_000))
            assert made.seq == seq
        again = await worker.copied(source.held(4))
        assert again == made
        assert _value(metrics, "tocsin_backups_total") == 4
        assert 60 <= _value(metrics, "tocsin_backup_age_seconds") < 120
        worker.stop()
        await running
        assert [each.seq for each in Backups(url).list()] in ([4, 3], [4, 3, 2])

    asyncio.run(whole())


def it_knows_what_is_there_from_the_start(url: str, source: Source) -> None:
    made = source.put(Backups(url), 8)

    async def whole() -> None:
        worker, _ = _backuper(url, source)
        running = asyncio.create_task(worker.run())
        await _until(lambda: worker.newest)
        assert worker.newest == made
        worker.stop()
        await running

    asyncio.run(whole())


def who_waits_is_told_when_it_stops_or_somebody_else_leads(source: Source, tmp_path: Path) -> None:
    async def whole() -> None:
        worker, _ = _backuper(str(tmp_path / "backups"), source)  # it does not run: nothing is copied
        for end, error in ((worker.withdraw, Refused), (worker.stop, Stopping)):
            waiting = asyncio.create_task(worker.copied(source.snapshot(1)))
            await asyncio.sleep(0)
            end()
            with pytest.raises(error):
                await waiting
        with pytest.raises(Stopping):
            await worker.copied(source.snapshot(2))

    asyncio.run(whole())


def a_place_that_hangs_does_not_keep_it_from_stopping(source: Source) -> None:
    async def whole(port: int) -> None:
        worker, _ = _backuper(f"s3://b/x?endpoint_url=http://127.0.0.1:{port}&key=k&secret=s", source)
        running = asyncio.create_task(worker.run())
        worker.offer(source.snapshot(1))
        await CLOCK.wait(asyncio.Event(), 0.2)
        worker.stop()
        async with asyncio.timeout(2):
            await running

    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        asyncio.run(whole(silent.getsockname()[1]))


def nothing_is_lost_by_a_snapshot_that_was_pruned_meanwhile(source: Source, tmp_path: Path) -> None:
    async def whole() -> None:
        worker, _ = _backuper(str(tmp_path / "backups"), source)
        running = asyncio.create_task(worker.run())
        gone = Manifest(seq=1, incarnation="a" * 32, time_ms=1, size=1, sha256="0" * 64)
        worker.offer(gone)
        await _until(lambda: worker.problem)
        assert (await worker.copied(source.snapshot(2))).seq == 2
        assert worker.problem == ""
        worker.stop()
        await running

    asyncio.run(whole())
