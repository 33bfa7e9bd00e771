"""A refusal names the field, the value, what is allowed and what was probably meant."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tocsin.cron import Expression
from tocsin.errors import InvalidSchedule

_DAY = "1-31, L, L-1 to L-30, LW, 1W to 31W"
_WEEKDAY = "0-7 or SUN-SAT, v#1 to v#5, vL"


def _refusal(text: str, timezone: str = "UTC") -> InvalidSchedule:
    with pytest.raises(InvalidSchedule) as refusal:
        Expression.parse(text, timezone=timezone)
    return refusal.value


def _outcome(text: str, timezone: str) -> int | InvalidSchedule | None:
    try:
        return Expression.parse(text, timezone=timezone, identity=text).next_unix(1_700_000_000)
    except InvalidSchedule as refusal:
        return refusal


@pytest.mark.parametrize(
    ("text", "field", "value", "allowed", "hint"),
    [
        ("60 * * * *", "minute", "60", "0-59", "the first minute is 0"),
        ("5,61 * * * *", "minute", "61", "0-59", ""),
        ("0 24 * * *", "hour", "24", "0-23", "the first hour is 0"),
        ("0 0 0 * *", "day", "0", _DAY, "the first day is 1"),
        ("0 0 1 13 *", "month", "13", "1-12 or JAN-DEC", ""),
        ("0 0 * * 8", "weekday", "8", _WEEKDAY, "Sunday is 0 or 7"),
        ("60 * * * * *", "second", "60", "0-59", "the first second is 0"),
        ("0 0 * * MO", "weekday", "MO", _WEEKDAY, "did you mean MON?"),
        ("0 0 * * monday", "weekday", "monday", _WEEKDAY, "did you mean MON?"),
        ("0 0 1 Sept *", "month", "Sept", "1-12 or JAN-DEC", "did you mean SEP?"),
        ("0 0 jan * *", "day", "jan", _DAY, "names stand only in the month and the weekday"),
        ("0 17-9 * * *", "hour", "17-9", "0-23", "a range does not wrap around: write 17-23,0-9"),
        (
            "0 0 * * SAT-MON",
            "weekday",
            "SAT-MON",
            _WEEKDAY,
            "a range does not wrap around: write SAT-SUN,SUN-MON",
        ),
        (
            "0 0 1 nov-feb *",
            "month",
            "nov-feb",
            "1-12 or JAN-DEC",
            "a range does not wrap around: write nov-DEC,JAN-feb",
        ),
        ("*/0 * * * *", "minute", "*/0", "a step of 1 or more", ""),
        ("1,,2 * * * *", "minute", "", "0-59", "remove the stray comma, or write *"),
        ("/5 * * * *", "minute", "/5", "0-59", "write */5"),
        ("*5 * * * *", "minute", "*5", "0-59", "write */5 for every 5th"),
        ("5/ * * * *", "minute", "5/", "0-59", "a number must follow the slash, such as */5"),
        ("1-5- * * * *", "minute", "1-5-", "0-59", "a range needs both ends: 1-5"),
        ("0 0 1..5 * *", "day", "1..5", _DAY, "write a range with one hyphen: 1-5"),
        ("H * * * *", "minute", "H", "0-59", "Jenkins' H is written ?"),
        ("H(0-29) * * * *", "minute", "H(0-29)", "0-59", "Jenkins' H is written ?: ?(0-29)"),
        ("+5 * * * *", "minute", "+5", "0-59", "+ may only stand at the beginning of the weekday"),
        ("0 0 * L *", "month", "L", "1-12 or JAN-DEC", "L, W and # belong to the day and the weekday"),
        ("0 0 L-31 * *", "day", "L-31", _DAY, "write L for the last day itself"),
        ("0 0 * * MON#6", "weekday", "MON#6", _WEEKDAY, "write #1 to #5, or L for the last"),
        (
            "0 0 * * L",
            "weekday",
            "L",
            _WEEKDAY,
            "write SATL for the last Saturday of the month, or SAT for every Saturday",
        ),
    ],
)
def a_field_is_refused_with_its_remedy(text: str, field: str, value: str, allowed: str, hint: str) -> None:
    refusal = _refusal(text)
    assert (refusal.field, refusal.value, refusal.allowed, refusal.hint) == (field, value, allowed, hint)
    assert str(refusal).startswith(f"{field}: ")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("0 0 12 * * ? 2026", "a year field is not supported"),
        ("@dayly", "did you mean @daily?"),
        ("@Daily", "did you mean @daily?"),
        ("@anually", "did you mean @annually?"),
        ("@evry 5m", "did you mean @every?"),
        ("@daily 5", "write @daily alone"),
        ("@reboot", "use @at for a single run"),
        ("", "for example"),
        ("* * *", "for example"),
        ("0 5 * * 1 tar -zcf /var/backups/home.tgz", "no command"),
        ("0 0 * * *\n", "blanks or tabs"),
        ("0 0 *\u00a0* *", "blanks or tabs"),
        ("0\x000 * * *", "blanks or tabs"),
        ("*" * 1001, "at most 1000"),
    ],
)
def a_whole_text_is_refused_with_its_remedy(text: str, hint: str) -> None:
    refusal = _refusal(text)
    assert (refusal.field, refusal.value) == ("cron", text)
    assert "5 fields" in refusal.allowed
    assert hint in refusal.hint


def a_command_behind_five_fields_is_recognised() -> None:
    assert "no command" in _refusal("0 5 * * * /usr/bin/backup").hint
    assert "no comment" in _refusal("0 5 * * * #nightly").hint


def reboot_has_its_own_message() -> None:
    assert "@reboot" in _refusal("@reboot").message


def tabs_and_runs_of_blanks_separate_fields() -> None:
    assert Expression.parse(" \t5  4\t* *   * ").resolved == "5 4 * * *"


def the_written_text_is_kept() -> None:
    expression = Expression.parse("  5 4 * * mon ")
    assert expression.text == "  5 4 * * mon "
    assert repr(expression) == "Expression('  5 4 * * mon ', timezone='UTC')"


_ALPHABET = "0123456789*/,-?~()#LW+@ \tMONDAYJSUFEBTZ=:.%_x\0\n٣¹ıſß\u00a0\ud800😀"


@given(st.text(st.sampled_from(_ALPHABET), max_size=40) | st.text(max_size=60))
@example("9" * 999)
@example("*/" + "9" * 900 + " * * * *")
@example("0 0 * * ſUN")
@example("0 0 ı * *")
@example(",".join(["1"] * 400) + " * * * *")
@example("0 0 * * 1#" + "9" * 900)
@example("0 0 L-" + "9" * 900 + " * *")
@settings(max_examples=1500, deadline=None, database=None)
def no_text_raises_anything_but_a_refusal(text: str) -> None:
    for attempt in (
        text,
        f"{text} * * * *",
        f"0 0 * * {text}",
        f"@every {text}",
        f"@at {text}",
        f"TZ={text} @daily",
    ):
        assert str(_outcome(attempt, "UTC"))


@given(st.text(max_size=80) | st.text(st.sampled_from("./abEurope+-_~\0\\"), max_size=30))
@settings(max_examples=500, deadline=None, database=None)
def no_zone_raises_anything_but_a_refusal(name: str) -> None:
    outcome = _outcome("0 0 * * *", name)
    assert outcome is None or isinstance(outcome, int) or outcome.field == "timezone"
