"""``import``: very many schedules, a line of JSON each, never all in memory."""

from __future__ import annotations

import io
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, cast

import typer

from tocsin.cli.command import Json, Url, ask
from tocsin.cli.printing import REFUSED, print_json, say
from tocsin.cli.warned import warn
from tocsin.errors import AlreadyExists, InvalidInput, Unreachable

if TYPE_CHECKING:
    from tocsin.client import Client
    from tocsin.model.lines import ImportLine, Summary

_PART_BYTES = 1 << 16
_TOLD_MAX = 100
_ORDER = ("created", "edited", "unchanged", "good", "refused")
_GZIP = b"\x1f\x8b"
_AGAIN = "what was written stays written, and the same lines can be sent again"
_SLOW = "; of a pipe that is silent for 20 s at a time make a file first"


class _Wish(NamedTuple):
    """What is to be done with the lines: see ``Client.import_lines``."""

    mode: Literal["create", "put"]
    check: bool
    past: Literal["skip", "launch"]


class _Source(NamedTuple):
    """What is read, and how far it has come in the file."""

    name: str
    read: Callable[[int], bytes]
    tell: Callable[[], int]
    size: int | None
    """None: nobody knows, it is a pipe."""


def import_schedules(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE|-", help="NDJSON, may be compressed (gzip). -: stdin.", show_default=False
        ),
    ],
    replace: Annotated[
        bool,
        typer.Option("--replace", help="An id that is taken gets the new definition; else it is refused."),
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Only check the lines, write nothing.")] = False,
    launch_past: Annotated[
        bool,
        typer.Option(
            "--launch-past",
            help="Launch what was due once (@at) and has passed; else it counts as launched elsewhere.",
        ),
    ] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Create schedules from lines of JSON, as 'export' writes them. Any number of them.

    A line that is refused stops no other. What was written stays written, and the same file can be sent again: what is
    there already is left unchanged.

    Example: tocsin import schedules.ndjson.gz --check
    """
    with _opened(file) as source:
        wish = _Wish("put" if replace else "create", check, "launch" if launch_past else "skip")
        found = ask(url, lambda client: _import(client, source, wish, as_json))
    if as_json:
        print_json(found)
    else:
        print(_summed_up(found, check))
        warn(found)
    if not found.done or found.counts.get("refused"):
        raise typer.Exit(REFUSED)


async def _import(client: Client, source: _Source, wish: _Wish, as_json: bool) -> Summary:
    from tocsin.model.lines import ImportLine, Summary

    refused = _Refused(as_json)
    summary = Summary(done=False, counts={})
    with _progress(source) as advance:
        answers = client.import_lines(
            _parts(source, advance), mode=wish.mode, check=wish.check, past=wish.past
        )
        try:
            async for line in answers:
                if isinstance(line, ImportLine):
                    refused.tell(line)
                elif isinstance(line, Summary):
                    summary = line
        except Unreachable as cut_off:
            cut_off.hint = cut_off.hint or _AGAIN + (_SLOW if source.size is None else "")
            raise
    refused.conclude()
    return summary


class _Refused:
    """Tells of lines that are refused: all of them to a program, the first to a person."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._count = 0

    def tell(self, line: ImportLine) -> None:
        from tocsin.model.problem import error_of

        self._count += 1
        if self._as_json:
            print_json(line)
        elif self._count <= _TOLD_MAX:
            whose = f" ({line.id})" if line.id else ""
            error = error_of(line.error)
            if isinstance(error, AlreadyExists):
                error.hint = "--replace gives it the new definition"
            say(f"line {line.line}{whose}: {error}")

    def conclude(self) -> None:
        if self._count > _TOLD_MAX and not self._as_json:
            say(f"and {self._count - _TOLD_MAX} more lines were refused")


async def _parts(source: _Source, advance: Callable[[], None]) -> AsyncIterator[bytes]:
    import zlib

    is_first = True
    while True:
        try:
            part = await _read(source)
        except (OSError, EOFError, zlib.error) as wrong:
            raise _unreadable(source.name, wrong) from None
        if not part:
            return
        if is_first:
            _check_is_lines(source.name, part)
            is_first = False
        yield part
        advance()


async def _read(source: _Source) -> bytes:
    """On a thread, because a pipe may be slow and the answers want to be read meanwhile; on one that nobody waits for
    at the end, because a pipe may be silent for ever."""
    import asyncio
    import threading

    loop = asyncio.get_running_loop()
    found: asyncio.Future[bytes] = loop.create_future()

    def settle(part: bytes, wrong: Exception | None) -> None:
        if not found.done():
            found.set_result(part) if wrong is None else found.set_exception(wrong)

    def read() -> None:
        part, failed = b"", None
        try:
            part = source.read(_PART_BYTES)
        except Exception as wrong:  # noqa: BLE001  # why: it is raised where it is waited for
            failed = wrong
        with suppress(RuntimeError):  # nobody waits any more: the loop is closed
            loop.call_soon_threadsafe(settle, part, failed)

    threading.Thread(target=read, daemon=True).start()
    return await found


def _check_is_lines(name: str, part: bytes) -> None:
    """YAML would be refused line by line, a thousand times."""
    first = part.lstrip().partition(b"\n")[0].strip()
    if not first.startswith(b"{") or first == b"{":
        raise InvalidInput(
            f"{name} does not begin with a line of JSON",
            field="file",
            value=name,
            allowed="a schedule a line, each a JSON object, as 'tocsin export' writes them",
            hint="for YAML, TOML and lists there is 'tocsin apply -f'",
        )


@contextmanager
def _opened(file: str) -> Iterator[_Source]:
    """The file, uncompressed if it is compressed, whatever its name says."""
    import gzip

    try:
        raw = _stdin() if file == "-" else open(file, "rb", buffering=0)  # noqa: SIM115  # why: closed below
    except OSError as wrong:
        raise _unreadable(file, wrong) from None
    name = "(stdin)" if file == "-" else file
    try:
        reader = io.BufferedReader(cast("io.RawIOBase", raw))
        is_packed = reader.peek(2)[:2] == _GZIP
        text = gzip.GzipFile(fileobj=reader) if is_packed else reader
        yield _Source(name, text.read1, raw.tell, None if file == "-" else Path(file).stat().st_size)
    except IsADirectoryError as wrong:
        raise _unreadable(file, wrong) from None
    finally:
        if file != "-":
            raw.close()


def _stdin() -> Any:
    """Without Python's own buffer: a thread that still reads it at the end would not let the program go."""
    return getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)


@contextmanager
def _progress(source: _Source) -> Iterator[Callable[[], None]]:
    """A bar on stderr while a person looks, by the bytes of the file."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        redirect_stdout=sys.stdout.isatty(),
        transient=True,
    ) as bar:
        task = bar.add_task("importing", total=source.size)
        read = 0

        def advance() -> None:
            nonlocal read
            read += _PART_BYTES
            bar.update(task, completed=read if source.size is None else source.tell())

        yield advance


def _summed_up(found: Summary, check: bool) -> str:
    order = [*_ORDER[:-1], *sorted(set(found.counts) - set(_ORDER)), _ORDER[-1]]
    counts = ", ".join(f"{found.counts[name]} {name}" for name in order if found.counts.get(name))
    total = sum(found.counts.values())
    told = f"{'1 line' if total == 1 else f'{total} lines'}{': ' + counts if counts else ''}"
    remark = "; nothing was written" if check else ""
    return told + remark + ("" if found.done else "; what follows was not read")


def _unreadable(name: str, wrong: Exception) -> InvalidInput:
    reason = getattr(wrong, "strerror", None) or str(wrong)
    return InvalidInput(f"{name} cannot be read: {reason}", field="file", value=name)
