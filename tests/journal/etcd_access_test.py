"""Who gets in: users and passwords, certificates, versions of etcd, and the address that says it all."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from tests.etcd import EtcdCluster, etcd

from tocsin.errors import ClusterError, InvalidInput, JournalUnavailable
from tocsin.journal.contract import Bounds
from tocsin.journal.etcd import address
from tocsin.journal.etcd.client import EtcdClient
from tocsin.journal.etcd.endpoints import Endpoint, refuse_unfit
from tocsin.journal.etcd.journal import EtcdJournal
from tocsin.journal.etcd.roster import EtcdRoster
from tocsin.model.cluster import Member

_PASSWORD = "sw0rdf@sh:/?,x"


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[EtcdCluster]:
    """With users. A token lives for two seconds."""
    with etcd(tmp_path / "etcd", options=["--auth-token-ttl", "2"]) as cluster:
        cluster.ctl("user", "add", "root:root")
        cluster.ctl("user", "grant-role", "root", "root")
        cluster.ctl("user", "add", f"tocsin:{_PASSWORD}")
        cluster.ctl("role", "add", "journal")
        cluster.ctl("role", "grant-permission", "journal", "--prefix=true", "readwrite", "/tocsin/")
        cluster.ctl("user", "grant-role", "tocsin", "journal")
        cluster.ctl("auth", "enable")
        yield cluster


def _login(cluster: EtcdCluster, folder: Path, password: str, path: str = "") -> address.EtcdAddress:
    file = folder / "password"
    file.write_text(password + "\n")
    return address.parse(f"etcd://tocsin@{cluster.endpoints[0]}{path}?password_file={file}")


def a_user_keeps_a_journal_and_its_token_is_renewed(guarded: EtcdCluster, tmp_path: Path) -> None:
    async def claim() -> None:
        given = _login(guarded, tmp_path, _PASSWORD)
        journal = EtcdJournal(given.client(), given.prefix)
        await journal.open()
        records = journal.read(0)
        for after in range(3):
            await journal.append(b"i" * 16, b"raw", (await journal.bounds()).end)
            assert (await anext(records)).seq == after + 1
        guarded.servers[0].end()
        guarded.servers[0].start()  # it forgets all tokens
        arriving = asyncio.ensure_future(_patiently(journal, 3))
        assert (await _bounds(journal))[:2] == (1, 3)
        await journal.append(b"i" * 16, b"raw", (await journal.bounds()).end)
        assert await arriving == 4
        await journal.trim(2)
        assert (await journal.bounds())[:2] == (3, 4)
        await journal.close()

    async def _bounds(journal: EtcdJournal) -> Bounds:
        async with asyncio.timeout(20):
            while True:
                try:
                    return await journal.bounds()
                except JournalUnavailable:
                    await asyncio.sleep(0.1)

    async def _patiently(journal: EtcdJournal, after: int) -> int:
        while True:
            try:
                return (await anext(journal.read(after))).seq
            except JournalUnavailable:
                await asyncio.sleep(0.1)

    asyncio.run(claim())


def a_wrong_password_is_refused_and_never_shown(guarded: EtcdCluster, tmp_path: Path) -> None:
    given = _login(guarded, tmp_path, "wrong-" + _PASSWORD)
    with pytest.raises(ClusterError, match="refuses the user 'tocsin'") as refused:
        asyncio.run(EtcdJournal(given.client(), given.prefix).open())
    assert not refused.value.retryable
    assert _PASSWORD not in f"{refused.value} {refused.value!r} {given} {given!r}"


def etcd_says_what_is_missing(guarded: EtcdCluster, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="wants a user"):
        asyncio.run(EtcdJournal(EtcdClient(guarded.endpoints), "/tocsin/x").open())
    elsewhere = _login(guarded, tmp_path, _PASSWORD, "/elsewhere")
    with pytest.raises(ClusterError, match="does not permit"):
        asyncio.run(EtcdJournal(elsewhere.client(), elsewhere.prefix).open())


def _certified(folder: Path) -> None:
    """ca.pem, and node.pem with node.key for 127.0.0.1, good for both sides."""
    now = datetime.datetime.now(datetime.UTC)
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])

    def built(subject: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(authority)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=2))
        )

    ca = built(authority, ca_key.public_key()).add_extension(x509.BasicConstraints(True, None), critical=True)
    node = (
        built(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "node")]), key.public_key())
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
            critical=False,
        )
    )
    for name, builder in (("ca.pem", ca), ("node.pem", node)):
        signed = builder.sign(ca_key, hashes.SHA256())
        (folder / name).write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    (folder / "node.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )


def a_journal_is_kept_over_mutual_tls(tmp_path: Path) -> None:
    _certified(tmp_path)
    pair = ["--cert-file", str(tmp_path / "node.pem"), "--key-file", str(tmp_path / "node.key")]
    trust = ["--client-cert-auth", "--trusted-ca-file", str(tmp_path / "ca.pem")]

    async def claim(cluster: EtcdCluster) -> None:
        files = f"ca={tmp_path}/ca.pem&cert={tmp_path}/node.pem&key={tmp_path}/node.key"
        given = address.parse(f"{cluster.url}?{files}")
        journal = EtcdJournal(given.client(), given.prefix)
        await journal.open()
        records = journal.read(0)
        for after in range(20):
            await journal.append(b"i" * 16, bytes([after]) * 500_000, (await journal.bounds()).end)
            assert (await anext(records)).raw == bytes([after]) * 500_000
        await records.aclose()  # type: ignore[attr-defined]  # why: it is a generator
        assert len([record async for record in _first(journal, 20)]) == 20
        await journal.close()
        for other in (f"{cluster.url}?ca={tmp_path}/ca.pem", f"{cluster.url}?tls=yes", cluster.url):
            stranger = EtcdJournal(address.parse(other).client(), "/tocsin/default")
            with pytest.raises(JournalUnavailable):
                await stranger.open()
            await stranger.close()

    with etcd(tmp_path / "etcd", scheme="https", options=[*pair, *trust]) as cluster:
        asyncio.run(claim(cluster))


async def _first(journal: EtcdJournal, count: int):  # type: ignore[no-untyped-def]  # why: a generator of a test
    records = journal.read(0)
    for _ in range(count):
        yield await anext(records)
    await records.aclose()  # type: ignore[attr-defined]  # why: it is a generator


def the_roster_knows_who_belongs(tmp_path: Path) -> None:
    async def claim(cluster: EtcdCluster) -> None:
        client = cluster.client()
        roster = EtcdRoster(client, "/tocsin/x")
        await roster.enlist(Member("b", "10.0.0.2:8410", "http://b:8411"))
        await roster.enlist(Member("a", "10.0.0.1:8410"))
        await roster.enlist(Member("b", "10.0.0.9:8410", "http://b:8411"))
        await EtcdRoster(client, "/tocsin/xy").enlist(Member("z"))
        expected = [Member("a", "10.0.0.1:8410"), Member("b", "10.0.0.9:8410", "http://b:8411")]
        assert await roster.members() == expected
        await roster.strike("a")
        assert await roster.members() == expected[1:]
        await client.close()

    with etcd(tmp_path / "etcd") as cluster:
        asyncio.run(claim(cluster))


def what_a_replica_says_of_itself_is_not_replaced_by_what_others_expect(tmp_path: Path) -> None:
    async def claim(cluster: EtcdCluster) -> None:
        client = cluster.client()
        roster = EtcdRoster(client, "/tocsin/x")
        await roster.expect(Member("a", "10.0.0.1:8410"))
        await roster.expect(Member("b", "10.0.0.2:8410"))
        own = Member("b", "10.0.0.2:8410", "http://b:8411")
        await roster.enlist(own)
        await roster.expect(Member("b", "10.0.0.2:8410"))
        assert await roster.members() == [Member("a", "10.0.0.1:8410"), own]
        await client.close()

    with etcd(tmp_path / "etcd") as cluster:
        asyncio.run(claim(cluster))


@pytest.mark.parametrize("version", ["3.5.0", "3.5.1", "3.5.2", "3.5.2-rc.1", "3.3.27", "2.3.8"])
def etcds_that_lose_data_or_are_too_old_are_refused(version: str) -> None:
    with pytest.raises(ClusterError, match=version) as refused:
        refuse_unfit(version, Endpoint("h", 1))
    assert not refused.value.retryable


@pytest.mark.parametrize(
    "version", ["3.4.0", "3.4.23", "3.5.3", "3.5.21", "3.6.1", "3.7.0-alpha.0", "unknown"]
)
def other_etcds_are_welcome(version: str) -> None:
    refuse_unfit(version, Endpoint("h", 1))


def an_address_says_where_and_how() -> None:
    given = address.parse("etcd://u%40x:p%3Aw@h1,h2:1,[::1]:2/team/a/?tls=yes")
    assert given.endpoints == (Endpoint("h1", 2379), Endpoint("h2", 1), Endpoint("::1", 2))
    assert (given.user, given.password, given.prefix, given.tls) == ("u@x", "p:w", "/team/a", True)
    assert str(given) == "etcd://u@x@h1:2379,h2:1,[::1]:2/team/a"
    plain = address.parse("etcd://h")
    assert (plain.prefix, plain.user, plain.tls) == ("/tocsin/default", "", False)


@pytest.mark.parametrize(
    "url",
    [
        "etcd://",
        "etcd:///x",
        "etcd://h:99999",
        "etcd://h:x",
        "etcd://h,,i",
        "etcd://h,h",
        "etcd://::1",
        "etcd://:secret@h",
        "etcd://u:secret@h:x",
        "etcd://u:secret@h?password_file=/x",
        "etcd://u:secret?more@h",
        "etcd://u:sec?secret@h",
        "etcd://h?tls=maybe",
        "etcd://h?tls=no&ca=x",
        "etcd://h?key=x",
        "etcd://h?color=red",
        "etcd://h?ca=a&ca=b",
        "etcd://u@h?password_file=/there/is/no/such/file",
    ],
)
def an_address_that_cannot_be_meant_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        address.parse(url)
    assert refused.value.field == "journal"
    assert "secret" not in f"{refused.value} {refused.value.value} {refused.value!r}"


def certificates_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "bad.pem").write_text("nothing")
    for url in (
        f"etcd://h?ca={tmp_path}/bad.pem",
        f"etcd://h?ca={tmp_path}/none",
        f"etcd://h?cert={tmp_path}/bad.pem",
    ):
        with pytest.raises(InvalidInput, match="cannot be read"):
            address.parse(url).client()
