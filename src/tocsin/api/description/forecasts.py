"""Words for the fields of a forecast: see ``wording``."""

from __future__ import annotations

from typing import Any

FIELDS: dict[str, dict[str, dict[str, Any]]] = {
    "ForecastView": {
        "bucket_s": {
            "description": "How long a bucket is, in seconds. The first and the last may be shorter."
        },
        "schedules": {"description": "How many were counted: those that are enabled and within reach."},
        "worst": {"description": "The fullest seconds, the fullest first."},
        "remedies": {"description": "What changes would make of the worst second, counted anew for each."},
        "notes": {"description": "What the numbers do not say, each a sentence."},
    },
    "Bucket": {"worst": {"description": "Launches of its fullest second."}},
    "Cause": {"launches": {"description": "How many launches of that second have it."}},
    "WorstSecond": {
        "texts": {"description": "Cron texts with their zones, the most numerous first."},
        "prefixes": {"description": "Folders of ids."},
        "labels": {"description": "As `key=value`."},
        "schedules": {"description": "The ids of some of them."},
    },
    "Remedy": {
        "change": {
            "description": "`jitter`, or `?` in the second, and in the minute where that is one number."
        },
        "schedules": {
            "description": "To how many schedules: those of the worst seconds whose text allows it."
        },
        "before": {"description": "Launches of the worst second as it is."},
        "after": {"description": "Launches of the worst second after the change."},
        "at": {"description": "Which second would be the worst then."},
    },
}
