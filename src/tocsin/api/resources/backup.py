"""A backup, made when somebody asks for it."""

from __future__ import annotations

from litestar import post

from tocsin.api.description.about import about
from tocsin.api.door.access import WhoAsks
from tocsin.api.service import Given
from tocsin.backup.manifest import view_of
from tocsin.model.backup import BackupView


@post(
    "/v1/backup",
    operation_id="makeBackup",
    status_code=200,
    opt=about(
        "service",
        "Make a backup now",
        answers={200: ("The backup, which has been read back.", BackupView)},
        refusals={409: "The service was given no place for backups."},
    ),
)
async def make_backup(service: Given, caller: WhoAsks) -> BackupView:
    """Takes a snapshot, copies it to the place of the backups and answers when it is there; that may take minutes. If
    it cannot be copied the answer says why, and it is tried again by itself."""
    await service.confirm(caller)
    return view_of(await service.replica.backup_now())


HANDLERS = (make_backup,)
