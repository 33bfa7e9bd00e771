"""Examples that are shown and tried: every one of them is sent to a real service by the tests."""

from __future__ import annotations

from typing import Any

BY_ADDRESS: dict[str, Any] = {
    "cron": "0 2 1 * *",
    "timezone": "Europe/Berlin",
    "target": {"kind": "http", "url": "http://127.0.0.1:9000/payroll", "idempotent": True},
    "payload": {"company": 7},
    "overlap": "forbid",
    "retry": {"limit": 3, "backoff": "2s", "max_backoff": "5m"},
    "labels": {"team": "finance"},
}
SCHEDULE: dict[str, Any] = {"id": "billing/payroll", **BY_ADDRESS}
PATCH: dict[str, Any] = {"cron": "30 2 1 * *", "labels": {"team": "payroll", "tier": "1"}, "retry": None}
