"""The etcd program: where it is, whether it is fit, and how it is called."""

from __future__ import annotations

import ipaddress
import os
import re
import shutil
import socket
import subprocess
from pathlib import Path

from tocsin.errors import ClusterError
from tocsin.member.address import etcd_url, on_host, raft_url, split_address
from tocsin.member.secret import Credentials
from tocsin.model.cluster import Member

_INSTALL = "install it (Debian: apt-get install etcd-server), or name it with --etcd"
_LOOK_S = 20
_QUOTA_BYTES = 2 << 30
_REQUEST_BYTES = 4 << 20
_GO = {"GOGC": "40", "GOMAXPROCS": "1"}
"""etcd holds little and is not to hold as much again before it sweeps. And it does little: three that are idle needed
1.8 % of a processor instead of 2.5 % when each had one, because nobody looks for work on the others."""
_WHERE_KNOWN = {
    # A replica that was cut off and comes back does not unseat the leader.
    "pre-vote": "true",
    # Entries are large, and etcd keeps so many of them in memory; who lags further behind gets all of the data instead.
    "snapshot-count": "2000",
    # The log is flushed with each entry; the data that is made of it need not be written ten times a second.
    "backend-batch-interval": "1s",
    "backend-batch-limit": "1000",
    # Addresses are often translated on the way, and the certificate is proof enough.
    "peer-skip-client-san-verification": "true",
    "experimental-peer-skip-client-san-verification": "true",
    "logger": "zap",
    "log-outputs": "stderr",
}
"""Options that came or went with some version of etcd: it refuses to start with one that it does not know."""


class Program:
    """A fit etcd."""

    def __init__(self, path: str, version: tuple[int, int, int], options: str) -> None:
        self.path = path
        self.version = version
        self._options = options

    def command(self, member: Member, credentials: Credentials, data: Path) -> list[str]:
        """How the etcd of this replica is started whenever it is; what it needs only once comes behind it."""
        host = listening_host(member)
        own, authority = credentials.own_file, credentials.authority_file
        given = {
            "name": member.name,
            "data-dir": data,
            "listen-peer-urls": on_host(member, host, 1),
            "initial-advertise-peer-urls": raft_url(member),
            "listen-client-urls": on_host(member, host, 2),
            "advertise-client-urls": etcd_url(member),
            "cert-file": own,
            "key-file": own,
            "trusted-ca-file": authority,
            "client-cert-auth": "true",
            "peer-cert-file": own,
            "peer-key-file": own,
            "peer-trusted-ca-file": authority,
            "peer-client-cert-auth": "true",
            "heartbeat-interval": 200,  # etcd allows no more than a fifth of the election timeout
            "election-timeout": 1000,
            "quota-backend-bytes": _QUOTA_BYTES,
            "max-request-bytes": _REQUEST_BYTES,
            **{name: value for name, value in _WHERE_KNOWN.items() if self._knows(name)},
        }
        return [self.path, *(f"--{name}={value}" for name, value in given.items())]

    def _knows(self, option: str) -> bool:
        return re.search(rf"(?<![\w-])--{option}(?![\w-])", self._options) is not None


def find_program(name: str) -> Program:
    """Raises where there is none, or none that data may be trusted to."""
    path = shutil.which(name)
    if path is None:
        raise ClusterError(f"there is no program {name!r}, which a cluster needs", hint=_INSTALL)
    said = _output(path, "--version")
    found = re.search(r"etcd Version: (\d+)\.(\d+)\.(\d+)", said)
    if found is None:
        raise ClusterError(f"{path} is not etcd", hint=_INSTALL)
    version = (int(found[1]), int(found[2]), int(found[3]))
    spelt = ".".join(found.groups())
    if version < (3, 4, 0):
        raise ClusterError(f"etcd {spelt} is too old", hint="use 3.4 or newer")
    if (3, 5, 0) <= version <= (3, 5, 2):
        raise ClusterError(
            f"etcd {spelt} can damage its data when it is killed", hint="use 3.5.3 or newer, or 3.4"
        )
    return Program(os.path.abspath(path), version, _output(path, "--help"))


def listening_host(member: Member) -> str:
    """The address of this machine to listen on. A name, or an address that is translated on the way, is not one."""
    host, _ = split_address(member.peer)
    try:
        address = ipaddress.ip_address("127.0.0.1" if host.lower() == "localhost" else host)
    except ValueError:
        return _any_address(host)
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((str(address), 0))
        except OSError:
            return "::" if address.version == 6 else "0.0.0.0"
    return str(address)


def _any_address(name: str) -> str:
    try:
        families = {found[0] for found in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)}
    except OSError:
        return "0.0.0.0"
    return "::" if families == {socket.AF_INET6} else "0.0.0.0"


def clean_environment() -> dict[str, str]:
    """etcd takes settings from the environment too, and none of them is meant for this one."""
    kept = ("PATH", "HOME", "TMPDIR", "TZ", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "ETCD_UNSUPPORTED_ARCH")
    return {**_GO, **{name: os.environ[name] for name in kept if name in os.environ}}


def _output(path: str, option: str) -> str:
    try:
        done = subprocess.run(
            [path, option],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LOOK_S,
            env=clean_environment(),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as wrong:
        raise ClusterError(f"{path} cannot be started: {wrong}", hint=_INSTALL) from None
    return (done.stdout + done.stderr).decode(errors="replace")
