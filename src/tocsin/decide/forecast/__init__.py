"""What is to come: how many launches each second of the next days will see, and who causes the worst of them.

``Tally`` counts. It is given columns, not schedules: texts with how many schedules have each, next instants with how
many schedules are at each. Texts that share their days (``cron.outline``) are laid over each other as times of day and
put onto each day once, so that a million schedules cost as much as their different times of day do, and not as much
as their launches.

What it counts is the plan: every occurrence of an enabled schedule, once. What was missed, forbidden by ``overlap`` or
retried is not in it. ``jitter`` is counted as an expectation: each second gets its share of the launch.

``causes`` finds which texts meet in a second, ``remedies`` what ``?`` and ``jitter`` would make of the peak. ``Herd``
is the same count kept in memory for the day to come, asked before a schedule is written.
"""

from tocsin.decide.forecast.causes import Company, hits, together, top
from tocsin.decide.forecast.herd import DAY_S, Crowd, Herd, Seconds
from tocsin.decide.forecast.remedies import Outcome, outcomes
from tocsin.decide.forecast.tally import AnyText, Cron, Interval, Tally, Text

__all__ = [
    "DAY_S",
    "AnyText",
    "Company",
    "Cron",
    "Crowd",
    "Herd",
    "Interval",
    "Outcome",
    "Seconds",
    "Tally",
    "Text",
    "hits",
    "outcomes",
    "together",
    "top",
]
