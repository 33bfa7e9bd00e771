"""Data directories are lost: of one replica, of two, of all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster import checker
from tests.cluster.checker import Evidence
from tests.cluster.client import schedules_of
from tests.cluster.places import on_loopback
from tests.cluster.trial import Trial, close, trial_of
from tests.cluster.waiting import until


def a_leader_that_lost_its_disk_is_replaced_and_comes_back_as_itself(trial: Trial) -> None:
    """In the place of the member that it was, while launches go on."""
    trial.begin().wipe()
    trial.load.go_on()
    trial.spotless()
    assert len(trial.cluster.until_leader().call("GET", "/v1/cluster")["replicas"]) == 3


def the_survivor_of_three_goes_on_when_it_is_told_to_recover(trial: Trial) -> None:
    """Not by itself: whoever has lost sight of two others cannot know that their disks are lost."""
    survivor = trial.begin()
    lost = trial.cluster.followers()
    for replica in lost:
        replica.wipe()
    for replica in lost:
        replica.start()
    until(lambda: "--recover" in "".join(replica.log() for replica in lost), "advice in the log", 30)
    survivor.crash()
    survivor.start("--recover")
    trial.spotless(lost_record=True)
    # Those who waited came in only then: else one of them might have led and known of no loss.
    told = [
        replica.name
        for replica in (survivor, *lost)
        if "the record since that moment is lost" in replica.log()
    ]
    assert told == [survivor.name]


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Trial]:
    """A cluster of its own that is backed up."""
    one = trial_of(tmp_path, on_loopback("abc"), None, "--backup", str(tmp_path / "backup"))
    try:
        one.cluster.start()
        one.load.start()
        yield one
    finally:
        close(one)


def when_every_disk_is_lost_the_newest_backup_is_restored(kept: Trial, tmp_path: Path) -> None:
    """What came after it is gone, but nothing of it is launched a second time under ``skip``."""
    kept.begin()
    acknowledged = set(kept.load.writer.acknowledged)
    so_far = _backups(tmp_path)
    until(lambda: len(_backups(tmp_path) - so_far) >= 2, "two backups more", 60)
    kept.load.go_on(30)
    for replica in kept.cluster:
        replica.wipe()
    kept.cluster.start()
    kept.load.go_on(60)
    for replica in kept.cluster:
        assert acknowledged <= schedules_of(replica, "acknowledged/")
    evidence = Evidence(kept.load.schedules, kept.load.calls, {}, 0, 1 << 40, lambda *_: "")
    assert checker.doubles(evidence) == []


def _backups(folder: Path) -> set[Path]:
    """One manifest each, which is written last. The first new one may be of a snapshot that was made before."""
    return set((folder / "backup").rglob("state-*.json"))
