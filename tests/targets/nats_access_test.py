"""How one gets in: addresses, passwords, credentials and certificates."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.brokers.nats import NatsServer
from tests.journal.etcd_access_test import _certified
from tests.targets.nats_support import connected, target_for, until_connected, until_told

from tocsin.errors import InvalidInput
from tocsin.targets.contract import Target
from tocsin.targets.nats.settings import Server, access_of
from tocsin.targets.nats.target import NatsTarget
from tocsin.targets.registry import Brokers, build_targets


def addresses_are_read_with_all_that_they_hold() -> None:
    access = access_of("nats://a, tls://u:p%2Cw@b:5222/,nats://token@[::1]", "", "")
    assert [(s.host, s.port, s.needs_tls, s.user, s.password) for s in access.servers] == [
        ("a", 4222, False, None, None),
        ("b", 5222, True, "u", "p,w"),
        ("::1", 4222, False, "token", None),
    ]
    assert [str(server) for server in access.servers] == [
        "nats://a:4222",
        "tls://b:5222",
        "nats://[::1]:4222",
    ]
    assert access.login(access.servers[1], "") == {"user": "u", "pass": "p,w"}
    assert access.login(access.servers[2], "") == {"auth_token": "token"}


@pytest.mark.parametrize(
    "urls",
    [
        "127.0.0.1:4222",
        "http://a:4222",
        "nats://",
        "nats://a:port",
        "nats://a:99999",
        "nats://a/path",
        "nats://a?x=1",
        " , ",
        "nats://a,b",
        "nats://u:s3cret@a:port",
        "nats://u:s3,cret@a",
        "nats://u:s3cret/@a",
        "u:s3cret@a",
    ],
)
def an_address_that_cannot_be_used_is_refused_without_its_password(urls: str) -> None:
    with pytest.raises(InvalidInput, match="nats://HOST:PORT") as refused:
        access_of(urls, "", "")
    assert refused.value.field == "nats"
    assert "cret" not in f"{refused.value} {refused.value.value} {refused.value.hint}"
    assert "s3" not in f"{refused.value} {refused.value.value} {refused.value.hint}"


def files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    junk = tmp_path / "junk"
    junk.write_text("-----BEGIN NATS USER JWT-----\nabc\n------END NATS USER JWT------\n")
    for field, creds, ca in (("nats_creds", "no/such", ""), ("nats_ca", "", "no/such")):
        with pytest.raises(InvalidInput, match=r"'no/such' cannot be used: No such file") as refused:
            access_of("nats://a", creds, ca)
        assert refused.value.field == field
    with pytest.raises(InvalidInput, match="no user's JWT and NKEY seed"):
        access_of("nats://a", str(junk), "")
    with pytest.raises(InvalidInput, match="nats_ca"):
        access_of("nats://a", "", str(junk))


def without_the_setting_the_target_says_so(tmp_path: Path) -> None:
    absent: Target = build_targets(tmp_path)["nats"]
    assert absent.kind == "nats"
    assert not isinstance(absent, NatsTarget)
    with pytest.raises(InvalidInput, match="none is given"):
        build_targets(tmp_path, brokers=Brokers(nats_ca="/ca.pem"))
    assert isinstance(build_targets(tmp_path, brokers=Brokers(nats="nats://a"))["nats"], NatsTarget)


def a_server_is_trusted_by_the_certificate_that_was_given(tmp_path: Path) -> None:
    _certified(tmp_path)
    tls = f'tls {{ cert_file: "{tmp_path}/node.pem", key_file: "{tmp_path}/node.key" }}'

    async def tried() -> None:
        target = NatsTarget(access_of(f"tls://127.0.0.1:{server.port}", "", f"{tmp_path}/ca.pem"))
        await target.start()
        await until_connected(target)
        await target.stop()
        stranger = target_for(f"tls://127.0.0.1:{server.port}")
        await stranger.start()
        await until_told(stranger, "its certificate is not trusted")
        await stranger.stop()

    server = NatsServer(tmp_path / "nats", tls)
    try:
        asyncio.run(tried())
    finally:
        server.stop()


def where_tls_is_wanted_nothing_is_said_without_it(tmp_path: Path) -> None:
    async def tried() -> None:
        target = target_for(f"tls://user:password@127.0.0.1:{server.port}")
        await target.start()
        await until_told(target, "offers no TLS")
        await target.stop()

    server = NatsServer(tmp_path / "nats")
    try:
        asyncio.run(tried())
    finally:
        server.stop()


def what_is_no_nats_is_told(tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 smtp ready\r\n")
        await reader.read(1)
        writer.close()

    async def tried() -> None:
        other = await asyncio.start_server(answer, "127.0.0.1", 0)
        target = target_for(f"nats://127.0.0.1:{other.sockets[0].getsockname()[1]}")
        await target.start()
        await until_told(target, "does not speak as NATS does")
        await target.stop()
        other.close()

    asyncio.run(tried())


class _Identity:
    """A key of NATS's own kind, and what it vouches for."""

    def __init__(self, kind: int) -> None:
        self._key = Ed25519PrivateKey.generate()
        self._kind = kind
        self.public = _coded(bytes([kind]) + self._key.public_key().public_bytes_raw())

    @property
    def seed(self) -> str:
        prefix = bytes([0x90 | self._kind >> 5, (self._kind & 31) << 3])
        return _coded(prefix + self._key.private_bytes_raw())

    def vouches_for(self, other: _Identity, kind: str, **claims: object) -> str:
        said = {
            "jti": other.public,
            "iat": 1_700_000_000,
            "iss": self.public,
            "sub": other.public,
            "name": kind,
            "nats": {"type": kind, "version": 2, **claims},
        }
        signed = ".".join(_plain(part) for part in ({"typ": "JWT", "alg": "ed25519-nkey"}, said))
        return f"{signed}.{_url64(self._key.sign(signed.encode()))}"


def _coded(raw: bytes) -> str:
    return base64.b32encode(raw + binascii.crc_hqx(raw, 0).to_bytes(2, "little")).decode().rstrip("=")


def _plain(part: object) -> str:
    return _url64(json.dumps(part, separators=(",", ":")).encode())


def _url64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def credentials_from_a_file_are_proved_by_signature(tmp_path: Path) -> None:
    operator, system, account, user, other = (_Identity(kind << 3) for kind in (14, 0, 0, 20, 20))
    limits = {
        "wildcards": True,
        **dict.fromkeys(["subs", "data", "payload", "imports", "exports", "conn", "leaf"], -1),
    }
    storing = {**limits, "mem_storage": -1, "disk_storage": -1}
    accounts = {
        each.public: operator.vouches_for(each, "account", limits=given)
        for each, given in ((system, limits), (account, storing))
    }
    preload = "\n".join(f"{public}: {jwt}" for public, jwt in accounts.items())
    config = (
        f"operator: {operator.vouches_for(operator, 'operator')}\nsystem_account: {system.public}\n"
        f"resolver: MEMORY\nresolver_preload: {{\n{preload}\n}}\n"
    )
    jwt = account.vouches_for(user, "user", subs=-1, data=-1, payload=-1)
    files = {name: tmp_path / name for name in ("right", "wrong")}
    for path, seed in zip(files.values(), (user.seed, other.seed), strict=True):
        path.write_text(
            f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        )

    async def tried() -> None:
        right = await connected(server.url, creds=str(files["right"]))
        await right.stop()
        wrong = target_for(server.url, creds=str(files["wrong"]))
        await wrong.start()
        outcome = await until_told(wrong, "Authorization Violation")
        await wrong.stop()
        assert other.seed not in outcome.reason

    server = NatsServer(tmp_path / "nats", config)
    try:
        asyncio.run(tried())
    finally:
        server.stop()


def a_server_shows_no_password_of_its_own() -> None:
    server = Server("a", 4222, False, "user", "s3cret")
    assert "s3cret" not in f"{server} {server!r} {access_of('nats://u:s3cret@a', '', '')!r}"
