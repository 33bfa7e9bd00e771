"""``?`` and ``~``: chosen by hash, settled once, spread well (rules 3 and 4)."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest

from tocsin.cron import Expression
from tocsin.errors import InvalidSchedule

_ID = "billing/payroll"
_NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _resolved(text: str, identity: str = _ID) -> str:
    return Expression.parse(text, identity=identity).resolved


# Computed by hand: for the minute,
#   printf 'tocsin/1\0billing/payroll\0minute\0%d' 0 | sha256sum
# begins with 562b538fcbe68d3d, and 0x562b538fcbe68d3d % 60 is 45.
@pytest.mark.parametrize(
    ("text", "resolved"),
    [
        ("? * * * *", "45 * * * *"),
        ("? ? * * *", "45 1 * * *"),
        ("? ? ? * *", "45 1 25 * *"),
        ("? ? ? ? *", "45 1 25 4 *"),
        ("? ? * * ?", "45 1 * * 5"),
        ("? ? ? ? ? ?", "4 45 1 25 4 5"),
        ("?,? * * * *", "45,43 * * * *"),
        ("0 ?(9-17) * * *", "0 13 * * *"),
        ("?/15 * * * *", "0-59/15 * * * *"),
        ("?/100 * * * *", "45-59/100 * * * *"),
        ("0 0 ?/10 * *", "0 0 7-28/10 * *"),
        ("0 0 1 ?/3 *", "0 0 1 1-12/3 *"),
        ("0 0 * * ?(MON-FRI)", "0 0 * * 2"),
        ("0 0 * * ?(fri-sun)", "0 0 * * 5"),
        ("0 0 ?(1-28) * *", "0 0 25 * *"),
        ("? 0 13 * +?(1-5)", "45 0 13 * +2"),
        ("20~40 * * * *", "32 * * * *"),
        ("~ * * * *", "45 * * * *"),
        ("0 5~ * * *", "0 5 * * *"),
        ("0 ~5 * * *", "0 1 * * *"),
        ("0 0 ~ * *", "0 0 25 * *"),
        ("0 0 29~ * *", "0 0 29 * *"),
        ("0 0 * * FRI~SUN", "0 0 * * 5"),
        ("10~30/5 * * * *", "10-30/5 * * * *"),
        ("*/5,? * * * *", "*/5,43 * * * *"),
    ],
)
def a_choice_is_the_hash_of_identity_field_and_index(text: str, resolved: str) -> None:
    assert _resolved(text) == resolved


@pytest.mark.parametrize(
    "text", ["? ? ? * *", "?/7 * * * *", "1~50,? ?(2-9)/3 * * MON", "? ? 13 * +?", "~ * * * *"]
)
def a_resolved_text_is_the_same_schedule_without_the_identity(text: str) -> None:
    first = Expression.parse(text, identity=_ID, timezone="Europe/Berlin")
    again = Expression.parse(first.resolved, timezone="Europe/Berlin")
    assert again.resolved == first.resolved
    assert again.upcoming(_NOW, 2000) == first.upcoming(_NOW, 2000)


def settling_keeps_the_stars_that_rules_2_and_8_look_at() -> None:
    # ?/20 is not a star: with it the schedule is fixed, so a repeated hour runs once. */20 runs it twice.
    night = datetime(2026, 10, 24, 22, tzinfo=UTC)
    fixed = Expression.parse("?/20 2 * * *", identity=_ID, timezone="Europe/Berlin")
    wildcard = Expression.parse("*/20 2 * * *", timezone="Europe/Berlin")
    assert len([t for t in fixed.upcoming(night, 6) if t.day == 25]) == 3
    assert len([t for t in wildcard.upcoming(night, 6) if t.day == 25]) == 6
    # Neither ?(1-28) nor MON starts with a star: one of them is enough.
    either = Expression.parse("0 0 ?(1-28) * MON", identity=_ID)
    assert {t.day for t in either.upcoming(_NOW, 8)} >= {5, 12, 19, 25, 26}


def an_edit_of_another_field_moves_nothing() -> None:
    assert _resolved("? 3 * * *").split()[0] == _resolved("? 4 1 * MON").split()[0] == "45"


def another_identity_chooses_differently() -> None:
    assert len({_resolved("? ? * * *", f"job-{n}") for n in range(200)}) > 150


def choices_spread_over_the_whole_span() -> None:
    minutes = Counter(int(_resolved("? * * * *", f"job-{n}").split()[0]) for n in range(6000))
    assert set(minutes) == set(range(60))
    assert max(minutes.values()) < 160  # 100 on average; 6 standard deviations
    days = {int(_resolved("? ? ? * *", f"job-{n}").split()[2]) for n in range(1000)}
    assert days == set(range(1, 29))
    assert {_resolved("? ? * * ?", f"job-{n}").split()[4] for n in range(200)} == set("0123456")


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("0 12 ? * WED", "day"),  # Quartz
        ("0 0 12 ? * WED", "day"),
        ("0 0 12 * * ?", "weekday"),
        ("0 10 * * ?", "weekday"),  # AWS
        ("0 0 ?,15 * *", "day"),
        ("0 0 * * +?", "weekday"),
        ("~ 0 ? * *", "day"),  # ~ is no sign that ? is meant as a choice
    ],
)
def a_bare_question_mark_alone_in_the_days_is_refused(text: str, field: str) -> None:
    with pytest.raises(InvalidSchedule) as refusal:
        Expression.parse(text, identity=_ID)
    assert refusal.value.field == field
    assert "ambiguous" in refusal.value.message
    assert "write * " in refusal.value.hint
    assert "?(" in refusal.value.hint


@pytest.mark.parametrize(
    "text",
    [
        *(
            "?? * * * *",
            "?5 * * * *",
            "5? * * * *",
            "?(5) * * * *",
            "?(9-5) * * * *",
            "?(0-60) * * * *",
            "?() * * * *",
        ),
        *(
            "?(1-5 * * * *",
            "?1-5) * * * *",
            "?/0 * * * *",
            "?/ * * * *",
            "?-5 * * * *",
            "*? * * * *",
            "?(1-5)? * * * *",
        ),
        *(
            "5~3 * * * *",
            "~~ * * * *",
            "1~2~3 * * * *",
            "*~5 * * * *",
            "1-2~5 * * * *",
            "~/0 * * * *",
            "0 24~ * * *",
        ),
        *(
            "0 0 * ?(JAN-FOO) *",
            "0 0 1#2~3 * *",
            "? 0 L~3 * *",
            "?(٣-5) * * * *",
            "~60 * * * *",
            "0 0 * * MO~FRI",
        ),
    ],
)
def a_malformed_choice_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchedule):
        Expression.parse(text, identity=_ID)


def an_identity_may_be_any_text() -> None:
    for identity in ("", "\0", "ü", "\ud800", "a" * 100_000):
        assert Expression.parse("? * * * *", identity=identity).resolved.endswith(" * * * *")
