"""The file of the cluster's secret: one secret per line, and how it is changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.errors import InvalidInput, Refused
from tocsin.member.secret_file import (
    CHARACTERS_MIN,
    SECRETS_MAX,
    Secrets,
    new_secret,
    read_secrets,
    write_secrets,
)

ONE, TWO, THREE, FOUR, FIVE = (f"{n} is the secret of a cluster, long enough" for n in range(1, 6))


def _kept(path: Path, content: str | bytes, mode: int = 0o600) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(mode)
    return path


def _refused(path: Path, content: str | bytes) -> InvalidInput:
    with pytest.raises(InvalidInput) as refused:
        read_secrets(_kept(path, content))
    assert (refused.value.field, refused.value.value) == ("cluster_secret", str(path))
    assert refused.value.allowed
    assert refused.value.hint
    return refused.value


def a_new_secret_is_fit_and_like_no_other(tmp_path: Path) -> None:
    secret = new_secret()
    assert secret != new_secret()
    assert read_secrets(_kept(tmp_path / "secret", f"{secret}\n")) == Secrets(secret.encode())


def a_missing_secret_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read: no such file") as refused:
        read_secrets(tmp_path / "secret")
    assert "tocsin cluster secret" in refused.value.hint


@pytest.mark.parametrize("mode", [0o604, 0o666])
def a_secret_that_everybody_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(InvalidInput, match="every user") as refused:
        read_secrets(_kept(tmp_path / "secret", new_secret(), mode))
    assert "chmod" in refused.value.hint


def a_group_may_share_a_secret(tmp_path: Path) -> None:
    assert read_secrets(_kept(tmp_path / "secret", new_secret(), 0o640))


@pytest.mark.parametrize("content", [f"{ONE}\n{TWO}", f"\n  {ONE}\r\n\n\t\n{TWO}\t\r\n\n"])
def the_first_line_is_in_use_the_others_are_trusted_and_blank_ones_are_ignored(
    tmp_path: Path, content: str
) -> None:
    assert read_secrets(_kept(tmp_path / "secret", content)) == Secrets(ONE.encode(), (TWO.encode(),))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("hunter\n", "line 1: a secret of 6 characters can be guessed"),
        (f"{ONE}\n\nhunter\n", "line 3: a secret of 6 characters can be guessed"),
        ("x" * (CHARACTERS_MIN - 1), "of 31 characters can be guessed"),
        (f"{ONE}\n{TWO}\n{ONE}\n", "line 3 is the same secret as line 1"),
        (f"{ONE}\n {ONE}", "line 2 is the same secret as line 1"),
        ("\n".join((ONE, TWO, THREE, FOUR, FIVE)), "holds 5 secrets"),
        (f"{ONE}\0", "line 1 holds characters that cannot be printed"),
        (f"{ONE}\t{TWO}", "line 1 holds characters that cannot be printed"),
        (f"\ufeff{ONE}", "line 1 holds characters that cannot be printed"),
        (b"\xff\xfe" + ONE.encode(), "is not text"),
        ("", "holds no secret"),
        (" \n\r\n\t\n", "holds no secret"),
        (f"{ONE}\n" * 2_000, "longer than 65536 bytes"),
    ],
)
def a_file_that_does_not_hold_secrets_is_refused_by_its_line(
    tmp_path: Path, content: str | bytes, told: str
) -> None:
    refused = _refused(tmp_path / "secret", content)
    assert told in refused.message
    assert "hunter" not in str(refused)
    assert "secret of a cluster" not in str(refused)


@given(st.binary(max_size=200))
def whatever_is_in_the_file_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.secret"
    try:
        found = read_secrets(_kept(path, content))
    except InvalidInput:
        return
    assert all(len(each.decode()) >= CHARACTERS_MIN for each in (found.in_use, *found.others))


def what_any_trusted_secret_has_signed_is_known_and_the_first_one_signs() -> None:
    old, new = Secrets(ONE.encode()), Secrets(TWO.encode())
    both = Secrets(TWO.encode(), (ONE.encode(),))
    assert both.digest("text") == new.digest("text")
    assert both.other_digests("text") == [old.digest("text")]
    assert old.other_digests("text") == []


def three_rounds_lead_from_one_secret_to_the_next() -> None:
    first = Secrets(ONE.encode())
    added = first.with_new()
    (new,) = added.others
    assert added.in_use == first.in_use
    promoted = added.promoted()
    assert promoted == Secrets(new, (ONE.encode(),))
    assert promoted.without_others() == Secrets(new)


def a_round_that_makes_no_sense_is_refused() -> None:
    alone = Secrets(ONE.encode())
    with pytest.raises(Refused, match="only one secret"):
        alone.promoted()
    with pytest.raises(Refused, match="only one secret"):
        alone.without_others()
    full = Secrets(ONE.encode(), (TWO.encode(), THREE.encode(), FOUR.encode()))
    with pytest.raises(Refused, match=f"{SECRETS_MAX} secrets already"):
        full.with_new()


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o400])
def a_changed_file_keeps_its_mode_its_owner_and_the_link_to_it(tmp_path: Path, mode: int) -> None:
    path = _kept(tmp_path / "real", ONE, mode)
    if os.geteuid() == 0:
        os.chown(path, 12345, 54321)
    before = path.stat()
    link = tmp_path / "link"
    link.symlink_to(path)
    both = Secrets(TWO.encode(), (ONE.encode(),))
    write_secrets(link, both)
    after = path.stat()
    assert read_secrets(link) == both
    assert link.is_symlink()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", "real"]


def a_file_that_cannot_be_written_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _kept(tmp_path / "secret", ONE)

    def fails(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr("tocsin.member.secret_file.os.fchown", fails)
    with pytest.raises(InvalidInput, match="cannot be written: operation not permitted"):
        write_secrets(path, Secrets(TWO.encode()))
    assert read_secrets(path) == Secrets(ONE.encode())
    assert [each.name for each in tmp_path.iterdir()] == ["secret"]
