"""The composition root: the only file that names concrete engines."""

from __future__ import annotations

import resource
from pathlib import Path

from tocsin.clock import SystemClock
from tocsin.config import Settings
from tocsin.cron import parse_duration
from tocsin.decide.retention import Retention
from tocsin.errors import InvalidInput
from tocsin.journal.contract import Journal
from tocsin.journal.sqlite import SqliteJournal
from tocsin.observe.metrics import Metrics
from tocsin.replica.office import LockedOffice
from tocsin.replica.replica import Paths, Replica
from tocsin.targets.exec.orders import ExecSettings
from tocsin.targets.permissions import permissions_of
from tocsin.targets.registry import build_targets


def raise_file_limit() -> None:
    """Every running command and every call holds a descriptor; the usual soft limit of 1024 is soon reached."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def compose(settings: Settings) -> Replica:
    """A replica with the engines that the settings ask for. Nothing runs yet."""
    settings.check()
    paths = Paths(settings.data.absolute())
    return Replica(
        name=settings.replica_name(),
        paths=paths,
        journal=_journal(settings.journal_url()),
        office=LockedOffice(paths.lock),
        targets=build_targets(
            paths.data / "exec", _exec_settings(settings), permissions=permissions_of(settings)
        ),
        clock=SystemClock(),
        metrics=Metrics(),
        retention=Retention.parse(settings.history_age, settings.history_each, settings.history_total),
        snapshot_interval_s=parse_duration(settings.snapshot_interval, field="snapshot_interval"),
    )


def _exec_settings(settings: Settings) -> ExecSettings:
    return ExecSettings(
        head_bytes=settings.output_bytes,
        tail_bytes=settings.output_bytes,
        grace_s=parse_duration(settings.kill_grace, field="kill_grace"),
    )


def _journal(url: str) -> Journal:
    scheme, found, rest = url.partition("://")
    if found and scheme == "sqlite" and rest.startswith("/"):
        return SqliteJournal(Path(rest[1:]).absolute())
    raise InvalidInput(
        f"{url!r} is not the URL of a journal",
        field="journal",
        value=url,
        allowed="sqlite:///relative/path or sqlite:////absolute/path",
    )
