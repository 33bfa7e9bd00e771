"""Damage as disks do it to a file of pages: a bit, a byte, a page that is blank, or another one, or cut off."""

from __future__ import annotations

import random
from collections.abc import Iterator

from tests.fuzz.mutation import mutants

PAGE = 4096


def damaged(subject: str, whole: bytes, number: int) -> Iterator[tuple[int, bytes]]:
    """Mutants of a SQLite file, each with its number."""
    filled = [at for at, byte in enumerate(whole) if byte]
    for at, pick in mutants(subject, [bytes(64)], number):
        chance = random.Random(pick + b"%d" % at)
        raw = bytearray(whole)
        for _ in range(chance.choice([1, 1, 1, 2, 4])):
            chance.choice(_WAYS)(raw, chance, filled)
        yield at, bytes(raw)


def _bit(raw: bytearray, chance: random.Random, filled: list[int]) -> None:
    """Of a byte that says something: most of a file says nothing."""
    at = chance.choice(filled)
    if at < len(raw):
        raw[at] ^= 1 << chance.randrange(8)


def _head_of_page(raw: bytearray, chance: random.Random, filled: list[int]) -> None:
    """Where a page says what it is and where its cells are."""
    at = chance.randrange(max(1, len(raw) // PAGE)) * PAGE + chance.choice(
        [0, 3, 4, 5, 8, 9, 10, 11, 100, 103, 105]
    )
    if at < len(raw):
        raw[at] = chance.randrange(256)


def _page(raw: bytearray, chance: random.Random, filled: list[int]) -> None:
    """Blank, or the content of another one."""
    at, other = (chance.randrange(max(1, len(raw) // PAGE)) * PAGE for _ in range(2))
    content = chance.choice([bytes(PAGE), b"\xff" * PAGE, bytes(raw[other : other + PAGE])])
    raw[at : at + PAGE] = content[: len(raw) - at]


def _end(raw: bytearray, chance: random.Random, filled: list[int]) -> None:
    pages = len(raw) // PAGE
    del raw[chance.choice([chance.randrange(pages + 1) * PAGE, chance.randrange(len(raw) + 1)]) :]
    if not raw:
        raw[:] = b"\0" * 100


_WAYS = (_bit, _bit, _bit, _head_of_page, _head_of_page, _page, _end)
