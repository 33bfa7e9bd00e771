"""A schedule, its launches and its versions in words, as its page tells them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from tocsin.cron.zones import Zone
from tocsin.decide.preview import changed_fields
from tocsin.model.activity import LATE_MS
from tocsin.model.history import VersionView
from tocsin.model.preview import FieldChange
from tocsin.model.schedule import Schedule
from tocsin.model.target import ExecTarget, HttpTarget, KafkaTarget, NatsTarget, TargetSpec
from tocsin.state import outcomes
from tocsin.state.outcomes import Row
from tocsin.ui.charts.calendar import day_words
from tocsin.ui.words import duration, number, number_of

_VALUE_LENGTH_MAX = 80
_CHANGES_TOLD = 8
PAYLOAD_LENGTH_MAX = 2_000


class TargetWords(NamedTuple):
    """``calls`` ``POST https://...``."""

    does: str
    what: str
    more: str = ""


class VersionRow(NamedTuple):
    """A version, and what made it differ from the one before."""

    version: VersionView
    changes: list[FieldChange]
    more: int
    """So many more fields changed than are told."""
    back: str
    """What would change if one went back to it; empty: nothing."""


def target_words(target: TargetSpec) -> TargetWords:
    match target:
        case ExecTarget(shell=None):
            return TargetWords("runs the command", _cut(" ".join(target.argv or ()), 400), _exec_more(target))
        case ExecTarget():
            return TargetWords("runs the shell line", _cut(target.shell or "", 400), _exec_more(target))
        case HttpTarget():
            told = f"waits {target.timeout} for {' or '.join(target.success)}"
            return TargetWords(
                "calls", f"{target.method} {target.url}", told + (", idempotent" if target.idempotent else "")
            )
        case KafkaTarget():
            key = f"with the key {target.key}" if target.key else "with its id as the key"
            return TargetWords("sends an event to the Kafka topic", target.topic, key)
        case NatsTarget():
            return TargetWords("sends an event to the NATS subject", target.subject)
        case _:
            return TargetWords("does nothing and succeeds: a rehearsal", "")


def policies(schedule: Schedule) -> Iterator[tuple[str, str]]:
    """What somebody decided otherwise than by default, and what always matters."""
    yield (
        "Overlap",
        {
            "allow": "launches may overlap",
            "forbid": "skips while one is open",
            "replace": "a new one stops the one before",
            "queue": "waits for the one before",
        }[schedule.overlap],
    )
    yield (
        "Missed",
        {
            "skip": "is not made up for",
            "last": "the last one is made up for",
            "all": "each one is made up for",
        }[schedule.missed]
        + (f", spread over {schedule.catch_up_spread}" if schedule.catch_up_spread else ""),
    )
    yield "In doubt", "is left to a person" if schedule.on_doubt == "skip" else "is launched again"
    retry = schedule.retry
    if retry is not None and retry.limit:
        times = number_of(retry.limit, "time")
        yield (
            "Retries",
            f"up to {times}, after {retry.backoff} and then twice as long each, at most {retry.max_backoff}",
        )
    for name, value in (
        ("Time-out", schedule.timeout),
        ("Deadline", schedule.deadline),
        ("Jitter", schedule.jitter and f"up to {schedule.jitter}"),
    ):
        if value:
            yield name, value


def label_search(key: str, value: str) -> str:
    """What is written to find all with this label."""
    pair = f"{key}={value}"
    return f'label:"{pair}"' if " " in pair else f"label:{pair}"


def payload_text(payload: Any) -> str:
    """As JSON to be read; of a long one the beginning."""
    if payload is None:
        return ""
    text = msgspec.json.format(msgspec.json.encode(payload), indent=2).decode()
    return _cut(text, PAYLOAD_LENGTH_MAX)


def launch_words(row: Row, zone: Zone, now_ms: int) -> str:
    """All that a bar or a point has to tell."""
    parts = [f"{day_and_clock(row.instant_s * 1000, zone)}{_how(row)}: {row.state.replace('_', ' ')}"]
    if row.reason:
        parts.append(f"({_cut(row.reason, 120)})")
    facts = []
    if row.planned_ms != row.instant_s * 1000 and not row.is_manual:
        facts.append(f"planned for {clock(row.planned_ms, zone)}")
    if row.started_ms is None:
        facts.append("never started" if not row.is_open else "waits")
    else:
        late = row.lateness_ms
        how_late = f", {duration(late / 1000)} late" if late is not None and late > LATE_MS else ""
        facts.append(f"started {clock(row.started_ms, zone)}{how_late}")
    took = row.duration_ms(now_ms)
    if took is not None:
        facts.append(f"{'open for' if row.is_open else 'took'} {duration(took / 1000)}")
    if row.attempt > 1:
        facts.append(f"attempt {row.attempt}")
    if row.exit_code:
        facts.append(f"exit status {row.exit_code}")
    return f"{' '.join(parts)}; {', '.join(facts)}"


def version_rows(versions: Sequence[VersionView], shown: int) -> list[VersionRow]:
    """The newest first, each beside the one before it and beside what is in force."""
    older = [*versions[1:], None]
    found = []
    for version, before in list(zip(versions, older, strict=True))[:shown]:
        is_new = before is None or version.act == "created"
        changes = [] if before is None or is_new else changed_fields(before.schedule, version.schedule)
        back = changed_fields(versions[0].schedule, version.schedule)
        found.append(
            VersionRow(
                version, changes[:_CHANGES_TOLD], max(0, len(changes) - _CHANGES_TOLD), changes_text(back)
            )
        )
    return found


def changes_text(changes: Sequence[FieldChange]) -> str:
    """``cron: 0 9 * * * becomes 0 8 * * *; overlap: ...``."""
    told = [
        f"{each.field}: {value_text(each.before)} becomes {value_text(each.after)}"
        for each in changes[:_CHANGES_TOLD]
    ]
    rest = len(changes) - len(told)
    return "; ".join([*told, *([f"and {number_of(rest, 'more field')}"] if rest else [])])


def value_text(value: Any) -> str:
    """A value of a field, on one line."""
    if value is msgspec.UNSET or value is None:
        return "nothing"
    if isinstance(value, str):
        return _cut(value, _VALUE_LENGTH_MAX) or "nothing"
    return _cut(msgspec.json.encode(value).decode(), _VALUE_LENGTH_MAX)


def tally(numbers: Mapping[str, int]) -> str:
    """``1 200 succeeded, 3 failed``."""
    return ", ".join(f"{number(many)} {state.replace('_', ' ')}" for state, many in numbers.items() if many)


def clock(at_ms: int, zone: Zone) -> str:
    """On the wall there."""
    minutes, second = divmod(_local_s(at_ms, zone) % outcomes.DAY_S, 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{second:02}"


def day_and_clock(at_ms: int, zone: Zone) -> str:
    return f"{day_words(_local_s(at_ms, zone) // outcomes.DAY_S)} {clock(at_ms, zone)}"


def _local_s(at_ms: int, zone: Zone) -> int:
    return at_ms // 1000 + zone.segment(at_ms // 1000).offset


def _how(row: Row) -> str:
    return ", by hand" if row.is_manual else ", backfilled" if row.is_backfilled else ""


def _exec_more(target: ExecTarget) -> str:
    told = [f"as {target.user}"] if target.user else []
    told += [f"in {target.cwd}"] if target.cwd else []
    return ", ".join(told)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
