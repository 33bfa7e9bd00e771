"""Every setting, with its default, its environment variable and what it is for.

A setting is given on the command line of ``tocsin serve``, or in the environment as ``TOCSIN_<NAME>``.
"""

from __future__ import annotations

import socket
from pathlib import Path

import msgspec

from tocsin.errors import InvalidInput


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one node."""

    data: Path = Path("tocsin-data")
    """Directory for everything this node keeps: journal, state, snapshots, records of commands."""

    listen: str = "127.0.0.1:8400"
    """Address of the API, HOST:PORT. Loopback only."""

    journal: str = ""
    """URL of the journal. Empty: ``sqlite:///<data>/journal.db``."""

    name: str = ""
    """Name of this replica. Empty: the machine's host name."""

    snapshot_interval: str = "5m"
    """How often the state is written as a snapshot, behind which the journal is trimmed."""

    history_age: str = "30d"
    """How long ended launches are kept."""

    history_each: int = 1_000
    """How many ended launches of one schedule are kept."""

    history_total: int = 10_000_000
    """How many ended launches are kept in all."""

    output_bytes: int = 65_536
    """How much of a command's output is kept: so many bytes of its beginning and as many of its end."""

    kill_grace: str = "10s"
    """How long a command has between SIGTERM and SIGKILL when it is timed out or cancelled."""

    log_format: str = "text"
    """How log lines look: ``text`` for people, ``json`` for machines."""

    def replica_name(self) -> str:
        return self.name or socket.gethostname()

    def journal_url(self) -> str:
        return self.journal or f"sqlite:///{self.data / 'journal.db'}"

    def address(self) -> tuple[str, int]:
        """Host and port of ``listen``."""
        host, colon, port = self.listen.rpartition(":")
        if not colon or not port.isdigit() or not 0 <= int(port) <= 65535:
            raise InvalidInput(
                f"{self.listen!r} is not an address", field="listen", value=self.listen, allowed="HOST:PORT"
            )
        return host.strip("[]") or "127.0.0.1", int(port)
