"""The one place that names every target. To add one: its file, its spec in ``model.target``, a line here."""

from __future__ import annotations

from pathlib import Path

from tocsin.clock import Clock
from tocsin.targets.contract import Target
from tocsin.targets.exec.orders import ExecSettings
from tocsin.targets.exec.target import ExecTarget
from tocsin.targets.http import HttpTarget
from tocsin.targets.null import NullTarget
from tocsin.targets.permissions import Permissions


def build_targets(
    exec_dir: Path,
    exec_settings: ExecSettings | None = None,
    *,
    clock: Clock | None = None,
    permissions: Permissions | None = None,
) -> dict[str, Target]:
    """Every target by its kind, not yet started. Each keeps to what is permitted."""
    permissions = permissions or Permissions()
    targets: tuple[Target, ...] = (
        ExecTarget(exec_dir, exec_settings, clock=clock, permissions=permissions),
        HttpTarget(clock=clock, fence=permissions.fence, secrets=permissions.secrets),
        NullTarget(clock=clock),
    )
    return {target.kind: target for target in targets}
