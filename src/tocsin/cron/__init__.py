"""When a schedule is due: text to expression to instants. Pure: no clock, no randomness, no state of its own.

The text is authoritative; what it means is decided once, in ``reading``, and every refusal happens there
(``InvalidSchedule``, naming the field, the value, what is allowed and what was probably meant). A text that
was accepted always has an answer and always terminates.

A text becomes one of three rules: ``Recurrence`` (a cron text or nickname), ``Every`` and ``Once``. A
recurrence is a ``Clock`` (times of day), a ``DatePattern`` (days) and a ``Zone`` (UTC offsets), each shared
by all expressions that say the same. ``?`` and ``~`` are settled by hash before any of this, so what is
stored holds no choice any more. Everything counts in whole Unix seconds from 1970 to 9999.

Zone data comes from ``zoneinfo``: the system's, else the ``tzdata`` package's. Two replicas with different
data can disagree about a future instant, so they compare ``tzdata_version()``.

Easy to get wrong: whether a field *starts with* ``*`` decides about day-and-weekday (rule 2) and about
daylight saving (rule 8), not what it matches; ``*`` and ``0-23`` in the hour are different schedules on two
nights of the year. Debian's cron ignores junk behind a valid prefix; here junk is an error.
"""

from tocsin.cron.duration import format_duration, parse_duration
from tocsin.cron.expression import Expression
from tocsin.cron.zones import tzdata_version

__all__ = ["Expression", "format_duration", "parse_duration", "tzdata_version"]
