"""The integer tables say what ``zoneinfo`` says; what is not a zone is refused."""

from __future__ import annotations

import importlib.resources
import re
import struct
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from zoneinfo import TZPATH, ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin import cron
from tocsin.cron import Expression, zones
from tocsin.errors import InvalidSchedule

_NAMES = sorted(available_timezones() - {"Factory", "localtime"})
_SAYABLE = zones.UNIX_MAX - 2 * 86_400  # in every zone; behind it datetime overflows in the east
_YEAR_2037 = int(datetime(2037, 1, 1, tzinfo=UTC).timestamp())


def _tzif(name: str) -> bytes:
    for folder in TZPATH:
        if (file := Path(folder) / name).is_file():
            return file.read_bytes()
    return importlib.resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()


def _recorded_changes(data: bytes) -> list[tuple[int, int, int]]:
    """(instant, offset before, offset after) of each change of offset in a TZif file's 64-bit block."""
    counts = struct.unpack(">6l", data[20:44])
    _, _, leaps, times, types, letters = counts
    start = 44 + times * 5 + types * 6 + letters + leaps * 8 + counts[0] + counts[1]
    times, types = struct.unpack(">2l", data[start + 32 : start + 40])
    at = start + 44
    instants = struct.unpack(f">{times}q", data[at : at + times * 8])
    indexes = data[at + times * 8 : at + times * 9]
    rows = at + times * 9
    offsets = [struct.unpack(">lbB", data[rows + 6 * n : rows + 6 * n + 6])[0] for n in range(types)]
    changes, before = [], offsets[0]
    for instant, index in zip(instants, indexes, strict=True):
        if offsets[index] != before:
            changes.append((instant, before, offsets[index]))
        before = offsets[index]
    return changes


def every_recorded_change_since_1970_begins_a_segment() -> None:
    seen = set()
    for name in _NAMES:
        data = _tzif(name)
        if data in seen or name == "UTC":
            continue
        seen.add(data)
        zone = zones.zone(name)
        for instant, before, after in _recorded_changes(data):
            if 0 < instant < _YEAR_2037:
                left, right = zone.segment(instant - 1), zone.segment(instant)
                assert (left.end, left.offset) == (instant, before), name
                assert (right.start, right.offset) == (instant, after), name


def no_zone_keeps_an_offset_shorter_than_the_distance_of_two_probes() -> None:
    # If this fails after an update of the zone data, zones._PROBE_S must shrink.
    for name in _NAMES:
        instants = [instant for instant, _, _ in _recorded_changes(_tzif(name)) if instant > -86_400 * 30]
        gaps = [later - earlier for earlier, later in pairwise(instants)]
        assert not gaps or min(gaps) > 2 * zones._PROBE_S, name


@given(st.sampled_from(_NAMES), st.integers(0, _SAYABLE - 1))
@settings(max_examples=1500, deadline=None, database=None)
def a_segment_has_the_offset_that_zoneinfo_has(name: str, unix: int) -> None:
    zone = zones.zone(name)
    segment = zone.segment(unix)
    assert segment.start <= unix < segment.end
    for instant in (segment.start, unix, min(segment.end, _SAYABLE) - 1):
        offset = datetime.fromtimestamp(instant, ZoneInfo(name)).utcoffset()
        assert offset is not None
        assert offset.total_seconds() == segment.offset


def segments_follow_one_another_without_a_hole() -> None:
    zone, unix = zones.zone("Europe/Berlin"), 0
    while unix < 40 * 365 * 86_400:
        segment = zone.segment(unix)
        assert segment.start == unix
        assert zone.segment(segment.start - 1).end == segment.start
        unix = segment.end


@pytest.mark.parametrize(
    "name",
    [
        *("../../etc/passwd", "/etc/localtime", "Europe/../Europe/Berlin", "Europe", "Europe/", "", " ", "."),
        *("posixrules", "Factory", "localtime", "posix/Europe/Berlin", "right/Europe/Berlin", "Localtime"),
        *(
            "tzdata.zi",
            "zone.tab",
            "leapseconds",
            "iso3166.tab",
            "__init__.py",
            "UTC\0",
            "UTC\n",
            "Ｕ",
            "a" * 5000,
        ),
        *(
            "europe/berlin",
            "EUROPE/BERLIN",
            "utc",
            "+01:00",
            "UTC+1",
            "Europe\\Berlin",
            "C:/UTC",
            "CON",
            "\ud800",
        ),
    ],
)
def what_is_not_a_zone_is_refused(name: str) -> None:
    with pytest.raises(InvalidSchedule) as refusal:
        Expression.parse("0 0 * * *", timezone=name)
    assert refusal.value.field == "timezone"
    assert refusal.value.value == name
    assert "IANA" in refusal.value.allowed


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Europe/Berln", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("Berlin", "Europe/Berlin"),
        ("America/New York", "America/New_York"),
        ("US/Estern", "US/Eastern"),
        ("utc", "UTC"),
    ],
)
def a_near_name_is_suggested(name: str, meant: str) -> None:
    with pytest.raises(InvalidSchedule) as refusal:
        Expression.parse("0 0 * * *", timezone=name)
    assert refusal.value.hint == f"did you mean {meant}?"


@pytest.mark.parametrize(
    "name", ["UTC", "Etc/GMT+8", "EST5EDT", "US/Eastern", "America/Argentina/Ushuaia", "GB"]
)
def old_and_deep_names_are_zones(name: str) -> None:
    assert Expression.parse("0 0 * * *", timezone=name).timezone == name


def a_prefix_names_the_zone() -> None:
    expression = Expression.parse("CRON_TZ=Asia/Tokyo 0 5 * * *")
    assert expression.timezone == "Asia/Tokyo"
    assert expression.resolved == "CRON_TZ=Asia/Tokyo 0 5 * * *"
    assert Expression.parse("TZ=Asia/Tokyo 0 5 * * *", timezone="Asia/Tokyo").timezone == "Asia/Tokyo"


def a_prefix_and_a_differing_timezone_are_refused() -> None:
    with pytest.raises(InvalidSchedule) as refusal:
        Expression.parse("CRON_TZ=Asia/Tokyo 0 5 * * *", timezone="Europe/Berlin")
    assert (refusal.value.field, refusal.value.value) == ("timezone", "Europe/Berlin")
    assert "Asia/Tokyo" in refusal.value.message


@pytest.mark.parametrize(
    "text", ["CRON_TZ=Nowhere 0 5 * * *", "TZ= 0 5 * * *", "TZ=UTC", "CRON_TZ=Asia/Tokyo"]
)
def a_bad_prefix_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchedule):
        Expression.parse(text)


def the_zone_data_has_a_version() -> None:
    assert re.fullmatch(r"20[0-9]{2}[a-z]", cron.tzdata_version())


def without_system_zones_the_packaged_version_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(zones, "TZPATH", (str(tmp_path),))
    assert re.fullmatch(r"20[0-9]{2}[a-z]", zones.tzdata_version.__wrapped__())
    (tmp_path / "Europe").mkdir()
    assert zones.tzdata_version.__wrapped__() == "unknown"
    (tmp_path / "tzdata.zi").write_text("# version 2031c\n# more\n", encoding="ascii")
    assert zones.tzdata_version.__wrapped__() == "2031c"
