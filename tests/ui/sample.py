"""A service with something to look at: schedules of several teams, successes, failures, retries, doubt, one running."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.api.conftest import Service, eventually, schedule

ENDED = ("succeeded", "failed", "skipped", "cancelled", "in_doubt")
_CHATTER = (
    "echo 'reading 1 204 orders'; printf '\\033[32mok\\033[0m 1 204 orders\\n'; echo 'writing the report'; "
    "echo 'report.pdf: 2.1 MB'"
)
_BROKEN = "echo 'connecting to ledger.internal'; echo 'error: the ledger is locked by payroll' >&2; exit 3"
_RUNS = 'n=0; while [ $n -lt 2000 ]; do n=$((n+1)); echo "copied block $n of 2000"; sleep 0.5; done'
_PLAIN = (
    ("reports/daily", "30 6 * * 1-5", "Europe/Berlin", _CHATTER, {"team": "reports"}),
    ("reports/weekly", "0 7 * * 1", "Europe/Berlin", _CHATTER, {"team": "reports"}),
    ("billing/payroll", "0 9 28 * *", "America/New_York", _CHATTER, {"team": "billing", "tier": "gold"}),
    (
        "billing/reminders",
        "*/15 8-17 * * 1-5",
        "America/New_York",
        "echo sent 12 reminders",
        {"team": "billing"},
    ),
    ("web/certificates", "? 3 * * *", "UTC", "echo all certificates hold", {"team": "web"}),
    ("web/sitemap", "~ * * * *", "UTC", "echo 48 pages", {"team": "web"}),
)


class Names(NamedTuple):
    """Launches to look at."""

    succeeded: str
    failed: str
    running: str
    in_doubt: str


def pages(names: Names) -> dict[str, str]:
    """The address of every page, by a name of its own."""
    return {
        "overview": "/",
        "schedules": "/schedules",
        "schedule": "/schedules/reports/daily",
        "schedule-failing": "/schedules/billing/ledger",
        "edit": "/schedules/billing/payroll:edit",
        "new": "/new",
        "launches": "/launches",
        "launch-succeeded": f"/launches/{names.succeeded}",
        "launch-failed": f"/launches/{names.failed}",
        "launch-running": f"/launches/{names.running}",
        "launch-in-doubt": f"/launches/{names.in_doubt}",
        "forecast": "/forecast",
        "cluster": "/cluster",
    }


def fill(service: Service, hangs_up: int) -> Names:
    """``hangs_up``: the port of a receiver that takes every call and hangs up."""
    for id, cron, zone, shell, labels in _PLAIN:
        target = {"kind": "exec", "shell": shell}
        service.create(id, cron=cron, timezone=zone, target=target, labels=labels)
    retry = {"limit": 2, "backoff": "1s", "jitter": 0}
    service.create(
        "billing/ledger", target={"kind": "exec", "shell": _BROKEN}, retry=retry, labels={"team": "billing"}
    )
    service.create("backups/nightly", target={"kind": "exec", "shell": _RUNS}, labels={"team": "ops"})
    service.create("web/ping", target={"kind": "http", "url": f"http://127.0.0.1:{hangs_up}/ping"})
    service.ask("POST", "/v1/schedules/web/sitemap:pause", {"note": "until the new site is up"})
    ran = {
        id: run(service, id)["name"]
        for id in ("backups/nightly", "billing/ledger", "web/ping", "reports/daily")
    }
    for id in ("reports/weekly", "billing/reminders", "web/certificates"):
        run(service, id)
    return Names(
        ended(service, ran["reports/daily"])["name"],
        ended(service, ran["billing/ledger"], within_s=20)["name"],
        ran["backups/nightly"],
        ended(service, ran["web/ping"])["name"],
    )


def stop(service: Service, names: Names) -> None:
    """What runs would outlive the service."""
    service.ask("POST", f"/v1/launches/{names.running}:cancel")
    ended(service, names.running)


def run(service: Service, id: str) -> dict[str, Any]:
    """A launch, just asked for."""
    answer = service.ask("POST", f"/v1/schedules/{id}:run")
    assert answer.status == 202, answer
    found: dict[str, Any] = answer.json
    return found


def ended(service: Service, name: str, within_s: float = 10) -> dict[str, Any]:
    """A launch when it is over."""

    def look() -> Any:
        found = service.ask("GET", f"/v1/launches/{name}").json
        return found if found["state"] in ENDED else None

    found: dict[str, Any] = eventually(look, within_s=within_s)
    return found


def doubtful(service: Service, id: str, hangs_up: int) -> str:
    """The name of a launch in doubt."""
    service.ask(
        "POST", "/v1/schedules", schedule(id, target={"kind": "http", "url": f"http://127.0.0.1:{hangs_up}/"})
    )
    view = ended(service, run(service, id)["name"])
    assert view["state"] == "in_doubt", view
    return str(view["name"])
