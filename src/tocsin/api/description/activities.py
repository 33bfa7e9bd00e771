"""Words for the fields of what happened lately: see ``wording``."""

from __future__ import annotations

from typing import Any

_COUNTS: dict[str, dict[str, Any]] = {
    "started": {"description": "Launches that started, also by hand."},
    "late": {
        "description": "Of those: more than a second after their planned moment. What waits in line for an earlier "
        "launch of its schedule is not late."
    },
    "skipped": {"description": "What a policy, an edit or a pause left out."},
    "missed": {
        "description": "Occurrences, or stretches of them, that were given up because nobody was in office."
    },
    "retries": {"description": "Attempts after the first of their launch."},
    "lateness_p50_ms": {
        "description": "Half of the starts were at most so late, to the next bound of a coarse histogram. None: "
        "nothing started by its schedule; launches by hand, and those that waited in line, are not in it."
    },
    "lateness_p99_ms": {"description": "The same of 99 in a hundred."},
    "lateness_max_ms": {"description": "The latest start, to the millisecond."},
}
FIELDS: dict[str, dict[str, dict[str, Any]]] = {
    "ActivityView": {
        "since": {"description": "Where the first bucket begins: at a whole multiple of its length."},
        "bucket_s": {"description": "How long a bucket is, in seconds. The last may not be over yet."},
        "items": {"description": "Every bucket, also those in which nothing happened."},
    },
    "Activity": _COUNTS,
    "ActivityBucket": _COUNTS,
}
