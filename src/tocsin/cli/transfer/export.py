"""``export``: all schedules as they were written, to take elsewhere."""

from __future__ import annotations

import enum
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.command import Json, Url, ask, pairs
from tocsin.cli.printing import print_json, say
from tocsin.errors import InvalidInput

if TYPE_CHECKING:
    from tocsin.model.schedule import Schedule

_TELL_EVERY = 500
_FLUSH_AT = 1 << 16
Write = Callable[[bytes | bytearray], object]


class Form(enum.StrEnum):
    """How a schedule is written."""

    NDJSON = "ndjson"
    YAML = "yaml"


def export_schedules(
    prefix: Annotated[str, typer.Option("--prefix", help="Only ids that begin so.")] = "",
    label: Annotated[list[str] | None, typer.Option("--label", metavar="K=V", help="Several.")] = None,
    enabled: Annotated[bool | None, typer.Option("--enabled/--paused", help="Only those.")] = None,
    output: Annotated[
        Form, typer.Option("--output", "-o", help="ndjson for 'import', yaml for 'apply'.")
    ] = Form.NDJSON,
    file: Annotated[
        str,
        typer.Option("--file", "-f", metavar="FILE", help="Instead of stdout; compressed if it ends in .gz."),
    ] = "",
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Write all schedules, as they were defined, to stdout or a file.

    A file is there as a whole or not at all. What was launched is not in it.

    Example: tocsin export --prefix billing/ --file billing.ndjson.gz
    """
    labels = pairs(label, "label")
    if as_json and output is Form.YAML:
        raise InvalidInput(
            "these are two forms", field="--json", value="yaml", allowed="one of --json and -o yaml"
        )
    with _opened(file) as write, _counter(file) as tell:
        count = ask(
            url,
            lambda client: _export(
                client.export(prefix=prefix, labels=labels, enabled=enabled), write, tell, output
            ),
        )
    if file and as_json:
        print_json({"file": file, "schedules": count})
    elif file:
        print(f"{file}: {_schedules(count)}")
    elif not count:
        say("no schedules")


async def _export(
    schedules: AsyncIterator[Schedule], write: Write, tell: Callable[[int], None], form: Form
) -> int:
    count = 0
    pending = bytearray()
    async for schedule in schedules:
        pending += _written(schedule, form)
        count += 1
        if len(pending) >= _FLUSH_AT:
            write(pending)
            pending.clear()
        if count % _TELL_EVERY == 0:
            tell(count)
    write(pending)
    return count


def _written(schedule: Schedule, form: Form) -> bytes:
    if form is Form.YAML:
        from tocsin.cli.look.versions import as_yaml

        return f"---\n{as_yaml(schedule)}".encode()
    import msgspec

    return msgspec.json.encode(schedule) + b"\n"


@contextmanager
def _opened(file: str) -> Iterator[Write]:
    """Where it goes. A file takes its place only when all of it is on the disk."""
    if not file or file == "-":
        yield sys.stdout.buffer.write
        sys.stdout.buffer.flush()
        return
    path = Path(file)
    being_written = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(being_written, "xb") as raw:
            if path.suffix == ".gz":
                import gzip

                with gzip.GzipFile(path.name, "wb", 6, raw) as packed:
                    yield packed.write
            else:
                yield raw.write
            raw.flush()
            os.fsync(raw.fileno())
        os.replace(being_written, path)
    except OSError as wrong:
        raise InvalidInput(
            f"{file} cannot be written: {wrong.strerror or wrong}", field="--file", value=file
        ) from None
    finally:
        being_written.unlink(missing_ok=True)


@contextmanager
def _counter(file: str) -> Iterator[Callable[[int], None]]:
    """How many so far, on stderr while a person looks and the schedules themselves do not go there too."""
    if not sys.stderr.isatty() or (sys.stdout.isatty() and not file):
        yield lambda count: None
        return
    from rich.console import Console

    with Console(stderr=True).status("exporting") as told:
        yield lambda count: told.update(f"exporting: {_schedules(count)}")


def _schedules(count: int) -> str:
    return "1 schedule" if count == 1 else f"{count} schedules"
