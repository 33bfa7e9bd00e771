"""The list of replicas, as people type it."""

from __future__ import annotations

import pytest

from tocsin.errors import InvalidInput
from tocsin.member.address import etcd_url, parse_cluster, parse_member, raft_url
from tocsin.model.cluster import Member


def a_list_is_read_whatever_its_order_and_spaces() -> None:
    members = parse_cluster(" b=10.0.0.2:9000 , a=host-a.example.org", "a")
    assert members == [Member("a", peer="host-a.example.org:8410"), Member("b", peer="10.0.0.2:9000")]


def an_ipv6_address_stands_in_brackets() -> None:
    with_port, without = parse_cluster("a=[2001:db8::1]:9000,b=[2001:db8::2]", "b")
    assert (with_port.peer, without.peer) == ("[2001:db8::1]:9000", "[2001:db8::2]:8410")
    assert raft_url(with_port) == "https://[2001:db8::1]:9001"


def etcd_has_the_two_ports_behind() -> None:
    member = parse_member("a=10.0.0.1:9000")
    assert (raft_url(member), etcd_url(member)) == ("https://10.0.0.1:9001", "https://10.0.0.1:9002")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("10.0.0.1:8410", "has no name"),
        ("A=10.0.0.1", "not a name"),
        ("-a=10.0.0.1", "not a name"),
        ("a" * 33 + "=10.0.0.1", "not a name"),
        ("a=", "not an address"),
        ("a=host:", "not an address"),
        ("a=host:http", "not an address"),
        ("a=2001:db8::1", "not an address"),
        ("a=[host]:8410", "not an address"),
        ("a=[::1]8410", "not an address"),
        ("a=https://host", "not an address"),
        ("a=host:0", "out of range"),
        ("a=host:65534", "out of range"),
        ("a=host\x1b[31m", "not an address"),
    ],
)
def what_is_no_replica_is_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as refused:
        parse_cluster(text, "a")
    assert refused.value.field == "cluster"
    assert refused.value.allowed
    assert str(refused.value).isprintable()


def a_name_stands_there_once() -> None:
    with pytest.raises(InvalidInput, match="'a' stands there twice"):
        parse_cluster("a=h1,a=h2", "a")


@pytest.mark.parametrize("other", ["127.0.0.1:8412", "localhost:8408", "127.0.0.1:8410"])
def two_replicas_on_one_machine_need_ports_of_their_own(other: str) -> None:
    with pytest.raises(InvalidInput, match="would use the same ports") as refused:
        parse_cluster(f"a=127.0.0.1:8410,b={other}", "a")
    assert "3 or more apart" in str(refused.value)


def neighbours_that_do_not_touch_are_fine() -> None:
    assert len(parse_cluster("a=localhost:8410,b=localhost:8413,c=other:8411", "a")) == 3


@pytest.mark.parametrize("text", ["a=h1,b=h2", ""])
def a_replica_must_be_in_its_own_list(text: str) -> None:
    with pytest.raises(InvalidInput, match="'c' is the name of this replica") as refused:
        parse_cluster(text, "c")
    assert "--name" in refused.value.hint


def replicas_on_an_etcd_of_others_need_one_port_each() -> None:
    listed = "a=127.0.0.1:8610,b=127.0.0.1:8611"
    assert [member.name for member in parse_cluster(listed, "a", ports=1)] == ["a", "b"]
    with pytest.raises(InvalidInput, match="two behind it"):
        parse_cluster(listed, "a")
    with pytest.raises(InvalidInput, match="a port of its own"):
        parse_cluster("a=127.0.0.1:8610,b=127.0.0.1:8610", "a", ports=1)
