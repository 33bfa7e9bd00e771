"""Words for the fields of an audit: see ``wording``."""

from __future__ import annotations

from typing import Any

from tocsin.model.audit import FINDINGS

FIELDS: dict[str, dict[str, dict[str, Any]]] = {
    "AuditPage": {
        "items": {"description": "Schedules of which an occurrence was expected or recorded."},
        "schedules": {"description": "How many were looked at for this page."},
        "counts": {"description": "Of this page."},
        "findings": {"description": "What must not be."},
        "findings_left_out": {"description": "How many more there are."},
        "journal": {"description": "What this page read of the journal; null: it is about schedules."},
        "lost_record": {
            "description": "A journal was lost in this time or later: what was launched may be recorded nowhere."
        },
        "cursor": {"description": "Asks for the next page. Empty: there is none."},
    },
    "AuditItem": {
        "judged_until": {"description": "Where the work for one schedule ended. Null: all was judged."},
        "at_least": {"description": "What was given up or forgotten is more than could be counted."},
    },
    "AuditCounts": {
        "expected": {"description": "Reckoned anew from the text of every version that was in force."},
        "late": {"description": "Started more than 5 s after the planned moment."},
        "backfilled": {"description": "Started because a person asked for it after the fact."},
        "skipped": {"description": "By reason."},
        "waiting": {"description": "Not decided yet, or waiting for another launch to end."},
        "forgotten": {"description": "Their history is no longer kept."},
        "unaccounted": {"description": "Expected, and nothing is recorded: there must be none."},
        "doubled": {"description": "Started twice, by what the journal says: there must be none."},
        "latest_ms": {"description": "How late the latest one started."},
    },
    "Finding": {
        "kind": {"description": "What it is, for programs.", "enum": list(FINDINGS)},
        "schedule": {"description": "Empty: it is not known which."},
        "at": {"description": "The instant that it is about."},
        "told": {"description": "In words."},
        "sequence": {"description": "The entry of the journal that shows it."},
    },
    "JournalCover": {
        "since": {"description": "The first entry of that time. Null: there is none."},
        "whole": {
            "description": "Nothing of that time had been trimmed. Else what is older was judged by the record."
        },
    },
}
