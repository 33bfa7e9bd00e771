"""Whose a backup is: whoever can write to the place is not believed for that."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.backup.conftest import Source, damage

from tocsin.backup import manifest
from tocsin.backup.manifest import BackupManifest, Owner, manifest_name
from tocsin.backup.store import OTHERS_KEPT_MS, Backups
from tocsin.errors import NotFound

A, B = "a" * 32, "b" * 32
_YEAR_MS = 365 * 86_400_000


def _owner(secret: str) -> Owner:
    def sign(text: str) -> str:
        return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()

    return Owner(sign, lambda: ["a=10.0.0.1:8410", "b=10.0.0.2:8410"])


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def ours(url: str, told: list[str]) -> Backups:
    return Backups(url, keep=2, owner=_owner("ours"), tell=told.append)


@pytest.fixture
def theirs(url: str) -> Backups:
    return Backups(url, keep=2, owner=_owner("theirs"))


@pytest.fixture
def nobodys(url: str) -> Backups:
    return Backups(url, keep=2)


def what_a_cluster_wrote_it_restores(ours: Backups, source: Source, tmp_path: Path, told: list[str]) -> None:
    made = source.put(ours, 1)
    assert made.members == ("a=10.0.0.1:8410", "b=10.0.0.2:8410")
    assert ours.fetch_newest(tmp_path / "out") == made
    assert told == []


def what_others_wrote_is_passed_over_and_told(
    ours: Backups, theirs: Backups, nobodys: Backups, source: Source, tmp_path: Path, told: list[str]
) -> None:
    made = source.put(ours, 1)
    for seq, writer in ((2, theirs), (3, nobodys)):
        source.put(writer, seq, incarnation=B)
    assert ours.fetch_newest(tmp_path / "out") == made
    assert "not written" in told[0]
    assert "3, 2" in told[0]
    with pytest.raises(NotFound):
        ours.fetch_newest(tmp_path / "out", seq=3)


def _forged(change: Callable[[BackupManifest], BackupManifest]) -> Callable[[bytes], bytes]:
    return lambda raw: manifest.encode(change(msgspec.json.decode(raw, type=BackupManifest)))


@pytest.mark.parametrize(
    "field",
    ["time_ms", "size", "sha256", "digest", "file", "stored_size", "stored_sha256", "members", "version"],
)
def nothing_that_a_manifest_says_can_be_changed(ours: Backups, source: Source, field: str) -> None:
    good, bad = source.put(ours, 1), source.put(ours, 2)

    def change(found: BackupManifest) -> BackupManifest:
        is_outer = field in BackupManifest.__struct_fields__
        value = getattr(found if is_outer else found.snapshot, field)
        other = value + 1 if isinstance(value, int) else value[:-1] if value else "other"
        if field == "file":
            other = manifest.new_data_name(2)
        if is_outer:
            return msgspec.structs.replace(found, **{field: other})
        return msgspec.structs.replace(
            found, snapshot=msgspec.structs.replace(found.snapshot, **{field: other})
        )

    damage(ours, f"{A}/{manifest_name(2)}", _forged(change))
    [forged] = [each.manifest for each in ours.survey() if each.manifest.seq == 2]
    assert forged != bad
    assert not ours.is_own(forged)
    assert list(ours.own()) == [good]


def a_manifest_counts_for_its_own_journal_and_number_only(ours: Backups, source: Source) -> None:
    made = source.put(ours, 1)
    for snapshot in (
        msgspec.structs.replace(made.snapshot, seq=2),
        msgspec.structs.replace(made.snapshot, incarnation=B),
    ):
        assert not ours.is_own(msgspec.structs.replace(made, snapshot=snapshot))


def an_authenticator_of_strange_letters_is_merely_wrong(ours: Backups, source: Source) -> None:
    made = source.put(ours, 1)
    assert not ours.is_own(msgspec.structs.replace(made, authenticator="ü" * 64))


def what_somebody_planted_takes_the_place_of_no_backup(
    ours: Backups, theirs: Backups, source: Source
) -> None:
    planted = source.put(theirs, 1)
    made = source.put(ours, 1)
    assert made != planted
    assert list(ours.own()) == [made]


def backups_of_others_are_never_removed(
    ours: Backups, theirs: Backups, nobodys: Backups, source: Source
) -> None:
    for seq in (1, 2, 3):
        source.put(theirs, seq, incarnation=B)
        source.put(nobodys, seq, incarnation="c" * 32)
        source.put(theirs, 10 + seq)  # in the folder of our own journal, under a former secret
    for seq in (21, 22, 23):
        source.put(ours, seq, time_ms=_YEAR_MS + seq)
    assert ours.prune(A) == 1
    left = [(each.incarnation, each.seq) for each in nobodys.list()]
    assert sorted(left) == [
        *((A, seq) for seq in (11, 12, 13, 22, 23)),
        *((B, seq) for seq in (1, 2, 3)),
        *(("c" * 32, seq) for seq in (1, 2, 3)),
    ]


def a_backup_of_others_from_the_future_makes_nothing_old(
    ours: Backups, theirs: Backups, source: Source
) -> None:
    made = source.put(ours, 1)
    source.put(theirs, 2, incarnation=B, time_ms=_YEAR_MS)
    assert ours.prune(A) == 0
    assert list(ours.own()) == [made]


def a_former_journal_of_a_time_that_has_not_come_pushes_nothing_out(ours: Backups, source: Source) -> None:
    source.put(ours, 900, time_ms=_YEAR_MS)
    made = source.put(ours, 1, incarnation=B)
    assert ours.prune(B) == 0
    assert made in ours.list()


def a_journal_that_the_cluster_had_long_ago_is_forgotten(ours: Backups, source: Source) -> None:
    source.put(ours, 900, time_ms=1_000)
    newest = source.put(ours, 1, incarnation=B, time_ms=1_000 + OTHERS_KEPT_MS + 1)
    assert ours.prune(B, 5) == 1
    assert ours.list() == [newest]


def _changing(first: str, *others: str) -> Owner:
    """While the secret of a cluster is being changed."""
    trusted = [_owner(each).sign for each in others]
    return _owner(first)._replace(other_signatures=lambda text: [sign(text) for sign in trusted])


def while_the_secret_is_changed_backups_of_both_secrets_are_restored(
    url: str, ours: Backups, theirs: Backups, source: Source, tmp_path: Path, told: list[str]
) -> None:
    source.put(ours, 1)
    newer = source.put(Backups(url, owner=_changing("new", "ours")), 2)
    for owner in (_changing("new", "ours"), _changing("ours", "new")):
        both = Backups(url, owner=owner, tell=told.append)
        assert [each.seq for each in both.own()] == [2, 1]
        assert both.fetch_newest(tmp_path / "out") == newer
    assert told == []
    assert [each.seq for each in Backups(url, owner=_owner("new")).own()] == [2], (
        "the old secret is trusted no more"
    )
    assert theirs.own() == []
