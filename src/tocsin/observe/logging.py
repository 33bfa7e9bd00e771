"""Log lines: text for people, JSON for machines. On stderr, so that stdout stays for answers.

Values come from callers (ids, reasons, host names), so none of them may start a line of its own or move a
terminal's cursor: whatever is not printable is escaped.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import traceback
from collections.abc import MutableMapping
from typing import Any, TextIO, cast

import structlog
from structlog.processors import ExceptionRenderer
from structlog.tracebacks import ExceptionDictTransformer

from tocsin.errors import InvalidInput
from tocsin.observe.log_stream import LogStream

FORMATS = ("text", "json")
_QUIET = ("uvicorn", "uvicorn.error", "uvicorn.access")
"""Anybody can make these warn, by sending what is not HTTP."""


def configure(format: str) -> None:
    """Set up logging for the whole process."""
    if format not in FORMATS:
        raise InvalidInput(
            f"{format!r} is not a format", field="log_format", value=format, allowed=" or ".join(FORMATS)
        )
    shared: list[structlog.types.Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        escaped,
    ]
    renderers = _renderers(format)
    stream = LogStream(sys.stderr, _tell_lost)
    structlog.configure(
        processors=[*shared, *renderers],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(file=cast(TextIO, stream)),
        cache_logger_on_first_use=True,
    )
    _route_standard_logging(stream, shared, renderers)


def _tell_lost(lines: int) -> None:
    structlog.get_logger().warning("log lines were left out", lines=lines, why="they could not be written")


def escaped(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """No value can forge a line or speak to the terminal."""
    for key, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            event[key] = _printable(value)
    return event


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _renderers(format: str) -> list[structlog.types.Processor]:
    if format == "json":
        # Without the values of variables: payloads and secrets are among them.
        traces = ExceptionRenderer(ExceptionDictTransformer(show_locals=False))
        return [traces, structlog.processors.JSONRenderer()]
    colors = sys.stderr.isatty()
    return [structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=_indented, pad_event_to=0)]


def _indented(out: TextIO, raised: Any) -> None:
    """A traceback has lines of its own; what a message carries in them cannot pass for a line of the log."""
    for line in "".join(traceback.format_exception(*raised)).splitlines():
        out.write("\n  | " + _printable(line))


def _route_standard_logging(stream: LogStream, shared: list[Any], renderers: list[Any]) -> None:
    """What libraries log looks the same, and appears only from warnings on."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.ERROR)
        logging.getLogger(name).addFilter(_tell_cut_off)


def _tell_cut_off(record: logging.LogRecord) -> bool:
    """A request that is still open when the service ends is nobody's error: no trace of it."""
    if record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError):
        record.msg, record.args, record.exc_info = (
            "a request was cut off, because the service ends",
            None,
            None,
        )
    return True
