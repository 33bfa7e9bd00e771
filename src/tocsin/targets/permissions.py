"""What the operator lets schedules do: asked when one is written, and again at each launch.

The answer when it is written spares its owner a surprise at two in the morning. The answer at the launch is the
one that protects: the settings may have changed since, and a name may have another address by then.
"""

from __future__ import annotations

import glob
import os
import pwd
from fnmatch import fnmatchcase

import msgspec

from tocsin.config import SECRET_PREFIX, Settings
from tocsin.errors import Forbidden
from tocsin.model.hosts import hosts_of
from tocsin.model.schedule import Schedule
from tocsin.model.target import ExecTarget, HttpTarget, KafkaTarget, NatsTarget, NullTarget, TargetSpec
from tocsin.targets.fence import Denied, Fence
from tocsin.targets.secrets import SecretRules, uses_of


class Permissions(msgspec.Struct, frozen=True):
    """Without any setting: everything but the addresses that hand out credentials."""

    allow_exec: bool = True
    users: frozenset[str] | None = None
    """Whom a command may be run as. None: anybody."""
    own_user: str = ""
    """Whom it is run as if it names nobody."""
    fence: Fence = Fence()
    secrets: SecretRules = SecretRules()
    topics: Names | None = None
    """Of Kafka. None: there is no Kafka to send to."""
    subjects: Names | None = None

    def check(self, schedule: Schedule) -> None:
        """Raise Forbidden if this schedule asks for what can never be launched here."""
        refusal = self.refusal(schedule.target)
        if refusal:
            raise Forbidden(refusal, hint="whoever runs the service decides that, by its settings")

    def refusal(self, spec: TargetSpec) -> str:
        """Why not, naming the setting. Empty: nothing is known against it."""
        if isinstance(spec, NullTarget):
            return ""
        if isinstance(spec, ExecTarget):
            return self._against_command(spec)
        if isinstance(spec, HttpTarget):
            return self._against_call(spec)
        if isinstance(spec, KafkaTarget):
            return against_name(self.topics, "kafka", "topic", spec.topic)
        if isinstance(spec, NatsTarget):
            return against_name(self.subjects, "nats", "subject", spec.subject)
        return ""

    def _against_command(self, spec: ExecTarget) -> str:
        if not self.allow_exec:
            return "exec targets are not allowed here: the setting allow_exec forbids them"
        if self.users is None or (spec.user or self.own_user) in self.users:
            return ""
        if spec.user is None:
            return "commands may not be run as the service's own user: give the target a user that exec_users names"
        return (
            f"commands may not be run as {spec.user[:100]!r}: the setting exec_users does not name that user"
        )

    def _against_call(self, spec: HttpTarget) -> str:
        try:
            for host in hosts_of(spec):
                self.fence.check_host(host)
        except Denied as denied:
            return str(denied)
        return next(filter(None, map(self.secrets.refusal, uses_of(spec))), "")


class Names(msgspec.Struct, frozen=True):
    """Topics or subjects that may be sent to."""

    patterns: tuple[str, ...] = ()
    """None at all: any."""

    @classmethod
    def parse(cls, text: str) -> Names:
        return cls(tuple(part.strip() for part in text.split(",") if part.strip()))

    def permit(self, name: str) -> bool:
        return not self.patterns or any(fnmatchcase(name, pattern) for pattern in self.patterns)


def against_name(names: Names | None, kind: str, what: str, name: str) -> str:
    """Why it may not be sent there, naming the setting. Empty: it may."""
    if names is None:
        return f"there is no {kind} to send to: the setting {kind} is not given"
    if not names.permit(name):
        return f"{name[:250]!r} may not be sent to: the setting {kind}_{what}s does not name that {what}"
    return ""


def listed_users(text: str, own: str, *, needs_tokens: bool) -> frozenset[str] | None:
    """The setting ``exec_users``. Whoever runs a command as the service's own user can read all that it can, its tokens
    too: where tokens are needed, that user is not among them unless it is named."""
    names = {name.strip() for name in text.split(",")} - {""}
    if not names and not needs_tokens:
        return frozenset({own})
    return None if "*" in names else frozenset(names)


def permissions_of(settings: Settings) -> Permissions:
    """What schedules may do on a node with these settings."""
    return Permissions(
        allow_exec=settings.allows_exec(),
        users=listed_users(settings.exec_users, own=_own_user(), needs_tokens=settings.needs_tokens()),
        own_user=_own_user(),
        fence=Fence.parse(settings.http_allow, settings.http_deny, guarded=settings.needs_tokens()),
        secrets=SecretRules.parse(settings.secrets, default=_secrets_unless_named(settings)),
        topics=Names.parse(settings.kafka_topics) if settings.kafka else None,
        subjects=Names.parse(settings.nats_subjects) if settings.nats else None,
    )


def _secrets_unless_named(settings: Settings) -> list[str] | None:
    """Who needs a token to write a schedule must not sign with whatever the service can read."""
    if not settings.needs_tokens():
        return None
    return [f"env:{SECRET_PREFIX}*", f"file:{glob.escape(str(settings.data.absolute()))}/secrets/*"]


def _own_user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a container may run under a number that has no name
        return ""
