"""``tocsin serve``: the one command that runs the service itself."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tocsin.cli.command import Json, print_json

if TYPE_CHECKING:
    from tocsin.config import Settings

_EXAMPLES = Path(__file__).parent / "examples" / "first.yaml"
_OVERHEARD = "it listens beyond this machine without TLS: tokens and payloads can be read on the way"


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
        str | None, _option("exec_users", "Other users that commands may run as: a,b or *.", "none")
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
    raise typer.Exit(_run(given, example, as_json))


def _run(given: dict[str, Any], example: bool, as_json: bool) -> int:
    import asyncio

    import uvloop

    from tocsin.config import Settings
    from tocsin.node import compose, raise_file_limit
    from tocsin.observe import logging

    settings = Settings(**{key: value for key, value in given.items() if value is not None})
    logging.configure(settings.log_format)
    raise_file_limit()
    node = compose(settings)
    _warn_of_listeners(settings)
    _warn_of_variables()
    # Only now, when the settings are known to be good: it takes half a second to load.
    from tocsin.api import server
    from tocsin.ui import console

    async def on_ready(url: str) -> None:
        added = await _add_examples(url, settings) if example else 0
        _greet(url, settings, added, as_json)

    async def whole() -> int:
        return await server.run(node.replica, settings, on_ready, around=node.around, console=console())

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(whole())


def _warn_of_listeners(settings: Settings) -> None:
    if settings.is_exposed():
        import structlog

        structlog.get_logger().warning(
            _OVERHEARD, listen=settings.listen, remedy="--tls-cert and --tls-key, or a proxy that speaks TLS"
        )


def _warn_of_variables() -> None:
    """A setting that nobody reads looks as if it were in force."""
    import structlog

    from tocsin.config import misspelt

    for name, near in misspelt(os.environ):
        remedy = f"did you mean {near}?" if near else "'tocsin serve --help' lists the settings"
        structlog.get_logger().warning("a variable in the environment is not known", name=name, remedy=remedy)


async def _add_examples(url: str, settings: Settings) -> int:
    """The example schedules, through the front door. Only into a store that holds nothing."""
    from tocsin.cli.define.documents import read_documents
    from tocsin.client import Client
    from tocsin.errors import Forbidden

    admin = settings.admin_file()
    token = admin.read_text().strip() if settings.needs_tokens() and admin.exists() else ""
    async with Client(url, ca=settings.tls_cert, any_name=True, token=token) as client:
        if (await client.schedule_page(limit=1)).items:
            return 0
        added = 0
        for document in read_documents([str(_EXAMPLES)]):
            with suppress(Forbidden):  # commands may not be allowed here
                await client.create(document.schedule)
                added += 1
        return added


def _greet(url: str, settings: Settings, added: int, as_json: bool) -> None:
    """What a person needs next, once, on stdout; the log goes to stderr."""
    if as_json:
        print_json({"url": url, "data": str(settings.data.absolute()), "replica": settings.replica_name()})
    elif settings.cluster:
        print(_cluster_greeting(url, settings, added))
    else:
        program = _program()
        option = "" if url == "http://127.0.0.1:8400" else f" --url {url}"
        trust = f"  export TOCSIN_CA={Path(settings.tls_cert).absolute()}\n" if settings.is_tls() else ""
        if settings.needs_tokens():
            trust += f"  export TOCSIN_TOKEN=$(cat {settings.admin_file().absolute()})\n"
        hello = "--shell 'echo hello'" if settings.allows_exec() else "--null"
        warning = f"  Warning: {_OVERHEARD}.\n" if settings.is_exposed() else ""
        examples = f"  {added} example schedules were added.\n" if added else ""
        print(
            f"\nTocsin is ready at {url}, data in {settings.data.absolute()}\n{warning}{examples}\n"
            f"Open that address in a browser, or type in another terminal:\n{trust}"
            f"  {program} launches{option}\n"
            f"  {program} add hello '*/10 * * * * *' {hello}{option}\n"
            f"  {program} why hello{option}\n",
        )
    sys.stdout.flush()


def _cluster_greeting(url: str, settings: Settings, added: int) -> str:
    """Short: a replica is started again and again, and its log is read by whoever looks for something else."""
    names = ", ".join(part.partition("=")[0].strip() for part in settings.cluster.split(",") if part.strip())
    lines = [f"Tocsin is ready at {url} as replica {settings.replica_name()} of {names}"]
    if added:
        lines.append(f"  {added} example schedules were added")
    if settings.is_tls():
        lines.append(f"  export TOCSIN_CA={Path(settings.tls_cert).absolute()}")
    if settings.needs_tokens():
        admin = settings.admin_file()
        lines.append(
            f"  export TOCSIN_TOKEN=$(cat {admin.absolute()})"
            if admin.exists()
            else "  the admin token is in admin.token of one of the replicas"
        )
    return "\n".join([*lines, f"  {_program()} cluster --url {url}"])


def _program() -> str:
    """How this program is called from here: it may stand in a virtual environment that is not on the path."""
    called = Path(sys.argv[0])
    if shutil.which("tocsin") or called.name != "tocsin":
        return "tocsin"
    return os.path.relpath(called)
