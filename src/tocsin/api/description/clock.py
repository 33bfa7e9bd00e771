"""Words for the fields of the clock and of repairs: see ``wording``."""

from __future__ import annotations

from typing import Any

FIELDS: dict[str, dict[str, dict[str, Any]]] = {
    "ClockView": {
        "leader": {"description": "Whose clock it is. Empty: nobody leads, and it is that of who answers."},
        "is_believed": {"description": "False: nothing that depends on time is decided."},
        "state": {
            "description": "`steady`: it went on evenly since it was believed. `fresh`: it is plausible, and nobody "
            "else has believed it since the machine was started. `unknown`: the machine was started, and it is far "
            "from the last entry. `doubted`: the last leader went by another time. `stepped`: it was put elsewhere, or "
            "is wrong by other replicas."
        },
        "shows": {"description": "What the machine's wall clock shows."},
        "believed": {"description": "The time that entries are stamped with."},
        "step_s": {"description": "By how much the clock is ahead of that. 0: it is believed."},
        "ahead_until": {
            "description": "The clock was ahead up to this moment and was put back, and next instants have not been "
            "repaired since. None: they have, or it was not."
        },
    },
    "ConfirmClockRequest": {
        "now": {
            "description": "What the clock showed to whoever confirms it. RFC 3339, or unix seconds.",
            "format": "moment",
            "minLength": None,
            "maxLength": None,
            "examples": ["2026-01-01T00:00:00Z"],
        }
    },
    "RepairDueRequest": {
        "prefix": {"description": "Only schedules whose id begins like this."},
        "preview": {"description": "Only tell which ones it would be."},
        "after": {"description": "Go on behind this id."},
    },
    "RepairedView": {
        "was": {"description": "Its next instant before. None: it had none."},
        "next": {"description": "Its next instant as it is now, or would be."},
    },
    "RepairView": {
        "looked_at": {"description": "How many schedules this part has looked at."},
        "repaired": {"description": "How many of them had a next instant that was too late."},
        "items": {"description": "The first hundred of them."},
        "after": {"description": "Ask again with this to go on. Empty: that was all."},
    },
}
