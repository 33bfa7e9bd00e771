"""An order as its keeper reads it."""

from __future__ import annotations

import os
import pwd
from datetime import UTC, datetime
from typing import Any

import msgspec

from tocsin.model.target import ExecTarget as ExecSpec
from tocsin.targets.contract import Order

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_OF_THE_SERVICE = ("LANG", "LC_ALL", "TZ")


class ExecSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator may set for all commands."""

    head_bytes: int = 65536
    tail_bytes: int = 65536
    grace_s: float = 10.0
    """Between SIGTERM and SIGKILL."""
    hand_over_s: float = 10.0
    """No keeper has claimed the order after this: it is made void."""
    may_group: bool = True
    """Commands with limits or a time-out get control groups (cgroup v2), where the service may make them."""


def base_env() -> dict[str, str]:
    """What every command is given: little, and no secret of the service."""
    try:
        user = pwd.getpwuid(os.geteuid())
        home, name = user.pw_dir, user.pw_name
    except KeyError:  # a container may run under a number that has no name
        home, name = os.environ.get("HOME", "/"), str(os.geteuid())
    ours = {key: os.environ[key] for key in _OF_THE_SERVICE if key in os.environ}
    return {"PATH": _PATH, "HOME": home, "USER": name, "LOGNAME": name, "SHELL": "/bin/sh", **ours}


def for_keeper(order: Order, settings: ExecSettings, **where: Any) -> bytes:
    """All that a keeper needs to know, as JSON. ``where`` are the facts of this hand-over."""
    spec = order.target
    assert isinstance(spec, ExecSpec)
    limits = {
        "memory_bytes": (spec.limits.memory_mb or 0) << 20,
        "cpu_s": spec.limits.cpu_seconds or 0,
        "processes": spec.limits.processes or 0,
    }
    return msgspec.json.encode(
        {
            **where,
            "argv": spec.argv if spec.argv is not None else ("/bin/sh", "-c", spec.shell),
            "env": {**spec.env, **_order_env(order)},
            "cwd": spec.cwd or "/",
            "user": spec.user,
            "limits": {name: limit for name, limit in limits.items() if limit},
            "timeout_s": order.timeout_s,
            "until_s": order.until_s,
            "deadline_s": order.deadline_s,
            "term": order.term,
            "asked_lid": order.asked_lid,
            "grace_s": settings.grace_s,
            "head_max": settings.head_bytes,
            "tail_max": settings.tail_bytes,
        }
    )


def _order_env(order: Order) -> dict[str, str]:
    scheduled_at = datetime.fromtimestamp(order.scheduled_at_s, UTC)
    return {
        "TOCSIN_LAUNCH": order.name,
        "TOCSIN_SCHEDULE": order.schedule,
        "TOCSIN_SCHEDULED_AT": scheduled_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "TOCSIN_ATTEMPT": str(order.attempt),
        "TOCSIN_TERM": str(order.term),
    }
