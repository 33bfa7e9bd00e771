"""The fence as a table: what may be called, and every way of writing what may not."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.errors import Forbidden, InvalidInput
from tocsin.model.schedule import convert
from tocsin.targets.fence import Denied, Fence, literal
from tocsin.targets.permissions import Permissions, listed_users

LOOPBACK_DENIED = Fence.parse("", "127.0.0.0/8")


def _is_denied(fence: Fence, host: str, *addresses: str) -> bool:
    try:
        fence.check_host(host)
        if addresses:
            fence.permitted(host, addresses)
    except Denied:
        return True
    return False


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "127.0.1",
        "2130706433",
        "2130706433.",
        "0x7f000001",
        "0X7F.1",
        "0x7f.0x0.0x0.0x1",
        "0177.0.0.1",
        "017700000001",
        "0177.0x0.1",
        "127.255.255.254",
        "0.0.0.0",
        "0",
        "[::1]",
        "::1",
        "::",
        "[::ffff:127.0.0.1]",
        "::ffff:7f00:1",
        "::ffff:0:0",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "::127.0.0.1",
        "::1%lo",
        "127.0.0.1.127.0.0.1",
        "999.1.1.1",
        "１２７.0.0.1",
        "",
    ],
)
def no_notation_of_a_denied_address_passes(host):
    assert _is_denied(LOOPBACK_DENIED, host)


@pytest.mark.parametrize(
    "host", ["10.0.0.1", "128.0.0.1", "[2001:db8::1]", "example.org", "0x7g", "127.0.0.1.nip.io"]
)
def what_nobody_denied_passes(host):
    assert not _is_denied(LOOPBACK_DENIED, host)


def a_name_is_judged_by_the_address_that_it_has():
    assert _is_denied(LOOPBACK_DENIED, "evil.example", "127.0.0.1")
    assert _is_denied(LOOPBACK_DENIED, "localhost", "::1", "127.0.0.1")
    assert not _is_denied(LOOPBACK_DENIED, "good.example", "192.0.2.1")


def of_several_addresses_only_the_permitted_are_left():
    assert LOOPBACK_DENIED.permitted("two.example", ["127.0.0.1", "192.0.2.1", "::1"]) == ["192.0.2.1"]


def an_answer_that_is_no_address_is_not_used():
    assert _is_denied(Fence(), "odd.example", "not-an-address")
    assert _is_denied(Fence(), "nothing.example") is False
    with pytest.raises(Denied):
        Fence().permitted("nothing.example", [])


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "2852039166",
        "0xa9fea9fe",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "fe80::1",
        "fe80::1%eth0",
        "fd00:ec2::254",
        "100.100.100.200",
    ],
)
@pytest.mark.parametrize("allow", ["", "0.0.0.0/0, ::/0", "metadata.example", "*.example"])
def metadata_is_denied_unless_it_is_named_itself(address, allow):
    fence = Fence.parse(allow, "")
    assert _is_denied(fence, address)
    if "%" not in address:
        assert _is_denied(fence, "metadata.example", address), "whoever owns the name chooses the address"


def metadata_that_is_named_itself_may_be_called_unless_denied():
    assert not _is_denied(Fence.parse("169.254.169.254", ""), "169.254.169.254")
    assert not _is_denied(Fence.parse("169.254.0.0/16", ""), "169.254.169.254")
    assert _is_denied(Fence.parse("169.254.169.254", ""), "169.254.169.253")
    assert _is_denied(Fence.parse("169.254.169.254", "169.254.0.0/16"), "169.254.169.254")


@pytest.mark.parametrize(
    ("host", "address", "passes"),
    [
        ("api.example.org", "192.0.2.1", True),
        ("API.Example.ORG.", "192.0.2.1", True),
        ("a.b.hooks.example.org", "192.0.2.1", True),
        ("hooks.example.org", "192.0.2.1", False),
        ("evil-hooks.example.org", "192.0.2.1", False),
        ("api.example.org.evil.net", "192.0.2.1", False),
        ("other.example.org", "10.1.2.3", True),
        ("other.example.org", "11.1.2.3", False),
        ("10.200.0.1", "10.200.0.1", True),
        ("192.0.2.1", "192.0.2.1", False),
        ("bad.hooks.example.org", "192.0.2.1", False),
        ("api.example.org", "10.6.6.6", False),
    ],
)
def with_a_list_of_what_is_allowed_nothing_else_is(host, address, passes):
    fence = Fence.parse("api.example.org, *.hooks.example.org, 10.0.0.0/8", "bad.hooks.example.org,10.6.6.6")
    assert _is_denied(fence, host, address) is not passes


def the_reason_names_the_setting():
    for fence, host, setting in (
        (LOOPBACK_DENIED, "127.0.0.1", "http_deny"),
        (Fence.parse("", "evil.example"), "evil.example", "http_deny"),
        (Fence.parse("good.example", ""), "evil.example", "http_allow"),
        (Fence.parse("10.0.0.0/8", ""), "192.0.2.1", "http_allow"),
        (Fence(), "169.254.169.254", "http_allow"),
    ):
        with pytest.raises(Denied, match=setting):
            fence.check_host(host)


@pytest.mark.parametrize(
    "text",
    ["10.0.0.0/33", "10.0.0", "a b", "http://x", "x:80", "*", "*.", "a.*.b", "ex\u00e4mple", "1.2.3.4.5"],
)
def a_list_that_cannot_be_meant_is_refused(text):
    with pytest.raises(InvalidInput, match="http_deny"):
        Fence.parse("", f"fine.example, {text}")


@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.sampled_from([10, 8, 16]), min_size=4, max_size=4),
    st.integers(1, 4),
)
def every_number_notation_is_the_same_address(number, bases, count):
    octets = number.to_bytes(4)
    heads, rest = list(octets[: count - 1]), int.from_bytes(octets[count - 1 :])
    forms = {10: "{}", 8: "0{:o}", 16: "0x{:x}"}
    text = ".".join(forms[base].format(part) for part, base in zip([*heads, rest], bases, strict=False))
    assert literal(text) == IPv4Address(number)


@given(st.ip_addresses(v=4))
def wrapping_an_address_does_not_free_it(address):
    fence = Fence.parse("", f"{address}/32")
    number = int(address)
    for base, behind in (
        ("::ffff:0:0", 0),
        ("64:ff9b::", 0),
        ("64:ff9b:1::", 0),
        ("2002::", 80),
        ("::", 0),
        ("::ffff:0:0:0", 0),
        ("2001::", 64),
    ):
        wrapped = IPv6Address(int(ip_address(base)) | number << behind)
        assert _is_denied(fence, str(wrapped))
        assert _is_denied(fence, "name.example", str(wrapped))


@given(st.ip_addresses(v=4))
def an_address_in_parts_or_turned_over_is_not_free(address):
    fence = Fence.parse("", f"{address}/32")
    one, two, three, four = address.packed
    for wrapped in (
        f"64:ff9b:1:{one:02x}{two:02x}:00{three:02x}:{four:02x}00::",
        f"64:ff9b:1:ab{one:02x}:00{two:02x}:{three:02x}{four:02x}::",
        f"64:ff9b:1:abcd:00{one:02x}:{two:02x}{three:02x}:{four:02x}00:0",
        str(IPv6Address(int(ip_address("2001:0:102:304::")) | int(address) ^ 0xFFFFFFFF)),
    ):
        assert _is_denied(fence, wrapped), wrapped


@pytest.mark.parametrize(
    "host", ["fd00:ec2::254", "fd00:ec2::253", "fd00:ec2:1::23", "fd00:42::42", "fd00:c1::a9fe:a9fe"]
)
def addresses_of_metadata_are_denied_without_a_setting(host):
    assert _is_denied(Fence(), f"[{host}]")
    assert not _is_denied(Fence.parse(host, ""), host)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.8.8.8", "0.0.0.0", "[::1]", "[::]", "2130706433", "64:ff9b::7f00:1", "169.254.1.1"],
)
def where_tokens_are_needed_the_machine_itself_is_not_called(host):
    guarded = Fence.parse("", "", guarded=True)
    assert _is_denied(guarded, host)
    assert _is_denied(guarded, "name.example", host.strip("[]"))
    assert _is_denied(
        Fence.parse("0.0.0.0/0, ::/0, name.example", "", guarded=True), "name.example", host.strip("[]")
    )


def where_tokens_are_needed_loopback_must_be_named_and_private_networks_need_not():
    guarded = Fence.parse("", "", guarded=True)
    for host in ("10.0.0.1", "192.168.1.1", "[fd12::1]", "172.16.0.1", "example.org"):
        assert not _is_denied(guarded, host)
    for host in ("127.0.0.1", "::1", "0.0.0.0"):
        assert not _is_denied(Fence.parse(host, "", guarded=True), host)
    assert Fence.parse("127.0.0.0/8", "", guarded=True).permitted("localhost", ["::1", "127.0.0.1"]) == [
        "127.0.0.1"
    ]


def _schedule(**target):
    return convert({"id": "a", "cron": "@daily", "target": target})


def a_schedule_that_can_never_be_launched_is_forbidden_when_it_is_written():
    closed = Permissions(allow_exec=False, fence=LOOPBACK_DENIED)
    for target, setting in (
        ({"kind": "exec", "shell": "true"}, "allow_exec"),
        ({"kind": "http", "url": "http://2130706433/"}, "http_deny"),
        ({"kind": "http", "url": "http://[::ffff:127.0.0.1]:80/"}, "http_deny"),
        ({"kind": "http", "url": "http://１２７。0。0。1/"}, "http_deny|cannot|not an address"),
        ({"kind": "http", "url": "http://169.254.169.254/latest"}, "http_allow"),
    ):
        with pytest.raises(Forbidden, match=setting):
            closed.check(_schedule(**target))
    closed.check(_schedule(kind="http", url="https://good.example/"))
    closed.check(_schedule(kind="null"))


def a_command_may_only_switch_to_users_that_are_named():
    def may(named: str, user: str | None, *, needs_tokens: bool = True) -> bool:
        users = listed_users(named, own="tocsin", needs_tokens=needs_tokens)
        target = {"kind": "exec", "shell": "true", **({"user": user} if user else {})}
        refusal = Permissions(users=users, own_user="tocsin").refusal(_schedule(**target).target)
        assert not refusal or "exec_users" in refusal
        return not refusal

    assert [may("backup, www-data", user) for user in ("backup", "www-data")] == [True, True]
    assert [may("backup, www-data", user) for user in ("root", "tocsin", None)] == [False, False, False]
    assert [may("backup, tocsin", user) for user in ("tocsin", None)] == [True, True]
    assert [may("", user) for user in ("root", "tocsin", None)] == [False, False, False]
    assert [may("", user, needs_tokens=False) for user in ("root", "tocsin", None)] == [False, True, True]
    assert may("*", "root")
    assert may("*", None)
