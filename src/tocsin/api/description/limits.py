"""Words for the fields of limits: see ``wording``."""

from __future__ import annotations

from typing import Any

FIELDS: dict[str, dict[str, dict[str, Any]]] = {
    "LimitsView": {
        "leader": {
            "description": "Who counts. Empty: nobody is known to lead, and the numbers are not known."
        },
    },
    "LimitView": {
        "limit": {"description": "What it is about, such as `team=payroll`."},
        "target": {"description": "Empty: any."},
        "label": {"description": "Empty: any. Without a value: each value on its own."},
        "rate": {"description": "Such as `100/s`. Empty: any."},
        "burst": {"description": "How many may start at once after a quiet time."},
        "concurrency": {"description": "How many may be under way at once. None: any number."},
        "started_per_s": {"description": "Launches a second, over the last ten seconds."},
        "under_way": {"description": "Launches that were started and have not ended."},
        "waiting": {"description": "Launches that are due and wait for it, as far as was looked."},
        "values": {"description": "Of a label without a value: the busiest ones."},
    },
}
