"""``tocsin serve``: the one command that runs the service itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tocsin.cli.command import Json


def _option(name: str, help: str, default: str) -> Any:
    """An option that is also ``TOCSIN_<NAME>`` in the environment; the default stands in ``Settings``."""
    return typer.Option(
        f"--{name.replace('_', '-')}", envvar=f"TOCSIN_{name.upper()}", help=help, show_default=default
    )


def serve(
    data: Annotated[
        Path | None, _option("data", "Directory for all that this node keeps.", "tocsin-data")
    ] = None,
    listen: Annotated[
        str | None, _option("listen", "Address of the API; port 0: any.", "127.0.0.1:8400")
    ] = None,
    tls_cert: Annotated[
        str | None, _option("tls_cert", "File of the certificate, with its chain; then it is https.", "none")
    ] = None,
    tls_key: Annotated[
        str | None, _option("tls_key", "File of the certificate's private key.", "none")
    ] = None,
    tokens: Annotated[
        str | None, _option("tokens", "Who needs a token: auto (all unless on loopback), always.", "auto")
    ] = None,
    rate_limit: Annotated[
        int | None, _option("rate_limit", "Requests a second that one caller may make; 0: any.", "2000")
    ] = None,
    session_length: Annotated[
        str | None, _option("session_length", "How long a login at the console lasts.", "12h")
    ] = None,
    trusted_proxies: Annotated[
        str | None,
        _option("trusted_proxies", "Proxies that say for whom they ask: addresses, networks.", "none"),
    ] = None,
    access_log: Annotated[
        bool | None, _option("access_log", "Log each request: who, what, from where, status.", "False")
    ] = None,
    herd_limit: Annotated[
        int | None, _option("herd_limit", "Launches that may be planned for one second; 0: any.", "0")
    ] = None,
    herd_action: Annotated[
        str | None, _option("herd_action", "What is done about more than that: warn, refuse.", "warn")
    ] = None,
    allow_exec: Annotated[
        str | None,
        _option("allow_exec", "Commands allowed: auto (if nobody needs a token), yes, no.", "auto"),
    ] = None,
    exec_users: Annotated[
        str | None,
        _option("exec_users", "Users that commands may run as: a,b or *.", "the own one, if without tokens"),
    ] = None,
    exec_cgroups: Annotated[
        str | None,
        _option("exec_cgroups", "Control groups for commands: auto (where they can be made), no.", "auto"),
    ] = None,
    http_allow: Annotated[
        str | None, _option("http_allow", "Only these may be called: hosts, *.host, networks.", "any")
    ] = None,
    http_deny: Annotated[
        str | None, _option("http_deny", "These may not be called: hosts, *.host, networks.", "none")
    ] = None,
    secrets: Annotated[
        str | None,
        _option("secrets", "Secrets to sign with: env:NAME, file:/folder/*.", "see docs/targets.md"),
    ] = None,
    kafka: Annotated[
        str | None, _option("kafka", "The Kafka that kafka targets send to: HOST:PORT,HOST:PORT.", "none")
    ] = None,
    kafka_config: Annotated[
        str | None, _option("kafka_config", "File with further properties of the producer.", "none")
    ] = None,
    kafka_topics: Annotated[
        str | None, _option("kafka_topics", "Only these topics may be sent to: names, patterns.", "any")
    ] = None,
    nats: Annotated[
        str | None, _option("nats", "The NATS that nats targets send to: nats://HOST:PORT.", "none")
    ] = None,
    nats_creds: Annotated[
        str | None, _option("nats_creds", "File with the credentials for NATS.", "none")
    ] = None,
    nats_ca: Annotated[
        str | None, _option("nats_ca", "File with the certificates that vouch for NATS.", "the machine's")
    ] = None,
    nats_subjects: Annotated[
        str | None, _option("nats_subjects", "Only these subjects may be sent to: names, patterns.", "any")
    ] = None,
    limits: Annotated[
        str | None, _option("limits", "File with limits of rate and concurrency.", "none")
    ] = None,
    journal: Annotated[
        str | None, _option("journal", "URL of the journal.", "sqlite:///DATA/journal.db")
    ] = None,
    name: Annotated[str | None, _option("name", "Name of this replica.", "the host name")] = None,
    cluster: Annotated[
        str | None, _option("cluster", "All replicas: a=HOST:PORT,b=HOST:PORT,c=HOST:PORT.", "none")
    ] = None,
    cluster_secret: Annotated[
        str | None, _option("cluster_secret", "File with the secret that all replicas share.", "none")
    ] = None,
    etcd: Annotated[
        str | None, _option("etcd", "The etcd program that each replica of a cluster runs.", "etcd")
    ] = None,
    recover: Annotated[
        bool | None,
        _option("recover", "The majority is lost for ever: go on with this replica alone.", "False"),
    ] = None,
    backup: Annotated[
        str | None, _option("backup", "Folder or URL (s3://...) that snapshots are copied to.", "none")
    ] = None,
    backup_keep: Annotated[int | None, _option("backup_keep", "How many backups are kept.", "10")] = None,
    snapshot_interval: Annotated[
        str | None, _option("snapshot_interval", "How often the state is saved as a snapshot.", "5m")
    ] = None,
    history_age: Annotated[
        str | None, _option("history_age", "How long ended launches are kept.", "30d")
    ] = None,
    history_each: Annotated[
        int | None, _option("history_each", "How many ended launches of one schedule are kept.", "1000")
    ] = None,
    history_total: Annotated[
        int | None, _option("history_total", "How many ended launches are kept in all.", "10000000")
    ] = None,
    clock_step: Annotated[
        str | None, _option("clock_step", "How far the wall clock may step before it is doubted.", "30s")
    ] = None,
    clock_gap: Annotated[
        str | None, _option("clock_gap", "How far it may be ahead of the last entry after a reboot.", "7d")
    ] = None,
    output_bytes: Annotated[
        int | None, _option("output_bytes", "Bytes of output kept: of its beginning and of its end.", "65536")
    ] = None,
    kill_grace: Annotated[
        str | None, _option("kill_grace", "Time between SIGTERM and SIGKILL of a command.", "10s")
    ] = None,
    audit_labels: Annotated[
        str | None, _option("audit_labels", "Labels to break the audit's metrics out by: team,tier.", "none")
    ] = None,
    log_format: Annotated[
        str | None, _option("log_format", "Log lines: text for people, json for machines.", "text")
    ] = None,
    example: Annotated[
        bool, typer.Option("--example", help="Add example schedules if there are none.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run the service.

    All it keeps is in one directory; stop it with Ctrl-C and start it again, and it goes on where it was.

    Example: tocsin serve --data ./tocsin-data --example
    """
    given = {key: value for key, value in locals().items() if key not in ("example", "as_json")}
    from tocsin.cli.service import Start, become

    become(
        Start(
            given={key: value for key, value in given.items() if value is not None},
            example=example,
            as_json=as_json,
        )
    )
