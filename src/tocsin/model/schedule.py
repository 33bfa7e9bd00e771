"""What a user defines. The same names stand in YAML files, in the API and in the CLI's ``--json``.

``decode`` takes what a user wrote and either returns a checked ``Schedule`` or raises an error that names the
field, the value and what is allowed. Nothing unchecked ever reaches the journal.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import msgspec

from tocsin.cron import Expression, parse_duration
from tocsin.errors import InvalidInput, InvalidSchedule
from tocsin.model.ids import check_id
from tocsin.model.meant import meant
from tocsin.model.rule import Missed, Overlap, Rule
from tocsin.model.target import HttpTarget, TargetSpec

PAYLOAD_BYTES_MAX = 64 * 1024
PAYLOAD_DEPTH_MAX = 64
SCHEDULE_BYTES_MAX = 128 * 1024
DESCRIPTION_LENGTH_MAX = 2000
LABELS_MAX = 32
RETRY_LIMIT_MAX = 1000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}")


class Retry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How often, and how far apart, a failed launch is tried again. The wait doubles each time."""

    limit: int = 0
    backoff: str = "1s"
    max_backoff: str = "5m"
    jitter: float = 0.1

    def check(self) -> None:
        if not 0 <= self.limit <= RETRY_LIMIT_MAX:
            raise InvalidSchedule(
                f"{self.limit} is out of range",
                field="retry.limit",
                value=self.limit,
                allowed=f"0 to {RETRY_LIMIT_MAX}",
            )
        if not 0 <= self.jitter <= 1:
            raise InvalidSchedule(
                f"{self.jitter} is out of range", field="retry.jitter", value=self.jitter, allowed="0 to 1"
            )
        parse_duration(self.backoff, field="retry.backoff")
        parse_duration(self.max_backoff, field="retry.max_backoff")


class Schedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A schedule as its owner wrote it."""

    id: str
    cron: str
    target: TargetSpec
    timezone: str = "UTC"
    payload: Any = None
    on_doubt: Literal["skip", "relaunch"] = "skip"
    missed: Literal["skip", "last", "all"] = "last"
    catch_up_spread: str | None = None
    deadline: str | None = None
    overlap: Literal["allow", "forbid", "replace", "queue"] = "allow"
    retry: Retry | None = None
    timeout: str | None = None
    jitter: str | None = None
    enabled: bool = True
    labels: dict[str, str] = {}
    description: str = ""
    start: datetime | None = None
    end: datetime | None = None

    def expression(self, anchor: datetime | None = None) -> Expression:
        """The schedule text, parsed; ``?`` and ``~`` settled by this schedule's id."""
        return Expression.parse(self.cron, timezone=self.timezone, identity=self.id, anchor=anchor)

    def rule(self) -> Rule:
        """The policies that timing decisions need, in numbers."""
        return _rule(
            self.missed,
            self.overlap,
            self.catch_up_spread,
            self.deadline,
            self.jitter,
            self.start,
            self.end,
            self.on_doubt == "relaunch" or getattr(self.target, "idempotent", False),
        )


@lru_cache(maxsize=1024)
def _rule(
    missed: str,
    overlap: str,
    spread: str | None,
    deadline: str | None,
    jitter: str | None,
    start: datetime | None,
    end: datetime | None,
    may_repeat: bool,
) -> Rule:
    """Most schedules have one of a few."""
    return Rule(
        missed=Missed[missed.upper()],
        overlap=Overlap[overlap.upper()],
        spread_ms=_milliseconds(spread, "catch_up_spread"),
        deadline_ms=_milliseconds(deadline, "deadline"),
        jitter_ms=_milliseconds(jitter, "jitter"),
        start_ms=_instant_ms(start),
        end_ms=_instant_ms(end),
        may_repeat=may_repeat,
    )


class ScheduleView(Schedule, frozen=True, kw_only=True, omit_defaults=False, forbid_unknown_fields=False):
    """A schedule as it is read back. A newer service may say more than this version knows of."""

    version: int
    resolved: str
    next: datetime | None
    created_at: datetime
    updated_at: datetime
    note: str = ""
    warnings: list[str] | msgspec.UnsetType = msgspec.UNSET
    """Only in the answer to a write: what is to be said about it, each a sentence."""


_canonical = msgspec.msgpack.Encoder(order="deterministic").encode


def is_same(one: Schedule, other: Schedule) -> bool:
    """Do two schedules say the same? To Python ``1`` equals ``true``; to whoever gets the payload it may not."""
    return one == other and _canonical(one.payload) == _canonical(other.payload)


class Checked(NamedTuple):
    """A schedule that can be kept, and what checking it has found out."""

    schedule: Schedule
    expression: Expression
    rule: Rule


def decode(raw: bytes) -> Checked:
    """A checked schedule out of JSON."""
    opened = raw.count(b"{") + raw.count(b"[")
    is_small = len(raw) <= PAYLOAD_BYTES_MAX // 8 and opened <= PAYLOAD_DEPTH_MAX
    return _checked(decode_unchecked(raw), is_small=is_small)


_decode = msgspec.json.Decoder(Schedule).decode


def decode_unchecked(raw: bytes) -> Schedule:
    """A schedule out of JSON, of the right types, its values not yet looked at."""
    try:
        return _decode(raw)
    except msgspec.ValidationError as wrong:
        raise invalid_field(wrong) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as wrong:
        raise InvalidInput(
            f"this is not JSON: {wrong}", field="body", value="", allowed="a JSON object"
        ) from None


def convert(value: object) -> Schedule:
    """A checked schedule out of what YAML, TOML or JSON gave."""
    try:
        return check(msgspec.convert(value, Schedule))
    except msgspec.ValidationError as wrong:
        raise invalid_field(wrong) from None


def check(schedule: Schedule) -> Schedule:
    """The same schedule, or an error that names the field."""
    return _checked(schedule).schedule


def _checked(schedule: Schedule, *, is_small: bool = False) -> Checked:
    """``is_small``: the text that it came from was far too short for anything in it to be too large or too deep."""
    check_id(schedule.id)
    if schedule.start is not None or schedule.end is not None:
        _check_window(schedule)  # only moments that can be written have a size
    if not is_small:
        _check_size(schedule)  # before anything looks at each part of it
    _check_description(schedule.description)
    schedule.target.check()
    if isinstance(schedule.target, HttpTarget):
        parse_duration(schedule.target.timeout, field="target.timeout")
    if schedule.retry is not None:
        schedule.retry.check()
    if schedule.timeout is not None:
        parse_duration(schedule.timeout, field="timeout")
    rule, expression = schedule.rule(), schedule.expression()
    if schedule.labels:
        _check_labels(schedule.labels)
    return Checked(schedule, expression, rule)


def _check_window(schedule: Schedule) -> None:
    for field, moment in (("start", schedule.start), ("end", schedule.end)):
        if moment is not None and moment.tzinfo is None:
            raise InvalidSchedule(
                "the moment has no offset",
                field=field,
                value=moment.isoformat(),
                allowed="2026-01-31T09:00:00Z",
            )
        if moment is not None and not 1970 <= moment.year < 9999:
            raise InvalidSchedule(
                f"the year {moment.year} is out of range",
                field=field,
                value=moment.isoformat(),
                allowed="1970 to 9998",
            )
    if schedule.start is not None and schedule.end is not None and schedule.end <= schedule.start:
        raise InvalidSchedule("the end is not after the start", field="end", value=schedule.end.isoformat())


def _check_labels(labels: dict[str, str]) -> None:
    if len(labels) > LABELS_MAX:
        raise InvalidSchedule(
            f"{len(labels)} labels are too many",
            field="labels",
            value=len(labels),
            allowed=f"up to {LABELS_MAX}",
        )
    for key, value in labels.items():
        if not _LABEL.fullmatch(key) or len(value) > 200 or not value.isprintable():
            raise InvalidSchedule(
                f"the label {key!r}={value[:40]!r} cannot be kept",
                field=f"labels.{key[:64]}",
                value=value,
                allowed="a key of up to 63 of A-Z a-z 0-9 . _ / -, a printable value of up to 200 characters",
            )


def _check_size(schedule: Schedule) -> None:
    try:
        msgspec.msgpack.encode(schedule.payload)
        size = len(msgspec.json.encode(schedule.payload))
    except RecursionError:
        raise _too_deep() from None
    except (TypeError, ValueError, OverflowError) as wrong:
        raise InvalidInput(str(wrong), field="payload", value="(not shown)", allowed="JSON") from None
    check_payload_size(size)
    _check_depth(schedule.payload)
    whole = len(msgspec.msgpack.encode(schedule))
    if whole > SCHEDULE_BYTES_MAX:
        raise InvalidInput(
            f"{whole} bytes are too many",
            field="schedule",
            value=whole,
            allowed=f"up to {SCHEDULE_BYTES_MAX} bytes in all",
            hint="put a long command into a file",
        )


def _check_description(text: str) -> None:
    if len(text) > DESCRIPTION_LENGTH_MAX:
        raise InvalidInput(
            f"{len(text)} characters are too many",
            field="description",
            value=len(text),
            allowed=f"up to {DESCRIPTION_LENGTH_MAX}",
        )


def check_payload_size(size: int) -> None:
    """Of the payload as JSON, in bytes."""
    if size > PAYLOAD_BYTES_MAX:
        raise InvalidInput(
            f"{size} bytes are too many",
            field="payload",
            value=size,
            allowed=f"up to {PAYLOAD_BYTES_MAX} bytes of JSON",
            hint="put the data where the target can fetch it and pass a reference",
        )


def _check_depth(payload: object) -> None:
    level = [payload]
    for _ in range(PAYLOAD_DEPTH_MAX):
        nested = [part for part in level if isinstance(part, (dict, list))]
        level = [item for part in nested for item in (part.values() if isinstance(part, dict) else part)]
        if not level:
            return
    raise _too_deep()


def _too_deep() -> InvalidInput:
    return InvalidInput(
        "it is nested too deeply",
        field="payload",
        value="(not shown)",
        allowed=f"up to {PAYLOAD_DEPTH_MAX} levels",
    )


_DURATION = "a duration such as 90s, 5m or 1h30m"
_MOMENT = "a moment with its offset, such as 2026-01-31T09:00:00Z"
_ALLOWED = {
    "on_doubt": "skip or relaunch",
    "missed": "skip, last or all",
    "overlap": "allow, forbid, replace or queue",
    "target": "an object with a kind: exec, http or null",
    "target.kind": 'exec, http or "null" (in quotes: YAML takes null for nothing)',
    "target.limits": "an object with memory_mb, cpu_seconds and processes",
    "retry": "an object with limit, backoff, max_backoff and jitter",
    "labels": "an object of texts",
    "start": _MOMENT,
    "end": _MOMENT,
    **dict.fromkeys(
        (
            "catch_up_spread",
            "deadline",
            "timeout",
            "jitter",
            "retry.backoff",
            "retry.max_backoff",
            "target.timeout",
        ),
        _DURATION,
    ),
}
_WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "nothing",
    "datetime": "a moment",
}


def invalid_field(wrong: msgspec.ValidationError, shape: object = Schedule) -> InvalidInput:
    """msgspec's message in our words: the field, the complaint, what is allowed, what was probably meant."""
    complaint, _, path = str(wrong).partition(" - at `$")
    field = path.rstrip("`").lstrip(".").replace("[...]", "")
    named = re.search(r"(unknown|required) field `([^`]+)`", complaint)
    typed = re.fullmatch(r"Expected `([^`]+)`, got `([^`]+)`", complaint)
    nearest = ""
    if named is not None:
        nearest = meant(shape, field, named[2]) if named[1] == "unknown" else ""
        field = ".".join(filter(None, [field, named[2]]))
        complaint = "there is no such field" if named[1] == "unknown" else "it is missing"
    elif typed is not None:
        complaint = f"it must be {_worded(typed[1])}, not {_worded(typed[2])}"
    else:
        complaint = re.sub(r"^Invalid (enum )?value ('.*')$", r"\2 is not known", complaint)
    hint = f"did you mean {nearest}?" if nearest else ""
    return InvalidInput(
        complaint, field=field or "schedule", value="", allowed=_ALLOWED.get(field, ""), hint=hint
    )


def _worded(types: str) -> str:
    return " or ".join(_WORDS.get(found, found) for found in types.replace("NoneType", "null").split(" | "))


def _milliseconds(text: str | None, field: str) -> int:
    return 0 if text is None else parse_duration(text, field=field) * 1000


def _instant_ms(moment: datetime | None) -> int:
    return 0 if moment is None else int((moment - _EPOCH).total_seconds() * 1000)
