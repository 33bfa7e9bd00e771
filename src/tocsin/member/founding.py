"""An empty disk, or an older copy of one, must never pass for a member that remembers.

A member of a quorum has promised things: votes, entries. One that comes back without its disk and under its old
identity has forgotten them, and what a majority agreed on may be lost. An older copy of its disk has forgotten some of
them. So a replica whose disk is empty, or a copy, asks all the others first:

==================================================  ==========================================================
one of them goes on alone with what is left         wait: it has to write down what was lost before others lead
one of them belongs to a cluster                    join it, as a new member in the old one's place
one of them does not answer                         wait: it may be the one that remembers
one of them, or this one, has a copy                wait: a person has to say that nobody knows more (``--recover``)
one of them, or this one, belonged to a cluster     wait: a new one would begin with nothing
all are empty or founding, and all mean the same    found the cluster
==================================================  ==========================================================

*The same* is the list of replicas and the disks behind it: each disk has a token made by chance, and the cluster's own
token is made of all of them, and not of the secret, which may be changed. A replica which lost its disk in the middle
of a founding has another token, and with it another cluster than the one that the others are founding; it waits until
they have founded theirs, and joins.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import structlog

from tocsin.clock import Clock
from tocsin.errors import ClusterError, Unreachable
from tocsin.model.cluster import Hello, Member

_log = structlog.get_logger()
_ASK_EVERY_S = 0.25
_ASK_S = 3.0
_TELL_EVERY_S = 10.0
_TOGETHER_S = 5.0


class Greeter(Protocol):
    """Asks another replica for its condition."""

    async def hello(self, member: Member) -> Hello | None:
        """None, or ``Unreachable`` with the reason, when there is no answer."""
        ...


class Found(NamedTuple):
    """All are there, and none of them remembers anything."""

    token: str


class Join(NamedTuple):
    """These belong to a cluster already."""

    others: list[str]


class Wait(NamedTuple):
    """Neither is safe at this moment."""

    reason: str
    remedy: str


def decide(me: Hello, others: Mapping[str, Hello | None]) -> Found | Join | Wait:
    """Decide what a replica with an empty disk, or with a copy, may do, after what the others said."""
    recovering = sorted(name for name, hello in others.items() if hello and hello.condition == "recovering")
    if recovering:
        return Wait(still_recovering(", ".join(recovering)), "it takes a few seconds")
    founded = sorted(name for name, hello in others.items() if hello and hello.condition == "founded")
    if founded:
        return Join(founded)
    silent = sorted(name for name, hello in others.items() if hello is None)
    if silent:
        remedy = "start all replicas that --cluster names"
        if me.condition == "copied":
            remedy += "; if they are lost for ever, start this one with --recover"
        return Wait(f"no answer from {', '.join(silent)}", remedy)
    heard = {name: hello for name, hello in others.items() if hello is not None}
    for name, hello in sorted(heard.items()):
        if hello.cluster != me.cluster:
            return Wait(
                f"{name} was started with another list of replicas: {hello.cluster}",
                f"give the same --cluster to all; here it is {me.cluster}",
            )
    copied = sorted(hello.name for hello in (me, *heard.values()) if hello.condition == "copied")
    if copied:
        return Wait(
            f"the cluster's data in {', '.join(copied)} is a copy, and no replica has it as it was written",
            "if a replica still has it, bring that disk back and start it. If all were put back from copies, start the "
            "replica with the newest copy with --recover: the others then join it. What was acknowledged since that "
            "copy is lost",
        )
    bereft = sorted(hello.name for hello in (me, *heard.values()) if hello.condition == "bereft")
    if bereft:
        return Wait(
            f"{', '.join(bereft)} belonged to a cluster, and none of the replicas has its data",
            "if a replica still has the folder member/etcd, bring it back and start it. If none has, empty the data "
            f"directory of {', '.join(bereft)}: then a new cluster is founded, which knows nothing of the old one "
            "unless a backup is restored",
        )
    token = founding_token([me, *heard.values()])
    for name, hello in sorted(heard.items()):
        if hello.condition == "founding" and hello.founding != token:
            return Wait(
                f"{name} has begun to found a cluster with a disk that is gone since",
                f"if none of them was ever in use, remove the folder 'member' in the data of {name}",
            )
    return Found(token)


def describe_disk(*, is_copy: bool) -> str:
    """Why this replica cannot just start."""
    return "the etcd data of this replica is a copy" if is_copy else "this replica's disk is empty"


def still_recovering(name: str) -> str:
    return f"{name} goes on with what is left of the cluster, and writes that down before others are let in"


def founding_token(hellos: Sequence[Hello]) -> str:
    """Of a cluster with these disks. Each of its founders comes to the same."""
    disks = ",".join(sorted(f"{hello.name}={hello.token}" for hello in hellos))
    return hashlib.sha256(f"founding {hellos[0].cluster} {disks}".encode()).hexdigest()[:32]


class Unanswered(NamedTuple):
    """Why a replica cannot be counted on."""

    why: str
    remedy: str = ""
    """Empty: it takes no more than to start it."""


class Missing(NamedTuple):
    """All of these, together."""

    why: str
    remedy: str


class Inquiry:
    """Asks the others, again and again, until it is clear what to do."""

    def __init__(self, others: Sequence[Member], greeter: Greeter, clock: Clock) -> None:
        self._others = others
        self._greeter = greeter
        self._clock = clock
        self._never = asyncio.Event()
        self._said: tuple[str, float] = ("", 0.0)
        self._silence: dict[str, Unanswered] = {}

    async def ask(self) -> dict[str, Hello | None]:
        """All others at once."""
        answers = await asyncio.gather(*(self._ask(member) for member in self._others))
        return {member.name: hello for member, hello in zip(self._others, answers, strict=True)}

    async def missing(self) -> Missing:
        """Who does not answer, and why."""
        await self.ask()
        return self._missing()

    def _missing(self) -> Missing:
        silent = [self._silence[name] for name in sorted(self._silence)]
        remedies = dict.fromkeys(one.remedy for one in silent if one.remedy)
        return Missing("; ".join(one.why for one in silent), "; ".join(remedies))

    async def settle(self, me: Hello, tell: Callable[[str], None]) -> Found | Join:
        """Returns when it is safe to do the one or the other. What it waits for is told meanwhile."""
        while True:
            choice = decide(me, await self.ask())
            if not isinstance(choice, Wait):
                tell("")
                return choice
            tell(choice.reason)
            self._say(choice, describe_disk(is_copy=me.condition == "copied"))
            await self._clock.wait(self._never, _ASK_EVERY_S)

    async def gather(self) -> None:
        """Wait, but not for long, until all others have come to the same decision: whoever asks only when the first
        ones have founded the cluster must join it, which takes longer."""
        end = self._clock.elapsed_s() + _TOGETHER_S
        while self._clock.elapsed_s() < end:
            hellos = await self.ask()
            if all(hello is not None and hello.condition != "empty" for hello in hellos.values()):
                return
            await self._clock.wait(self._never, _ASK_EVERY_S / 5)

    async def _ask(self, member: Member) -> Hello | None:
        try:
            hello = await asyncio.wait_for(self._greeter.hello(member), _ASK_S)
        except (Unreachable, ClusterError) as wrong:
            self._silence[member.name] = Unanswered(wrong.message, wrong.hint)
            return None
        except TimeoutError:
            self._silence[member.name] = Unanswered(f"{member.name} did not answer in time")
            return None
        if hello is not None and hello.name != member.name:
            self._silence[member.name] = Unanswered(
                f"at {member.peer} answers {hello.name}, not {member.name}", "give the same --cluster to all"
            )
            return None
        self._silence.pop(member.name, None)
        return hello

    def _say(self, choice: Wait, disk: str) -> None:
        """When it changes, and now and then."""
        now = self._clock.elapsed_s()
        reason, since = self._said
        if choice.reason != reason or now - since >= _TELL_EVERY_S:
            self._said = (choice.reason, now)
            why, remedy = self._missing()
            _log.warning(
                f"{disk}; it waits for the others",
                reason=f"{choice.reason}: {why}" if why else choice.reason,
                remedy=remedy or choice.remedy,
            )
