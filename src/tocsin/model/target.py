"""Where launches go. One struct a kind; ``kind`` tells them apart in JSON.

Secrets are references (``env:NAME`` or ``file:/path``): the value is read at the call and never stored or shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Sized
from urllib.parse import urlsplit

import msgspec

from tocsin.cron import parse_duration
from tocsin.errors import InvalidInput
from tocsin.model.references import SECRET_PATTERN, check_references, references_in

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
HTTP_TIMEOUT_S_MAX = 3_600
"""A call that is waited for longer holds a place that others need."""
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD")
ARGV_MAX = 2000
ENV_MAX = 500
HEADERS_MAX = 100
SUCCESS_MAX = 20
SUBJECT_MAX = 250


class ExecLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Optional ceilings for one command and all that it starts. Where the service can make no control groups, those for
    memory and CPU hold for each process on its own."""

    memory_mb: int | None = None
    cpu_seconds: int | None = None
    processes: int | None = None


class ExecTarget(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind", tag="exec"
):
    """A command on the machine of the leader: ``argv``, or a ``shell`` line for ``/bin/sh -c``."""

    argv: tuple[str, ...] | None = None
    shell: str | None = None
    env: dict[str, str] = {}
    cwd: str | None = None
    user: str | None = None
    limits: ExecLimits = ExecLimits()

    def check(self) -> None:
        _few(self.argv or (), ARGV_MAX, "target.argv", "words")
        _few(self.env, ENV_MAX, "target.env", "variables")
        if (self.argv is None) == (self.shell is None):
            raise _invalid("target", "exec needs exactly one of argv and shell", msgspec.to_builtins(self))
        if self.argv is not None and (not self.argv or not self.argv[0]):
            raise _invalid(
                "target.argv", "the command is empty", list(self.argv), allowed="at least one word"
            )
        if self.shell is not None and not self.shell.strip():
            raise _invalid("target.shell", "the shell line is empty", self.shell)
        texts = [*(self.argv or ()), self.shell or "", self.cwd or "", self.user or "", *self.env.values()]
        if any("\0" in text for text in texts):
            raise _invalid("target", "a NUL character cannot be passed to a command", "\\0")
        for name in self.env:
            if not name or "=" in name or "\0" in name:
                raise _invalid("target.env", f"{name!r} is not a variable name", name)
        if self.cwd is not None and not self.cwd.startswith("/"):
            raise _invalid("target.cwd", "the working directory must be absolute", self.cwd, allowed="/...")
        for field in ("memory_mb", "cpu_seconds", "processes"):
            limit = getattr(self.limits, field)
            if limit is not None and not 1 <= limit <= 2**30:
                raise _invalid(
                    f"target.limits.{field}", f"{limit} is out of range", limit, allowed="1 or more"
                )


class HttpTarget(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind", tag="http"
):
    """An HTTP call. Without ``body`` it carries the event ``{id, generated_at, schedule_id, payload}``.

    ``idempotent`` is the owner's word that the receiver deduplicates by ``Idempotency-Key`` (the launch's name).
    ``${env:NAME}`` and ``${file:/path}`` in ``url`` and ``headers`` are replaced by their values at the call.
    """

    url: str
    method: str = "POST"
    headers: dict[str, str] = {}
    body: str | None = None
    success: tuple[str, ...] = ("2xx",)
    timeout: str = "30s"
    secret: str | None = None
    old_secret: str | None = None
    """Signs as well, for receivers that do not have the new one yet."""
    idempotent: bool = False

    def check(self) -> None:
        _few(self.success, SUCCESS_MAX, "target.success", "statuses")
        self._check_references()
        try:
            parts = urlsplit(self.url)
            host, _ = parts.hostname, parts.port
        except ValueError as wrong:
            raise _invalid("target.url", f"{self.url[:100]!r} is not an address: {wrong}", self.url) from None
        if parts.username is not None or parts.password is not None:
            raise InvalidInput(
                "an address with a password would be stored and shown",
                field="target.url",
                value="(not shown)",
                hint="send it in a header that your receiver reads, as ${env:NAME}, or use secret",
            )
        if parts.scheme not in ("http", "https") or not host:
            raise _invalid(
                "target.url", f"{self.url!r} is not an address", self.url, allowed="http(s)://host/..."
            )
        if self.method not in _METHODS:
            raise _invalid(
                "target.method", f"{self.method!r} is not a method", self.method, allowed=", ".join(_METHODS)
            )
        _check_headers(self.headers)
        for code in self.success:
            if not re.fullmatch(r"[1-5]xx|[1-5][0-9][0-9]", code):
                raise _invalid("target.success", f"{code!r} is not a status", code, allowed="204 or 2xx")
        if parse_duration(self.timeout, field="target.timeout") > HTTP_TIMEOUT_S_MAX:
            raise InvalidInput(
                f"{self.timeout} is too long for a call",
                field="target.timeout",
                value=self.timeout,
                allowed="1s to 1h",
                hint="let the receiver answer at once, with 202 for example, and do the work after it",
            )
        for field in ("secret", "old_secret"):
            reference = getattr(self, field)
            if reference is not None and not re.fullmatch(SECRET_PATTERN, reference):
                raise InvalidInput(
                    "a secret is a reference, never the value itself",
                    field=f"target.{field}",
                    value="(not shown)",
                    allowed="env:NAME or file:/path",
                )

    def references(self) -> list[str]:
        """To values that are sent."""
        return [found for text in (self.url, *self.headers.values()) for found in references_in(text)]

    def _check_references(self) -> None:
        """The host is judged when the schedule is written, so it must be known then."""
        host = re.split(r"[/?#]", self.url.partition("://")[2], maxsplit=1)[0]
        check_references(self.url, "target.url")
        for value in self.headers.values():
            check_references(value, "target.headers")
        hosts = [value for name, value in self.headers.items() if name.lower() == "host"]
        if any("${" in text for text in (host, *hosts)):
            raise InvalidInput(
                "the host cannot be a reference",
                field="target.url",
                value=self.url,
                allowed="references behind the host, and in headers other than Host",
            )


class KafkaTarget(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind", tag="kafka"
):
    """The event ``{id, generated_at, schedule_id, payload}`` on a topic of the Kafka that the service is given."""

    topic: str
    key: str | None = None
    """None: the schedule's id, so that the events of one schedule stay in order."""
    headers: dict[str, str] = {}

    def check(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", self.topic) or self.topic in (".", ".."):
            raise _invalid(
                "target.topic",
                f"{self.topic[:300]!r} is not the name of a topic",
                self.topic,
                allowed="up to 249 letters, digits, '.', '_' and '-'",
            )
        _check_headers(self.headers)


class NatsTarget(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind", tag="nats"
):
    """The same event on a subject that a JetStream stream of the NATS that the service is given listens to."""

    subject: str
    headers: dict[str, str] = {}

    def check(self) -> None:
        # What begins with a dollar speaks to the server itself.
        if not re.fullmatch(r"(?!\$)[^\s.*>\x00-\x1f\x7f]+(\.[^\s.*>\x00-\x1f\x7f]+)*", self.subject) or (
            len(self.subject) > SUBJECT_MAX
        ):
            raise _invalid(
                "target.subject",
                f"{self.subject[:300]!r} is not a subject that can be sent to",
                self.subject,
                allowed=f"words joined by '.', up to {SUBJECT_MAX} characters, without blanks, '*' and '>', and not "
                "beginning with '$'",
            )
        _check_headers(self.headers)
        for name in self.headers:
            if name.lower().startswith("nats-"):
                raise InvalidInput(
                    f"{name!r} tells the server what to do with the event",
                    field="target.headers",
                    value=name,
                    allowed="headers that do not begin with 'Nats-'",
                    hint="Nats-Msg-Id is the launch's name, by which the stream drops repeats",
                )


class NullTarget(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind", tag="null"
):
    """Does nothing and succeeds: for rehearsing a schedule, and for measuring everything but the target."""

    def check(self) -> None:
        """There is nothing to get wrong."""


TargetSpec = ExecTarget | HttpTarget | KafkaTarget | NatsTarget | NullTarget

KINDS: Sequence[str] = ("exec", "http", "kafka", "nats", "null")


def kind_of(spec: TargetSpec | type[TargetSpec]) -> str:
    """``exec``, ``http``, ...: of a target, or of all that have its type."""
    return str(spec.__struct_config__.tag)


def _check_headers(headers: Mapping[str, str]) -> None:
    _few(headers, HEADERS_MAX, "target.headers", "headers")
    for name, value in headers.items():
        if not _HEADER.fullmatch(name):
            raise _invalid("target.headers", f"{name!r} is not a header that can be sent", name)
        if _CONTROL.search(value):
            raise _invalid("target.headers", f"the header {name!r} holds a control character", name)


def _few(given: Sized, most: int, field: str, things: str) -> None:
    """Asked before each of them is looked at."""
    if len(given) > most:
        raise _invalid(field, f"{len(given)} {things} are too many", len(given), allowed=f"up to {most}")


def _invalid(field: str, message: str, value: object, *, allowed: str = "") -> InvalidInput:
    return InvalidInput(message, field=field, value=value, allowed=allowed)
