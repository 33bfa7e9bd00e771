"""Every setting, with its default, its environment variable and what it is for.

A setting is given on the command line of ``tocsin serve``, or in the environment as ``TOCSIN_<NAME>``.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

import msgspec

from tocsin.errors import InvalidInput

_PREFIX = "TOCSIN_"
SECRET_PREFIX = "TOCSIN_SECRET_"
"""Secrets that http targets may sign with, unless the setting ``secrets`` names others."""
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}")
_AUDIT_LABELS_MAX = 4
_OTHERS = "URL TOKEN CA LAUNCH SCHEDULE SCHEDULED_AT ATTEMPT TERM"
"""What clients go by, and what commands are told: a command may well start a service."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one node."""

    data: Path = Path("tocsin-data")
    """Directory for everything this node keeps: journal, state, snapshots, records of commands."""

    listen: str = "127.0.0.1:8400"
    """Address of the API, HOST:PORT. On any other than loopback callers need tokens, and TLS should be on."""

    tls_cert: str = ""
    """File of the certificate (PEM, with its chain) that the API shows. Read again when it changes."""

    tls_key: str = ""
    """File of the certificate's private key (PEM, without a passphrase)."""

    tokens: str = "auto"
    """Whether callers need a token. ``auto``: unless ``listen`` and all of ``cluster`` are loopback; ``always``:
    everywhere."""

    rate_limit: int = 2_000
    """How many requests a second one caller may make; 0: any number."""

    session_length: str = "12h"
    """How long a login at the console lasts, where callers need tokens."""

    trusted_proxies: str = ""
    """Proxies in front of the API, addresses or networks separated by commas. Of them it is believed for whom they ask
    (``X-Forwarded-For``, ``X-Forwarded-Proto``). Only where callers need tokens."""

    access_log: bool = False
    """Whether each request is logged: who asked for what, from where, and how that ended."""

    herd_limit: int = 0
    """How many launches may be planned for one second of the day to come, by what schedules say when they are written;
    0: any number. See docs/herd.md."""

    herd_action: str = "warn"
    """What becomes of a schedule that would make a second fuller than ``herd_limit``: ``warn``: it is written, and the
    answer says so; ``refuse``: it is not."""

    allow_exec: str = "auto"
    """Whether schedules may run commands. ``auto``: only where nobody needs a token; ``yes``: whoever has the scope
    ``exec`` may write them; ``no``."""

    exec_users: str = ""
    """Users that commands may be run as, separated by commas; ``*``: any. Empty: the service's own user where nobody
    needs a token, otherwise nobody. Commands of the service's own user can read all that it can, tokens included."""

    exec_cgroups: str = "auto"
    """Whether commands with ``limits`` or a time-out get control groups (cgroup v2) of their own. ``auto``: where the
    service may make them; ``no``."""

    http_allow: str = ""
    """If given, http targets may call only these: hosts, ``*.example.org``, networks, separated by commas."""

    http_deny: str = ""
    """What http targets may not call: hosts, ``*.example.org``, networks such as ``10.0.0.0/8``."""

    secrets: str = ""
    """Secrets that http targets may sign with: ``env:NAME``, ``env:PREFIX_*``, ``file:/folder/*``, separated by
    commas; those with a host behind them, ``env:NAME@pay.example.org``, may also be sent there. Empty: any, or where
    callers need tokens ``env:TOCSIN_SECRET_*`` and ``file:<data>/secrets/*``, to sign with."""

    kafka: str = ""
    """The Kafka that kafka targets send to, ``HOST:PORT,HOST:PORT``. Empty: there is none."""

    kafka_config: str = ""
    """File with further properties of the producer, one ``name=value`` a line: TLS, SASL."""

    kafka_topics: str = ""
    """If given, kafka targets may send only to these topics: names or patterns (``reminders.*``), separated by
    commas."""

    nats: str = ""
    """The NATS that nats targets send to, ``nats://HOST:PORT`` or ``tls://HOST:PORT``, several with commas. Empty:
    there is none."""

    nats_creds: str = ""
    """File with the credentials for NATS (``.creds``)."""

    nats_ca: str = ""
    """File with the certificates (PEM) of those who may vouch for NATS. Empty: those that the machine trusts."""

    nats_subjects: str = ""
    """If given, nats targets may send only to these subjects: names or patterns (``reminders.*``), separated by
    commas."""

    limits: str = ""
    """File (YAML) with limits of rate and concurrency for targets and labels. The same on all replicas. Empty: none."""

    journal: str = ""
    """URL of the journal. Empty: ``sqlite:///<data>/journal.db``."""

    name: str = ""
    """Name of this replica. Empty: the machine's host name."""

    cluster: str = ""
    """The replicas of a cluster, ``a=HOST:PORT,b=HOST:PORT,c=HOST:PORT``, this one (``name``) among them. On PORT they
    talk to each other, PORT+1 and PORT+2 are for the etcd that each of them runs. Empty: one machine, no cluster."""

    cluster_secret: str = ""
    """File with the secret that all replicas of a cluster share: whoever has it belongs to it."""

    etcd: str = "etcd"
    """The ``etcd`` program that each replica of a cluster runs for itself."""

    recover: bool = False
    """The majority of the cluster is lost for ever, and this replica survived: go on with it alone, and let the others
    join anew. What it had not heard of before the loss is gone."""

    backup: str = ""
    """Where snapshots are copied to: a folder, or a URL that fsspec knows (``s3://bucket/folder``). Empty: nowhere."""

    backup_keep: int = 10
    """How many backups are kept."""

    snapshot_interval: str = "5m"
    """How often the state is written as a snapshot, behind which the journal is trimmed."""

    history_age: str = "30d"
    """How long ended launches are kept."""

    history_each: int = 1_000
    """How many ended launches of one schedule are kept."""

    history_total: int = 10_000_000
    """How many ended launches are kept in all."""

    clock_step: str = "30s"
    """How far the wall clock may step while the machine runs. Beyond it nothing that depends on time is decided until
    the clock is right again, other replicas agree with it, or ``tocsin clock confirm``. See docs/clock.md."""

    clock_gap: str = "7d"
    """How far the wall clock may be ahead of the last entry when the service starts after a reboot. Beyond it, the
    same."""

    output_bytes: int = 65_536
    """How much of a command's output is kept: so many bytes of its beginning and as many of its end."""

    kill_grace: str = "10s"
    """How long a command has between SIGTERM and SIGKILL when it is timed out or cancelled."""

    audit_labels: str = ""
    """Labels of schedules by which the figures of the audit are broken out in the metrics, separated by commas:
    ``team,tier``. Of each the first 50 values are counted on their own, the rest as ``other``."""

    log_format: str = "text"
    """How log lines look: ``text`` for people, ``json`` for machines."""

    def check(self) -> None:
        """Raise for a value that no part of the node could make sense of."""
        self.address()
        _one_of("tokens", self.tokens, ("auto", "always"))
        _one_of("allow_exec", self.allow_exec, ("auto", "yes", "no"))
        _one_of("exec_cgroups", self.exec_cgroups, ("auto", "no"))
        _one_of("herd_action", self.herd_action, ("warn", "refuse"))
        if self.herd_limit < 0:
            raise InvalidInput(
                f"{self.herd_limit} is out of range",
                field="herd_limit",
                value=self.herd_limit,
                allowed="0 (none) or more",
            )
        if self.rate_limit < 0:
            raise InvalidInput(
                f"{self.rate_limit} is out of range",
                field="rate_limit",
                value=self.rate_limit,
                allowed="0 (none) or more",
            )
        self.audit_label_keys()
        if self.proxy_networks() and not self.needs_tokens():
            raise InvalidInput(
                "nobody needs a token here, so a proxy would let everybody in",
                field="trusted_proxies",
                value=self.trusted_proxies,
                allowed="proxies of a service that asks for tokens",
                hint="serve with --tokens always, or leave --trusted-proxies away",
            )
        if not self.cluster and (self.cluster_secret or self.recover):
            given = "--cluster-secret" if self.cluster_secret else "--recover"
            raise InvalidInput(
                f"{given} is for a replica of a cluster, and no cluster is given",
                field="cluster",
                value="",
                allowed="a=HOST:PORT,b=HOST:PORT,c=HOST:PORT, all replicas with this one",
                hint=f"give --cluster too, or leave {given} away",
            )
        if bool(self.tls_cert) != bool(self.tls_key):
            missing = "tls_key" if self.tls_cert else "tls_cert"
            raise InvalidInput(
                "TLS needs a certificate and its key", field=missing, value="", allowed="both or none of them"
            )

    def proxy_networks(self) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
        """The networks that ``trusted_proxies`` names."""
        try:
            return tuple(
                ipaddress.ip_network(each.strip()) for each in self.trusted_proxies.split(",") if each.strip()
            )
        except ValueError as wrong:
            raise InvalidInput(
                f"{self.trusted_proxies!r} cannot be proxies: {wrong}",
                field="trusted_proxies",
                value=self.trusted_proxies,
                allowed="addresses or networks, separated by commas: 10.0.0.7,192.168.5.0/24",
            ) from None

    def audit_label_keys(self) -> tuple[str, ...]:
        """The labels that ``audit_labels`` names."""
        keys = tuple(key.strip() for key in self.audit_labels.split(",") if key.strip())
        spelt = {re.sub(r"[^A-Za-z0-9_]", "_", key) for key in keys}
        if len(spelt) < len(keys) or len(keys) > _AUDIT_LABELS_MAX or not all(map(_LABEL.fullmatch, keys)):
            raise InvalidInput(
                f"{self.audit_labels!r} cannot be labels of the metrics",
                field="audit_labels",
                value=self.audit_labels,
                allowed=f"up to {_AUDIT_LABELS_MAX} labels of schedules, separated by commas, that stay different "
                "when all but letters, digits and _ becomes _",
            )
        return keys

    def is_loopback(self) -> bool:
        """Does the API listen where only this machine can reach it?"""
        return _is_loopback(self.address()[0])

    def is_tls(self) -> bool:
        return bool(self.tls_cert)

    def is_exposed(self) -> bool:
        """Can others on the network read what is said: tokens and payloads?"""
        return not self.is_loopback() and not self.is_tls()

    def admin_file(self) -> Path:
        """Where the first token is put, for the one who runs the service."""
        return self.data / "admin.token"

    def needs_tokens(self) -> bool:
        return self.tokens == "always" or not self.is_loopback() or self._spans_machines()

    def _spans_machines(self) -> bool:
        """Is this a replica of a cluster with others on other machines? Then whoever is let in here is let in there."""
        hosts = [part.partition("=")[2] for part in self.cluster.split(",") if part.strip()]
        return not all(_is_loopback(host.strip().rpartition(":")[0] or host.strip()) for host in hosts)

    def allows_exec(self) -> bool:
        return self.allow_exec == "yes" or (self.allow_exec == "auto" and not self.needs_tokens())

    def replica_name(self) -> str:
        return self.name or socket.gethostname()

    def journal_url(self) -> str:
        return self.journal or f"sqlite:///{self.data / 'journal.db'}"

    def address(self) -> tuple[str, int]:
        """Host and port of ``listen``."""
        host, colon, port = self.listen.rpartition(":")
        if not colon or not port.isdigit() or not 0 <= int(port) <= 65535:
            raise InvalidInput(
                f"{self.listen!r} is not an address",
                field="listen",
                value=self.listen,
                allowed="HOST:PORT, with a port of 0 (any) to 65535",
            )
        return host.strip("[]") or "127.0.0.1", int(port)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def misspelt(variables: Iterable[str]) -> list[tuple[str, str]]:
    """Variables that look like ours and are not, each with the one that was probably meant; empty: none is near."""
    known = sorted(name.upper() for name in Settings.__struct_fields__)
    ours = [
        name.removeprefix(_PREFIX)
        for name in variables
        if name.startswith(_PREFIX) and not name.startswith(SECRET_PREFIX)
    ]
    strangers = sorted(set(ours) - {*known, *_OTHERS.split()})
    near = [next(iter(get_close_matches(name, known, n=1)), "") for name in strangers]
    return [(_PREFIX + name, found and _PREFIX + found) for name, found in zip(strangers, near, strict=True)]


def _one_of(field: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InvalidInput(
            f"{value!r} is not a choice", field=field, value=value, allowed=" or ".join(allowed)
        )
