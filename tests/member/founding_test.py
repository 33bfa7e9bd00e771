"""Whether an empty replica may found, must join, or has to wait."""

from __future__ import annotations

import asyncio
from typing import Literal

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from tocsin.clock import SystemClock
from tocsin.errors import Unreachable
from tocsin.member.founding import Found, Inquiry, Join, Wait, decide, founding_token
from tocsin.model.cluster import Hello, Member

LIST = "a=h1:8410,b=h2:8410,c=h3:8410"


def _hello(
    name: str,
    condition: Literal["empty", "bereft", "copied", "founding", "founded", "recovering"] = "empty",
    **more: str,
) -> Hello:
    return Hello(
        name, condition, more.pop("token", f"disk of {name}"), cluster=more.pop("cluster", LIST), **more
    )


def _conditions(name: str) -> st.SearchStrategy[Hello | None]:
    return st.none() | st.builds(
        _hello,
        st.just(name),
        st.sampled_from(["empty", "bereft", "copied", "founding", "founded", "recovering"]),
        token=st.sampled_from([f"disk of {name}", "another disk"]),
        founding=st.sampled_from(["", "one cluster", _all_empty_token()]),
        cluster=st.sampled_from([LIST, "a=h1:8410,b=h2:8410"]),
    )


def _all_empty_token() -> str:
    return founding_token([_hello(name) for name in "abc"])


@given(_conditions("b"), _conditions("c"))
def nobody_founds_while_another_remembers_or_is_silent(b: Hello | None, c: Hello | None) -> None:
    choice = decide(_hello("a"), {"b": b, "c": c})
    if b is None or c is None or "founded" in (b.condition, c.condition):
        assert not isinstance(choice, Found)


@given(_conditions("b"), _conditions("c"))
def all_that_found_found_the_same(b: Hello | None, c: Hello | None) -> None:
    choice = decide(_hello("a"), {"b": b, "c": c})
    if isinstance(choice, Found):
        assert b is not None
        assert c is not None
        assert {b.cluster, c.cluster} == {LIST}
        assert {hello.founding for hello in (b, c) if hello.condition == "founding"} <= {choice.token}


@given(_conditions("b"), _conditions("c"))
def where_one_remembers_the_others_join(b: Hello | None, c: Hello | None) -> None:
    choice = decide(_hello("a"), {"b": b, "c": c})
    remember = [hello.name for hello in (b, c) if hello is not None and hello.condition == "founded"]
    recover = [hello for hello in (b, c) if hello is not None and hello.condition == "recovering"]
    assert isinstance(choice, Join) == (bool(remember) and not recover)
    if isinstance(choice, Join):
        assert choice.others == remember


@given(_conditions("b"), _conditions("c"))
def who_waits_is_told_why_and_what_to_do(b: Hello | None, c: Hello | None) -> None:
    choice = decide(_hello("a"), {"b": b, "c": c})
    if isinstance(choice, Wait):
        assert choice.reason
        assert choice.remedy


@given(_conditions("a"), _conditions("b"), _conditions("c"))
def nobody_founds_with_one_who_belonged_to_a_cluster(
    a: Hello | None, b: Hello | None, c: Hello | None
) -> None:
    me = a or _hello("a", "bereft")
    choice = decide(me, {"b": b, "c": c})
    if {"bereft", "copied"} & {hello.condition for hello in (me, b, c) if hello is not None}:
        assert not isinstance(choice, Found)


def what_is_left_of_a_cluster_is_named() -> None:
    choice = decide(_hello("a"), {"b": _hello("b", "bereft"), "c": _hello("c")})
    assert isinstance(choice, Wait)
    assert "b belonged to a cluster" in choice.reason
    assert "empty the data directory of b" in choice.remedy


def a_replica_with_a_copy_waits_for_the_others_and_joins_them() -> None:
    me = _hello("a", "copied")
    silent = decide(me, {"b": _hello("b", "copied"), "c": None})
    assert isinstance(silent, Wait)
    assert silent.reason == "no answer from c"
    assert "start all replicas that --cluster names" in silent.remedy
    assert decide(me, {"b": _hello("b", "founded"), "c": None}) == Join(["b"])


def where_only_copies_are_left_a_person_has_to_say_so() -> None:
    hellos = {"b": _hello("b", "copied"), "c": _hello("c", "bereft")}
    choice = decide(_hello("a", "copied"), hellos)
    assert isinstance(choice, Wait)
    assert "the cluster's data in a, b is a copy" in choice.reason
    assert "with the newest copy with --recover" in choice.remedy


@given(_conditions("c"))
def nobody_joins_or_founds_before_what_was_lost_is_written_down(c: Hello | None) -> None:
    choice = decide(_hello("a"), {"b": _hello("b", "recovering"), "c": c})
    assert isinstance(choice, Wait)
    assert choice.reason.startswith("b goes on") or "c" in choice.reason


def each_founder_comes_to_the_same_cluster() -> None:
    hellos = {name: _hello(name) for name in "abc"}
    choices = {decide(hellos[own], {k: v for k, v in hellos.items() if k != own}) for own in hellos}
    assert choices == {Found(_all_empty_token())}


def a_late_founder_follows_the_early_ones() -> None:
    early = _hello("b", "founding", founding=_all_empty_token())
    assert decide(_hello("a"), {"b": early, "c": _hello("c")}) == Found(_all_empty_token())


def a_disk_lost_in_the_middle_of_a_founding_is_noticed() -> None:
    early = _hello("b", "founding", founding=_all_empty_token())
    choice = decide(_hello("a", token="a new disk"), {"b": early, "c": _hello("c")})
    assert isinstance(choice, Wait)
    assert "disk that is gone" in choice.reason


def a_founder_stopped_before_it_began_may_think_again() -> None:
    me = _hello("a", "founding", founding="with a disk of b that is gone")
    assert isinstance(decide(me, {"b": _hello("b"), "c": _hello("c")}), Found)


def different_lists_are_shown() -> None:
    other = _hello("b", cluster="a=h1:8410,b=h2:9410,c=h3:8410")
    choice = decide(_hello("a"), {"b": other, "c": _hello("c")})
    assert isinstance(choice, Wait)
    assert "b=h2:9410" in choice.reason
    assert LIST in choice.remedy


def the_silent_ones_are_named() -> None:
    choice = decide(_hello("a"), {"b": None, "c": _hello("c")})
    assert choice == Wait("no answer from b", "start all replicas that --cluster names")


class _Stranger:
    """One that was given another secret."""

    async def hello(self, member: Member) -> Hello:
        raise Unreachable(
            "b shows a certificate that is not of this cluster", hint="the same --cluster-secret"
        )


def another_secret_is_not_cured_by_starting_the_others() -> None:
    async def whole() -> None:
        inquiry = Inquiry([Member("b", "h2:8410")], _Stranger(), SystemClock())
        assert await inquiry.missing() == (
            "b shows a certificate that is not of this cluster",
            "the same --cluster-secret",
        )
        with capture_logs() as told:
            told_of = asyncio.Event()
            settling = asyncio.create_task(inquiry.settle(_hello("a"), lambda _: told_of.set()))
            await told_of.wait()
            await asyncio.sleep(0)
            settling.cancel()
        (line,) = told
        assert line["remedy"] == "the same --cluster-secret"
        assert "not of this cluster" in line["reason"]

    asyncio.run(whole())


def who_is_alone_in_the_list_founds_alone() -> None:
    assert isinstance(decide(msgspec.structs.replace(_hello("a"), cluster="a=h1:8410"), {}), Found)
