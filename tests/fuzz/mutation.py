"""A small fuzzer: what once was interesting, damaged in every way that comes to mind.

The corpus of a subject is a folder of small files, ``corpus/<subject>/``. All of them are tried as they are, then
mutants of them: bits and bytes changed, pieces cut out, doubled, swapped, put in from others. The n-th mutant depends
on the seed, the subject and n alone, so a failure names all that it takes to see it again::

    TOCSIN_FUZZ_SEED=7 TOCSIN_FUZZ_FROM=1234 python -m pytest tests/fuzz -k cron
    TOCSIN_FUZZ_S=600 TOCSIN_FUZZ_SEED=$RANDOM python -m pytest tests/fuzz     # ten minutes for each subject

Whatever breaks something goes into the corpus.
"""

from __future__ import annotations

import functools
import os
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

_T = TypeVar("_T")
CORPUS = Path(__file__).parent / "corpus"
SEED = int(os.environ.get("TOCSIN_FUZZ_SEED", "1"))
FIRST = int(os.environ.get("TOCSIN_FUZZ_FROM", "0"))
SECONDS = float(os.environ.get("TOCSIN_FUZZ_S", "0"))
"""0: a fixed number of mutants, the same in every run."""
_TELLING = [
    b"\0",
    b"\xff",
    b"\x7f",
    b"\x80",
    b"\n",
    b" ",
    b'"',
    b"\\",
    b"-1",
    b"0",
    b"99999999999999999999",
    b"1e999",
]
_TELLING += [
    b"NaN",
    b"null",
    b"{",
    b"[",
    b"]",
    b"}",
    b",",
    b":",
    "\u202e".encode(),
    b"\xed\xa0\x80",
    "\u0661".encode(),
]


@functools.cache
def corpus(subject: str) -> list[tuple[str, bytes]]:
    found = [(path.name, path.read_bytes()) for path in sorted((CORPUS / subject).iterdir())]
    assert found, f"nothing to begin with in {CORPUS / subject}"
    return found


def mutants(
    subject: str, seeds: Sequence[bytes], number: int, share: float = 1.0
) -> Iterator[tuple[int, bytes]]:
    """The mutants of these, each with its number. ``share``: of the time, where it is time that counts."""
    until = time.monotonic() + SECONDS * share
    at = FIRST
    while time.monotonic() < until if SECONDS else at < FIRST + number:
        yield at, mutant(random.Random(f"{SEED} {subject} {at}"), seeds)
        at += 1


def fuzz(subject: str, check: Callable[[bytes], object], number: int) -> None:
    """Every file of the corpus and so many mutants of them. ``check`` raises where something is not as it should be."""
    items = corpus(subject)
    for name, raw in items:
        _checked(check, raw, f"{subject}: {name} of the corpus")
    for at, raw in mutants(subject, [raw for _, raw in items], number):
        _checked(check, raw, f"{subject}: TOCSIN_FUZZ_SEED={SEED} TOCSIN_FUZZ_FROM={at}")


def fuzz_behind(subject: str, mark: re.Pattern[bytes], check: Callable[[bytes], object], number: int) -> None:
    """So many mutants of every file of the corpus, in which only what stands behind the mark has changed."""
    items = corpus(subject)
    for name, raw in items:
        found = mark.search(raw)
        kept = raw[: found.end()] if found else b""
        for at, rest in mutants(f"{subject} {name}", [raw[len(kept) :]], number, 1 / len(items)):
            _checked(check, kept + rest, f"{subject}: {name} TOCSIN_FUZZ_SEED={SEED} TOCSIN_FUZZ_FROM={at}")


def outcome(work: Callable[[], _T], *refusals: type[Exception]) -> tuple[_T | None, Any]:
    """What it returns, or how it refuses. Any other error is one."""
    try:
        return work(), None
    except refusals as refused:
        return None, refused


def _checked(check: Callable[[bytes], object], raw: bytes, name: str) -> None:
    try:
        check(raw)
    except BaseException as wrong:
        wrong.add_note(f"{name}: {raw[:400]!r}{' ...' if len(raw) > 400 else ''}")
        raise


def mutant(chance: random.Random, seeds: Sequence[bytes]) -> bytes:
    """One to a few changes, mostly few: one alone gets further in than many."""
    raw = bytearray(chance.choice(seeds))
    for _ in range(min(8, 1 + int(chance.expovariate(1.2)))):
        chance.choice(_WAYS)(raw, chance, seeds)
    return bytes(raw)


def _flip_bit(raw: bytearray, chance: random.Random, seeds: Sequence[bytes]) -> None:
    if raw:
        raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)


def _set_byte(raw: bytearray, chance: random.Random, seeds: Sequence[bytes]) -> None:
    if raw:
        raw[chance.randrange(len(raw))] = chance.randrange(256)


def _put_in(raw: bytearray, chance: random.Random, seeds: Sequence[bytes]) -> None:
    at = chance.randint(0, len(raw))
    raw[at:at] = chance.choice(_TELLING)


def _cut_off(raw: bytearray, chance: random.Random, seeds: Sequence[bytes]) -> None:
    del raw[chance.randint(0, len(raw)) :]


def _cut_out(raw: bytearray, chance: random.Random, seeds: Sequence[bytes]) -> None:
    begin, end = _piece(raw, chance)
    del raw[begin:end]


def _double(raw: bytearray, chance: random.Random, seeds: Sequence[bytes]) -> None:
    begin, end = _piece(raw, chance)
    raw[end:end] = raw[begin:end] * chance.choice([1, 1, 1, 3, 20])


def _blank(raw: bytearray, chance: random.Random, seeds: Sequence[bytes]) -> None:
    begin, end = _piece(raw, chance)
    raw[begin:end] = bytes([chance.choice([0, 255])]) * (end - begin)


def _swap(raw: bytearray, chance: random.Random, seeds: Sequence[bytes]) -> None:
    (a, b), (c, d) = sorted((_piece(raw, chance), _piece(raw, chance)))
    if b <= c:
        raw[a:d] = raw[c:d] + raw[b:c] + raw[a:b]


def _splice(raw: bytearray, chance: random.Random, seeds: Sequence[bytes]) -> None:
    """A piece of another one takes the place of a piece of this one."""
    other = bytearray(chance.choice(seeds))
    begin, end = _piece(raw, chance)
    a, b = _piece(other, chance)
    raw[begin:end] = other[a:b]


def _swap_token(raw: bytearray, chance: random.Random, seeds: Sequence[bytes]) -> None:
    """A word or a number of another one takes the place of a word or a number of this one: what comes out is often
    still well-formed."""
    here = list(_TOKEN.finditer(raw))
    there = _TOKEN.findall(chance.choice(seeds))
    if here and there:
        found = chance.choice(here)
        raw[found.start() : found.end()] = chance.choice(there)


def _piece(raw: bytearray, chance: random.Random) -> tuple[int, int]:
    begin = chance.randint(0, len(raw))
    return begin, min(len(raw), begin + int(chance.expovariate(1 / 12)))


_TOKEN = re.compile(rb"[A-Za-z0-9_.]+|[^A-Za-z0-9_.\s]")
_WAYS = (
    _flip_bit,
    _set_byte,
    _put_in,
    _cut_off,
    _cut_out,
    _double,
    _blank,
    _swap,
    _splice,
    *[_swap_token] * 4,
)


def worlds(count: int) -> Iterator[int]:
    """The numbers of so many worlds, or of as many as there is time for if that was asked for."""
    until = time.monotonic() + SECONDS
    world = FIRST
    while time.monotonic() < until if SECONDS else world < FIRST + count:
        yield world
        world += 1
