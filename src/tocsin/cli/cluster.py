"""``cluster``, ``cluster step-down``, ``cluster add``, ``cluster remove`` and ``cluster secret``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.command import Command, Json, Url, ask
from tocsin.cli.printing import REFUSED, print_json, say
from tocsin.cli.usage import ActingFamily
from tocsin.errors import InvalidInput

if TYPE_CHECKING:
    from tocsin.member.secret_file import Secrets
    from tocsin.model.cluster import ClusterView, ReplicaView

_DIGEST_SHOWN = 12


app = typer.Typer(
    cls=ActingFamily,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def cluster(context: typer.Context, url: Url = None, as_json: Json = False) -> None:
    """Show the replicas: who leads, and how far each of them is.

    LAG is how many entries a replica has yet to apply, SNAPSHOT the age of its newest one, DIGEST that of the state in
    it, CLOCK how far its clock is ahead of the one that answers. The exit status is 1 if nobody leads
    (then nothing can be written), if the leader does not answer or was removed, or if two replicas hold different
    states. While the cluster's secret is being changed, it tells which secrets each replica has, and the next step.

    Example: tocsin cluster --url http://a:8400,http://b:8400,http://c:8400
    """
    if context.invoked_subcommand is not None:
        return
    found = ask(url, lambda client: client.cluster())
    wrong = _complaints(found)
    if as_json:
        print_json(found)
    else:
        _show(found)
        if found.rotation:
            _show_secrets(found)
        for complaint in wrong:
            say(complaint)
    if wrong:
        raise typer.Exit(REFUSED)


@app.command("step-down", cls=Command)
def step_down(url: Url = None, as_json: Json = False) -> None:
    """Have the leader resign, so that another replica leads: before its machine is taken down.

    Nothing is lost by it, and what runs goes on running.

    Example: tocsin cluster step-down
    """
    found = ask(url, lambda client: client.step_down())
    if as_json:
        print_json(found)
    elif found.leader:
        print(f"{found.leader} leads now")
    else:
        print("the leader has resigned")
        say("nobody leads yet: 'tocsin cluster' shows who does")


@app.command(cls=Command)
def add(
    replica: Annotated[
        str, typer.Argument(metavar="NAME=HOST:PORT", help="Its name and address.", show_default=False)
    ],
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Let one more replica join. It is then started with an empty data directory and the cluster's secret.

    Two of two must be up to write anything, two of three may: an odd number is best. One at a time.

    Example: tocsin cluster add d=10.0.0.4:8410
    """
    from tocsin.member.address import parse_member

    member = parse_member(replica)
    found = ask(url, lambda client: client.add_replica(member.name, member.peer))
    if as_json:
        print_json(found)
        return
    print(f"{member.name} may join")
    known = {view.name: view.peer for view in found.replicas if view.peer} | {member.name: member.peer}
    listed = ",".join(f"{name}={peer}" for name, peer in sorted(known.items()))
    say(f"start it: tocsin serve --name {member.name} --cluster {listed} --cluster-secret FILE --data DIR")
    say("with a --listen of its own, and with the --journal, --backup and --tokens that the others have")


@app.command(cls=Command)
def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the replica.", show_default=False)],
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Take a replica out for good: it has no vote any more, and its data are of no use.

    Remove a machine that is lost before another one is added in its place. One that is only down for a while need not
    be removed, and one that comes back with an empty disk joins by itself.

    Example: tocsin cluster remove d
    """
    found = ask(url, lambda client: client.remove_replica(name))
    if as_json:
        print_json(found)
    else:
        print(f"{name} removed")


@app.command(cls=Command)
def secret(
    add: Annotated[
        Path | None, typer.Option("--add", metavar="FILE", help="1: add a new secret as the last line.")
    ] = None,
    promote: Annotated[
        Path | None, typer.Option("--promote", metavar="FILE", help="2: put the last line first.")
    ] = None,
    drop: Annotated[
        Path | None, typer.Option("--drop", metavar="FILE", help="3: keep the first line only.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a secret for a new cluster and print it, or change the file of one. No service is needed.

    All replicas are given the same file: whoever has it belongs to the cluster and can read all of it. A replica
    presents the secret in its first line, and trusts those in the other lines too.

    So the secret can be changed while the cluster works, in three rounds: --add, --promote, --drop. In each round
    change the file, copy it to all replicas, and restart them one after the other. Begin the next round when all
    replicas have done this one: 'tocsin cluster' shows that, and names the next step.

    Example: (umask 077; tocsin cluster secret > cluster.secret)

    Example: tocsin cluster secret --add cluster.secret
    """
    from tocsin.member.secret_file import Secrets, new_secret

    asked = [
        (add, Secrets.with_new, "--promote"),
        (promote, Secrets.promoted, "--drop"),
        (drop, Secrets.without_others, ""),
    ]
    given = [(path, change, following) for path, change, following in asked if path is not None]
    if len(given) > 1:
        raise InvalidInput(
            "one round at a time",
            field="--promote" if promote else "--drop",
            value=str(promote or drop),
            allowed="--add, --promote or --drop",
        )
    if given:
        _change_file(*given[0], as_json)
    elif as_json:
        print_json({"secret": new_secret()})
    else:
        print(new_secret())


def _change_file(path: Path, change: Callable[[Secrets], Secrets], following: str, as_json: bool) -> None:
    from tocsin.member.secret import fingerprints
    from tocsin.member.secret_file import read_secrets, write_secrets

    changed = change(read_secrets(path))
    write_secrets(path, changed)
    presented, *trusted = fingerprints(changed)
    if as_json:
        print_json({"file": str(path), "secrets": [presented, *trusted]})
        return
    print(f"{path}: {_secrets_told(presented, trusted)}")
    say("copy it to all replicas, and restart them one after the other")
    if following:
        say(f"when 'tocsin cluster' shows that all have it: tocsin cluster secret {following} {path}")


def _secrets_told(presented: str, trusted: Sequence[str]) -> str:
    return f"presents {presented}, trusts {', '.join(trusted) + ' too' if trusted else 'no other'}"


def _complaints(found: ClusterView) -> list[str]:
    """What somebody must look at, the worst first."""
    roles = {view.name: view.role for view in found.replicas}
    told = []
    if found.reachable < found.majority and not found.leader:
        told.append(
            f"only {found.reachable} of {len(found.replicas)} replicas answer, and nothing can be written or launched "
            f"with fewer than {found.majority}"
        )
    if not found.leader:
        told.append("nobody leads: nothing is launched until one of them does")
    elif roles.get(found.leader) == "unreachable":
        told.append(f"{found.leader} led last and does not answer {found.answered_by}")
    elif found.leader not in roles and len(roles) > 1:  # a stand-by on an etcd knows of nobody but itself
        told.append(f"{found.leader} led last and is no replica of this cluster any more: stop it")
    if not found.digests_agree:
        told.append("two replicas hold different states at the same entry: look at the logs of all of them")
    return told


def _show_secrets(found: ClusterView) -> None:
    """Fingerprints, as the replicas tell them."""
    for view in found.replicas:
        if view.secrets:
            print(f"{view.name}: {_secrets_told(view.secrets[0], view.secrets[1:])}")
    say(found.rotation)


def _show(found: ClusterView) -> None:
    from tocsin.cli.present import Column, is_narrow, printable, table

    columns = (
        Column("NAME"),
        Column("ROLE"),
        Column("TERM"),
        Column("SEQUENCE"),
        Column("LAG"),
        Column("SNAPSHOT"),
        Column("DIGEST"),
        Column("CLOCK"),
        Column("PROBLEM", may_be_cut=True),
    )
    rows = [_row(view) for view in found.replicas]
    if not is_narrow():
        table(columns, rows)
        return
    # Beside all the others that column has no room: a sentence would be cut to a word.
    table(columns[:-1], [row[:-1] for row in rows])
    for view in found.replicas:
        if view.problem:
            print(f"{view.name}: {printable(view.problem)}")


def _row(view: ReplicaView) -> tuple[str, ...]:
    return (
        view.name,
        view.role,
        _number(view.term),
        _number(view.sequence),
        _number(view.lag),
        "-" if view.snapshot_age_s is None else f"{_length(view.snapshot_age_s)} old",
        view.digest[:_DIGEST_SHOWN] or "-",
        "-" if view.clock_offset_ms is None else f"{view.clock_offset_ms / 1000:+.1f}s",
        view.problem,
    )


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _length(seconds: int) -> str:
    from tocsin.cli.present import coarse
    from tocsin.cron import format_duration

    return format_duration(coarse(seconds)) if seconds else "less than 1s"
