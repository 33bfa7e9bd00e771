"""Which terms a disk may take for its own: never one whose calls another disk may have made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tocsin.errors import JournalFull
from tocsin.model.entry import Position
from tocsin.replica.terms import BegunTerm, OwnTerms


def _id(seq: int, author: str = "a") -> bytes:
    return f"{author}{seq:015}".encode()


def _begun(*elections: tuple[int, int, str]) -> list[BegunTerm]:
    """Terms: number, the entry that began it, and whose it was."""
    return [BegunTerm(term, Position(seq, _id(seq, author)), _id(seq - 1)) for term, seq, author in elections]


def _disk(folder: Path) -> OwnTerms:
    """As a process finds it at its start."""
    own = OwnTerms(folder / "terms", folder / "offered")
    own.load()
    return own


def _led(folder: Path, term: int, first: int, last: int) -> None:
    """A process on that disk led a term, with these entries."""
    own = _disk(folder)
    own.claim(term, _id(first))
    for seq in range(first, last + 1):
        own.offer(Position(seq, _id(seq)))
    own.won(term)
    assert term in own


def _own(folder: Path, begun: Sequence[BegunTerm], end: int) -> list[int]:
    own = _disk(folder)
    assert [term for term in range(20) if term in own] == []
    own.settle(begun, Position(end, _id(end)))
    return [term for term in range(20) if term in own]


def a_disk_remembers_the_terms_in_which_it_led(tmp_path: Path) -> None:
    _led(tmp_path, 7, 3, 8)
    _led(tmp_path, 9, 12, 14)
    with (tmp_path / "terms").open("a") as file:
        file.write("\n1")  # the power went while 12 was written, before its entry was offered
    begun = _begun((7, 3, "a"), (8, 9, "b"), (9, 12, "a"))
    assert _own(tmp_path, begun, 14) == [7, 9]


def a_lost_election_leaves_no_claim(tmp_path: Path) -> None:
    """Whoever won it may have the same name. The loser may be killed in the middle of it."""
    own = _disk(tmp_path)
    own.claim(3, _id(5))
    own.offer(Position(5, _id(5)))
    assert 3 not in own
    begun = _begun((2, 1, "b"), (3, 5, "b"))
    own.settle(begun, Position(5, _id(5, "b")))
    assert 3 not in own
    assert _own(tmp_path, begun, 8) == []


def an_election_that_is_not_decided_yet_is_no_claim_and_may_become_one(tmp_path: Path) -> None:
    own = _disk(tmp_path)
    own.claim(3, _id(5))
    own.offer(Position(5, _id(5)))
    own = _disk(tmp_path)
    own.settle(_begun((2, 1, "b")), Position(4, _id(4)))
    assert 3 not in own
    own.settle(_begun((2, 1, "b"), (3, 5, "a")), Position(5, _id(5)))
    assert 3 in own


def a_term_that_the_journal_lost_is_nobodys(tmp_path: Path) -> None:
    _led(tmp_path, 3, 5, 8)
    assert _own(tmp_path, _begun((2, 1, "b"), (9, 5, "b")), 6) == []


@pytest.mark.parametrize("end", [9, 8])
def a_process_that_was_killed_before_or_after_its_append_landed_is_a_witness(
    tmp_path: Path, end: int
) -> None:
    _led(tmp_path, 3, 5, 9)
    assert _own(tmp_path, _begun((3, 5, "a")), end) == [3]


def a_copy_from_the_middle_of_a_term_is_no_witness_of_it(tmp_path: Path) -> None:
    """Neither now nor after it has led again."""
    _led(tmp_path, 2, 1, 3)
    _led(tmp_path, 3, 5, 9)
    begun = _begun((2, 1, "a"), (3, 5, "a"))
    assert _own(tmp_path, begun, 10) == [2]
    _led(tmp_path, 4, 11, 12)
    assert _own(tmp_path, [*begun, *_begun((4, 11, "a"))], 12) == [2, 4]


def a_copy_that_has_tried_to_write_the_same_entry_is_no_witness(tmp_path: Path) -> None:
    """The journal was away: the entry was offered, then others in its place, and one of those landed."""
    _led(tmp_path, 3, 5, 8)
    _disk(tmp_path).offer(Position(9, b"another offer!!!"))
    assert _own(tmp_path, _begun((3, 5, "a")), 9) == []


def a_clone_that_runs_beside_its_original_sees_that_it_is_one(tmp_path: Path) -> None:
    """It was up to date when it started; the original went on."""
    _led(tmp_path, 3, 5, 9)
    clone = _disk(tmp_path)
    begun = _begun((3, 5, "a"))
    clone.settle(begun, Position(9, _id(9)))
    assert 3 in clone
    clone.settle(begun, Position(10, _id(10)))  # before it stands for the next term
    assert 3 not in clone
    clone.claim(4, _id(11))
    clone.offer(Position(11, _id(11)))
    assert _own(tmp_path, [*begun, *_begun((4, 11, "a"))], 11) == [4]


def a_term_cannot_begin_where_it_cannot_be_written_down(tmp_path: Path) -> None:
    with pytest.raises(JournalFull):
        OwnTerms(tmp_path / "no-such-folder" / "terms", tmp_path / "offered").claim(1, _id(1))


def that_the_journal_has_lost_its_end_is_known_until_the_journal_has_heard_of_it(tmp_path: Path) -> None:
    """It was put back from a copy, and the first start is killed before its first entry is written."""
    _led(tmp_path, 7, 3, 39)
    for _ in range(2):
        own = _disk(tmp_path)
        assert own.has_offered_behind(20)
        assert not own.has_offered_behind(38), "the last one may not have landed"
        own.offer(Position(21, _id(21)))
    own.in_office()
    assert not own.has_offered_behind(21)
    own.offer(Position(22, _id(22)))
    assert not _disk(tmp_path).has_offered_behind(22)
