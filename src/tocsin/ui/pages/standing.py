"""How safe everything is: what pages say about backups."""

from __future__ import annotations

from typing import NamedTuple

from tocsin.api.service import Service
from tocsin.backup.manifest import view_of
from tocsin.model.backup import BackupView


class Backup(NamedTuple):
    """Where backups go, and what is known of the newest. Only who leads makes any, and only there it is known."""

    place: str
    newest: BackupView | None
    problem: str
    is_known: bool


def backup_of(service: Service) -> Backup | None:
    """None: there is no place for backups."""
    backuper = service.replica.parts.backuper
    if backuper is None:
        return None
    newest = None if backuper.newest is None else view_of(backuper.newest)
    return Backup(backuper.place, newest, backuper.problem, service.replica.is_leader)
