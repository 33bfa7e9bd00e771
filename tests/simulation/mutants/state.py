"""Broken ways to keep the state, to copy it, and to let go of the journal behind it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager

from tests.simulation.mutants.contract import (
    Mutant,
    Search,
    calling,
    exchanged,
    once_a_second,
    replaced,
    together,
)

from tocsin.errors import Gap
from tocsin.model import change as c
from tocsin.model.cluster import PeerStatus
from tocsin.model.launch import CLOSED_FROM
from tocsin.replica import rounds
from tocsin.replica.parts import Parts
from tocsin.simulation import world
from tocsin.simulation.virtual import PROCESS
from tocsin.state import retention, snapshot
from tocsin.state.apply.context import Context
from tocsin.state.apply.dispatch import _HANDLERS


def snapshots_without_open_launches() -> AbstractContextManager[None]:
    sound = snapshot._check_whole

    def check_whole(copy: sqlite3.Connection) -> None:
        copy.execute("DELETE FROM launch WHERE state < ?", (CLOSED_FROM,))
        copy.commit()
        sound(copy)

    return replaced(snapshot, _check_whole=check_whole)


def trimmed_up_to_the_newest() -> AbstractContextManager[None]:
    def trimmable(own: PeerStatus, others: Sequence[PeerStatus | None]) -> int:
        return own.sequence

    return replaced(rounds, trimmable=trimmable, held_by_majority=trimmable)


def gaps_are_leapt_over() -> AbstractContextManager[None]:
    async def leap(self: Parts, gap: Gap) -> None:
        bounds = await self._setup.journal.bounds()
        self._store.meta.seq = bounds.first - 1

    return together(trimmed_up_to_the_newest(), replaced(Parts, _leap=leap))


def one_replica_knows_better() -> AbstractContextManager[None]:
    sound = _HANDLERS[c.LaunchesSucceeded]

    def succeeded(context: Context, change: c.LaunchesSucceeded) -> object:
        process = PROCESS.get()
        return None if process is not None and process.name == "b" else sound(context, change)

    return exchanged(_HANDLERS, c.LaunchesSucceeded, succeeded)


def the_newest_history_is_deleted() -> AbstractContextManager[None]:
    def newest(db: sqlite3.Connection, sid: int, count: int, now_ms: int) -> Iterator[int]:
        rows = db.execute(
            "SELECT lid FROM launch WHERE sid = ? AND state >= ? ORDER BY instant_s DESC LIMIT ?",
            (sid, CLOSED_FROM, count),
        )
        return (lid for (lid,) in rows)

    return together(replaced(retention, _oldest=newest), replaced(world, KEPT_EACH=(3,)))


SLOW = once_a_second(target=calling("exec", "slow"))

MUTANTS = (
    Mutant(
        "snapshot without open launches",
        "a snapshot leaves out the launches that are under way",
        ("replicas agree", "calm", "nothing lost"),
        Search(("left behind", "lost state", "damaged snapshot"), 6, SLOW),
        snapshots_without_open_launches,
    ),
    Mutant(
        "trimmed past a follower",
        "the journal is trimmed up to its newest entry, whoever has yet to read it",
        ("calm",),
        Search(("crash",), 4, SLOW, who="follower", lasts_s=40, least_s=8.0),
        trimmed_up_to_the_newest,
    ),
    Mutant(
        "leap over a gap",
        "a follower that has to read entries which are gone goes on behind them",
        ("replicas agree", "nobody ends"),
        Search(("left behind", "cut off", "pause"), 6, SLOW, who="follower", lasts_s=40, least_s=5.0),
        gaps_are_leapt_over,
    ),
    Mutant(
        "one replica applies otherwise",
        "on one of the replicas a success changes nothing",
        ("replicas agree",),
        Search(("step down",), 3, once_a_second(target=calling("plain"))),
        one_replica_knows_better,
    ),
    Mutant(
        "the newest history deleted",
        "retention deletes the newest launches of a schedule where it should delete the oldest",
        ("kept",),
        Search(("step down",), 3, once_a_second(target=calling("plain"))),
        the_newest_history_is_deleted,
    ),
)
