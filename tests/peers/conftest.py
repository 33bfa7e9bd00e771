"""Replicas that answer each other over real sockets and real TLS. What they answer is written down here."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tocsin.errors import NotFound
from tocsin.model.cluster import Asked, Hello, Member, PeerStatus
from tocsin.model.command import Command
from tocsin.peers.client import PeerClient
from tocsin.peers.directory import Directory
from tocsin.peers.server import PeerServer
from tocsin.replica.peers import Answered, Fate
from tocsin.state.snapshot import Manifest, manifests, verify
from tocsin.targets.contract import Output


class Authority:
    """Certificates as a cluster's secret would give them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "tocsin")])
        made = _certificate(self._name, self._name, self._key, self._key, authority=True)
        self.file = folder / "ca.pem"
        self.file.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def contexts(self, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        """For the server and for the client of a replica."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        made = _certificate(subject, self._name, key, self._key, names=[f"{name}.tocsin.internal"])
        file = self._folder / f"{name}.pem"
        file.write_bytes(
            made.public_bytes(serialization.Encoding.PEM)
            + key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.file)
        server.verify_mode = ssl.CERT_REQUIRED
        server.load_cert_chain(file)
        client = ssl.create_default_context(cafile=self.file)
        client.load_cert_chain(file)
        return server, client


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    *,
    names: Sequence[str] = (),
    authority: bool = False,
) -> x509.Certificate:
    known = [*(x509.DNSName(name) for name in names), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))
        .not_valid_after(datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(known), critical=False)
        .sign(signer, hashes.SHA256())
    )


class Played:
    """A replica that answers as it is told to, and remembers what it was asked."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.role: Any = "follower"
        self.heard: list[Any] = []
        self.answer: Callable[[Command], Any] = lambda command: None
        self.told: list[Fate] | None = None
        self.printed: Output | None = None
        self.lent: list[int] = []

    def status(self) -> PeerStatus:
        return PeerStatus(name=self.name, version="1", role=self.role, digests={7: "d"})

    async def carry_out(self, command: Command) -> Answered:
        self.heard.append(command)
        result = self.answer(command)
        if asyncio.iscoroutine(result):
            result = await result
        if isinstance(result, Exception):
            raise result
        return Answered(41, result)

    async def fates(self, asked: Sequence[Asked], term: int) -> list[Fate]:
        self.heard.append((list(asked), term))
        return [Fate("never") for _ in asked] if self.told is None else self.told

    async def cancel_here(self, asked: Asked, reason: str) -> None:
        self.heard.append((asked, reason))

    async def output_here(self, kind: str, name: str, attempt: int) -> Output | None:
        self.heard.append((kind, name, attempt))
        return self.printed

    async def step_down(self) -> None:
        self.heard.append("step down")

    @contextlib.contextmanager
    def lend(self, seq: int) -> Iterator[tuple[Manifest, Path]]:
        for manifest in self.snapshots():
            if manifest.seq == seq:
                self.lent.append(seq)
                yield manifest, verify(self.folder, manifest)
                return
        raise NotFound(f"there is no snapshot {seq}")

    def snapshots(self) -> list[Manifest]:
        return manifests(self.folder)


class Cluster:
    """Some replicas, and one more that asks them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder / "authority")
        self.replicas: dict[str, Played] = {}
        self.servers: dict[str, PeerServer] = {}
        self.members: dict[str, Member] = {}

    async def add(self, name: str) -> Played:
        played = Played(name, self.folder / name)
        played.folder.mkdir()
        server = PeerServer(
            "127.0.0.1:0", self.authority.contexts(name)[0], played, lambda: Hello(name, "founded", "t")
        )
        await server.start()
        self.replicas[name], self.servers[name] = played, server
        self.members[name] = Member(name, f"127.0.0.1:{server.port}")
        return played

    def client(self, authority: Authority | None = None) -> PeerClient:
        tls = (authority or self.authority).contexts("me")[1]
        return PeerClient("me", Directory("me", [Member("me", "127.0.0.1:1"), *self.members.values()]), tls)

    async def stop(self) -> None:
        for server in self.servers.values():
            await server.stop()


@contextlib.asynccontextmanager
async def _running(folder: Path, names: Sequence[str]) -> AsyncIterator[tuple[Cluster, PeerClient]]:
    cluster = Cluster(folder)
    for name in names:
        await cluster.add(name)
    client = cluster.client()
    await client.start()
    try:
        yield cluster, client
    finally:
        await client.stop()
        await cluster.stop()


@pytest.fixture
def running(
    tmp_path: Path,
) -> Callable[..., contextlib.AbstractAsyncContextManager[tuple[Cluster, PeerClient]]]:
    return lambda *names: _running(tmp_path, names)


@pytest.fixture
def strangers(tmp_path: Path) -> Authority:
    """Those who have another secret."""
    return Authority(tmp_path / "strangers")
