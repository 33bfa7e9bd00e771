"""What the service has to say about what was written all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tocsin.cli.printing import say

if TYPE_CHECKING:
    from tocsin.model.lines import Summary
    from tocsin.model.schedule import ScheduleView


def warn(answer: ScheduleView | Summary) -> None:
    """On stderr, beside the answer."""
    for warning in answer.warnings or ():
        say(f"tocsin: warning: {warning}")
