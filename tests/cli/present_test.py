"""Tables of any length."""

from __future__ import annotations

import time

import pytest

from tocsin.cli import present
from tocsin.cli.present import Column


def a_long_table_takes_no_longer_than_its_rows_are_worth(capsys):
    columns = [Column("WHEN"), Column("WHO", may_be_cut=True), Column("WHAT")]
    begun_s = time.process_time()
    present.table(columns, ((f"2026-11-15 {row}", "somebody", "created") for row in range(60_000)))
    assert time.process_time() - begun_s < 5
    lines = capsys.readouterr().out.splitlines()
    assert (len(lines), len({line.index("somebody") for line in lines[1:]})) == (60_001, 1)


def columns_stand_below_each_other_whatever_the_letters(capsys):
    present.table([Column("A"), Column("B")], [("日本", "x"), ("cafe\u0301", "y"), ("", "z")])
    assert capsys.readouterr().out == "A     B\n日本  x\ncafe\u0301  y\n      z\n"


def the_widest_column_gives_way_first():
    columns = [Column("A"), Column("B", may_be_cut=True), Column("C", may_be_cut=True)]
    assert present._fitted([10, 50, 20], columns, 60) == [10, 30, 20]
    assert present._fitted([10, 50, 20], columns, 40) == [10, 15, 15]
    assert present._fitted([10, 50, 20], columns, 5) == [10, 4, 4], "some of it must be read"
    assert present._cut("abcdef", 4) == "abc…"


@pytest.mark.parametrize("room", [2, 5, 6, 9, 10, 40])
def a_line_with_colours_is_cut_by_what_is_seen_of_it(room: int) -> None:
    line = "ab\x1b[31mcd日本\x1b[0mef"
    cut = present.clipped(line, room)
    assert present.width(present.plain(cut)) <= room
    assert (cut == line) is (room >= 10)
    assert present.plain(cut).rstrip("…") in present.plain(line)
    assert cut.count("\x1b[31m") == cut.count("\x1b[0m") == 1, "what is behind it has its own colour"
