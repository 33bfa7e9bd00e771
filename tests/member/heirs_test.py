"""Whether replicas that begin with nothing may go on from a backup by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal

from tocsin.errors import Unreachable
from tocsin.member.heirs import Heirs
from tocsin.model.cluster import Hello, Member

NOW = [Member(name, f"new-{name}:8410") for name in "abc"]
SPELT = ",".join(f"{each.name}={each.peer}" for each in NOW)


class _Answering:
    """Those who answer, by their addresses."""

    def __init__(self, **conditions: Literal["empty", "founding", "founded"]) -> None:
        self._conditions = conditions
        self.asked: list[str] = []
        self.cluster = "a=old-a:8410,b=old-b:8410,c=old-c:8410"

    async def hello(self, member: Member) -> Hello:
        self.asked.append(member.peer)
        host = member.peer.removesuffix(":8410").replace("-", "_")
        if host not in self._conditions:
            raise Unreachable(f"nobody answers at {member.peer}")
        return Hello(member.name, self._conditions[host], "", cluster=self.cluster)


def _objection(members: Sequence[str], greeter: _Answering | None = None) -> str:
    heirs = Heirs(NOW, SPELT, greeter or _Answering())
    return asyncio.run(heirs.objection(members))


def the_same_replicas_may() -> None:
    greeter = _Answering()
    assert _objection([f"{each.name}={each.peer}" for each in NOW], greeter) == ""
    assert greeter.asked == []  # they have said what they remember


def fewer_were_enough_and_more_are_no_harm() -> None:
    assert _objection(["a=new-a:8410"]) == ""


def one_that_the_list_does_not_name_is_in_the_way() -> None:
    told = _objection(["a=new-a:8410", "d=old-d:8410", "e=old-e:8410"])
    assert "d=old-d:8410, e=old-e:8410" in told
    assert "a=" not in told


def replicas_that_moved_to_other_machines_may() -> None:
    assert _objection([f"{name}=old-{name}:8410" for name in "abc"]) == ""


def one_that_still_runs_where_it_was_is_in_the_way() -> None:
    """Somebody copied the settings to another site, and changed the addresses only."""
    told = _objection([f"{name}=old-{name}:8410" for name in "abc"], _Answering(old_b="founded"))
    assert "b=old-b:8410" in told


def one_of_them_under_another_address_is_none() -> None:
    greeter = _Answering(old_a="founding", old_b="empty", old_c="founded")
    greeter.cluster = SPELT
    assert _objection([f"{name}=old-{name}:8410" for name in "abc"], greeter) == ""


def a_backup_that_names_nobody_tells_nothing() -> None:
    assert _objection([])
