"""Output that is read piece by piece adds up to what was printed, whatever falls away in between."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tocsin.api.resources.output import beyond
from tocsin.targets.contract import Output

KEPT = 16
_TEXTS = st.lists(st.text(alphabet="ab\n\u00e9\u20ac\U0001f600", max_size=12), max_size=20)


def _kept(printed: bytes, complete: bool) -> Output:
    """As a target keeps it: so many bytes of the beginning and as many of the end."""
    head, rest = printed[:KEPT], printed[KEPT:]
    tail = rest[-KEPT:]
    return Output(head, tail, len(rest) - len(tail), complete)


@given(_TEXTS, st.lists(st.integers(min_value=1, max_value=40), min_size=1, max_size=20))
def pieces_and_gaps_add_up_to_the_whole(texts: list[str], steps: list[int]) -> None:
    whole = "".join(texts).encode()
    reached, position, rebuilt = 0, 0, b""
    for step in [*steps, len(whole)]:
        reached = min(len(whole), reached + step)
        is_over = reached == len(whole)
        found, position = beyond(_kept(whole[:reached], is_over), position)
        for part in (found.head, whole[len(rebuilt) + len(found.head) :][: found.dropped], found.tail):
            assert whole[len(rebuilt) :].startswith(part)
            rebuilt += part
        assert len(rebuilt) == position
        if not is_over:
            assert not (found.tail or found.head).decode(errors="replace").endswith("\ufffd")
        if is_over:
            break
    assert rebuilt == whole


@given(st.binary(max_size=60), st.integers(min_value=0, max_value=80))
def any_bytes_and_any_place_can_be_asked_for(printed: bytes, after: int) -> None:
    for is_over in (False, True):
        _, position = beyond(_kept(printed, is_over), after)
        assert position >= after
        again, same = beyond(_kept(printed, is_over), position)
        assert (again.head, again.tail, same) == (b"", b"", position) or not is_over


def a_letter_that_came_in_part_is_left_for_the_next_time() -> None:
    whole = "h\u20ac".encode()
    found, position = beyond(Output(whole[:3], complete=False), 0)
    assert (found.head, position) == (b"h", 1)
    found, position = beyond(Output(whole, complete=False), position)
    assert (found.head, position) == ("\u20ac".encode(), 4)
    found, position = beyond(Output(whole[:3], complete=True), 1)
    assert (found.head, position) == (whole[1:3], 3)
    found, position = beyond(Output(whole[:2], whole[2:3], complete=False), 0)
    assert (found.head, found.tail, position) == (b"h", b"", 1), "across the seam too"
