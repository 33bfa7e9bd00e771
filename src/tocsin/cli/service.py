"""The process that serves: what ``tocsin serve`` becomes once its options are read.

It is a new program in the same process. What reads options and prints help (typer, pydantic, rich) is a fifth of the
memory of an idle replica, and a service needs none of it.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from tocsin.cli.printing import INTERRUPTED, exit_status, print_json, report
from tocsin.errors import TocsinError

if TYPE_CHECKING:
    from tocsin.config import Settings

_UNUSED = ("rich", "pydantic", "greenlet")
"""structlog and Litestar load these wherever they are installed, and use them for what is not done here."""
_HOLLOW = ("uvicorn.main", "pdb")
"""uvicorn always loads its command line, which loads click, and Litestar a debugger: 2 MB in each replica. Neither
starts without them, so there is something in their place."""
_HOLLOW_FOR_LITESTAR = "yaml"
"""Litestar loads it for a page that is not shown here; a megabyte. Whoever needs it later gets the real one."""
_FLAGS = ("-P", "-X", "no_debug_ranges")
"""Nothing is imported from the working directory. Positions of columns, which only stack traces show, take memory."""
_PROGRAM = """
import sys
home = sys.argv.pop(1)
if home not in sys.path:
    sys.path.insert(0, home)
from tocsin.cli.service import main
sys.exit(main())
"""
"""The same Tocsin, wherever it was found."""
_START = "TOCSIN_START"
"""The variable that tells the new program which open file has the options. Others could read those in an argument, and
a variable has room for 128 KiB."""
_EXAMPLES = Path(__file__).parent / "examples" / "first.yaml"
_OVERHEARD = "it listens beyond this machine without TLS: tokens and payloads can be read on the way"


class Start(msgspec.Struct, kw_only=True):
    """What was asked for on the command line and in the environment."""

    given: dict[str, Any]
    """Settings by name."""
    example: bool
    as_json: bool
    program: str = msgspec.field(default_factory=lambda: sys.argv[0])
    """How it was called."""


class _Hollow(ModuleType):
    """A module from which everything can be imported, and of which nothing is used."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


def _hold_standard_streams() -> None:
    """Where one was closed (``>&-``), the next file that is opened would take its place, and be written to."""
    for number, mode in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, mode), True)  # the lowest that is free
    if sys.stdout is not None:
        sys.stdout.flush()


def become(start: Start) -> NoReturn:
    """Go on as the service, under the same process id."""
    import zoneinfo

    from tocsin.config import Settings

    Settings(**start.given)  # what is wrong with them is told here
    _hold_standard_streams()
    options = tempfile.TemporaryFile()  # noqa: SIM115  # why: the new program closes it
    options.write(json.dumps(msgspec.to_builtins(start, enc_hook=str)).encode())
    options.seek(0)
    os.set_inheritable(options.fileno(), True)
    # Without the first, zoneinfo loads half a megabyte about how Python was built, to find the same.
    zones = {"PYTHONTZPATH": os.pathsep.join(zoneinfo.TZPATH)}
    environment = {**zones, **os.environ, _START: str(options.fileno())}
    home = str(Path(__file__).parents[2])
    os.execve(sys.executable, [sys.executable, *_FLAGS, "-c", _PROGRAM, home, *sys.argv[1:]], environment)


def leave_out_unused() -> None:
    """Before anything else is loaded: what is not used takes no memory."""
    for package in _UNUSED:
        sys.modules.setdefault(package, None)  # type: ignore[arg-type]  # why: None makes their import fail
    for name in _HOLLOW:
        sys.modules.setdefault(name, _Hollow(name))


@contextmanager
def _hollow(name: str) -> Iterator[None]:
    """Put an empty module of this name in place for a while, unless the real one is loaded already."""
    found = sys.modules.setdefault(name, _Hollow(name))
    try:
        yield
    finally:
        if isinstance(found, _Hollow):
            del sys.modules[name]


def main() -> int:
    leave_out_unused()
    with open(int(os.environ.pop(_START)), "rb") as options:
        start = msgspec.convert(json.load(options), Start)
    try:
        return _run(start)
    except TocsinError as error:
        report(error, start.as_json)
        return exit_status(error)
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(start: Start) -> int:
    import asyncio

    import uvloop

    from tocsin.config import Settings
    from tocsin.node import compose, raise_file_limit
    from tocsin.observe import logging

    settings = msgspec.convert(start.given, Settings, dec_hook=lambda type, value: type(value))
    logging.configure(settings.log_format)
    raise_file_limit()
    node = compose(settings)
    _warn_of_listeners(settings)
    _warn_of_variables()
    # Only now, when the settings are known to be good: it takes half a second to load.
    with _hollow(_HOLLOW_FOR_LITESTAR):
        from tocsin.api import server
        from tocsin.ui.console import console

    async def on_ready(url: str) -> None:
        _warn_of_root(settings)
        added = await _add_examples(url, settings) if start.example else 0
        _greet(url, settings, added, start)

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


def _warn_of_root(settings: Settings) -> None:
    from tocsin.targets.permissions import permissions_of

    permissions = permissions_of(settings)
    may_be_root = permissions.users is None or permissions.own_user in permissions.users
    if os.geteuid() == 0 and permissions.allow_exec and may_be_root:
        import structlog

        structlog.get_logger().warning(
            "commands run as root",
            remedy="a user of its own for the service, --exec-users NAMES, or --allow-exec no",
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


def _greet(url: str, settings: Settings, added: int, start: Start) -> None:
    """What a person needs next, once, on stdout; the log goes to stderr."""
    if start.as_json:
        print_json({"url": url, "data": str(settings.data.absolute()), "replica": settings.replica_name()})
    elif settings.cluster:
        print(_cluster_greeting(url, settings, added, start.program))
    else:
        program = _program(start.program)
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


def _cluster_greeting(url: str, settings: Settings, added: int, program: str) -> str:
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
    return "\n".join([*lines, f"  {_program(program)} cluster --url {url}"])


def _program(called_as: str) -> str:
    """How this program is called from here: it may stand in a virtual environment that is not on the path."""
    called = Path(called_as)
    if shutil.which("tocsin") or called.name != "tocsin":
        return "tocsin"
    return os.path.relpath(called)
