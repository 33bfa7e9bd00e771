"""One secret makes a cluster, and keeps everybody else out."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from tocsin.member.secret import Credentials, certified_name, secrets_differ
from tocsin.member.secret_file import Secrets
from tocsin.model.cluster import Member

ONE, OTHER = b"one secret of a cluster, long enough", b"another secret of another cluster..."
ROUNDS = [Secrets(ONE), Secrets(ONE, (OTHER,)), Secrets(OTHER, (ONE,)), Secrets(OTHER)]
"""How the secret of a cluster is changed."""


def _credentials(
    folder: Path, name: str = "a", secrets: Secrets = ROUNDS[0], peer: str = "127.0.0.1:8410"
) -> Credentials:
    credentials = Credentials(secrets, Member(name, peer=peer), folder / name)
    credentials.write()
    return credentials


async def _greeted(server: ssl.SSLContext, client: ssl.SSLContext | None, name: str) -> bytes:
    """What a caller hears from a server that says one word to whom it lets in."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"welcome")
        writer.close()

    listener = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=server)
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname=name)
        try:
            return await reader.read()
        finally:
            writer.close()


def _turned_away(server: Credentials, client: ssl.SSLContext) -> bool:
    """The server lets go of it without a word; with TLS 1.3 the caller sees that only after its own handshake."""
    try:
        return asyncio.run(_greeted(server.server_context(), client, "localhost")) == b""
    except (ssl.SSLError, ConnectionError):
        return True


def two_replicas_with_one_secret_trust_each_other(tmp_path: Path) -> None:
    a, b = _credentials(tmp_path, "a"), _credentials(tmp_path, "b")
    assert a.fingerprints == b.fingerprints
    heard = asyncio.run(_greeted(a.server_context(), b.client_context(), certified_name("a")))
    assert heard == b"welcome"


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "replica.example.org"])
def a_replica_is_known_by_its_addresses_too(tmp_path: Path, name: str) -> None:
    a = _credentials(tmp_path, peer="replica.example.org:8410")
    assert asyncio.run(_greeted(a.server_context(), a.client_context(), name)) == b"welcome"


def a_replica_is_not_taken_for_another(tmp_path: Path) -> None:
    a = _credentials(tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError):
        asyncio.run(_greeted(a.server_context(), a.client_context(), certified_name("b")))


def another_secret_gets_nowhere_in_either_direction(tmp_path: Path) -> None:
    a, stranger = _credentials(tmp_path, "a"), _credentials(tmp_path, "z", ROUNDS[-1])
    assert a.fingerprints != stranger.fingerprints
    with pytest.raises(ssl.SSLError) as failed:
        asyncio.run(_greeted(a.server_context(), stranger.client_context(), certified_name("a")))
    assert secrets_differ(failed.value)
    gullible = stranger.client_context()
    gullible.check_hostname = False
    gullible.verify_mode = ssl.CERT_NONE
    assert _turned_away(a, gullible)


def without_a_certificate_nobody_is_let_in(tmp_path: Path) -> None:
    a = _credentials(tmp_path)
    bare = ssl.create_default_context(cafile=str(a.authority_file))
    assert _turned_away(a, bare)


def a_broken_connection_is_no_difference_of_secrets() -> None:
    assert not secrets_differ(ConnectionResetError("reset"))


def certificates_stay_as_long_as_they_are_right(tmp_path: Path) -> None:
    first = _credentials(tmp_path).own_file.read_bytes()
    assert _credentials(tmp_path).own_file.read_bytes() == first
    assert _credentials(tmp_path, peer="10.0.0.9:8410").own_file.read_bytes() != first
    moved = _credentials(tmp_path).own_file.read_bytes()
    assert _credentials(tmp_path, secrets=ROUNDS[-1]).own_file.read_bytes() != moved


def a_damaged_certificate_is_made_anew(tmp_path: Path) -> None:
    own = _credentials(tmp_path).own_file
    own.write_bytes(own.read_bytes()[:200])
    _credentials(tmp_path).server_context()


def nobody_else_can_read_the_key(tmp_path: Path) -> None:
    own = _credentials(tmp_path / "data" / "member").own_file
    assert own.stat().st_mode & 0o777 == 0o600
    assert [folder.stat().st_mode & 0o777 for folder in own.parents[:3]] == [0o700] * 3


def _talk(server: Credentials, client: Credentials) -> bool:
    try:
        heard = asyncio.run(_greeted(server.server_context(), client.client_context(), certified_name("a")))
    except (ssl.SSLError, ConnectionError):
        return False
    return heard == b"welcome"


@pytest.mark.parametrize("one", range(len(ROUNDS)))
@pytest.mark.parametrize("other", range(len(ROUNDS)))
def replicas_of_neighbouring_rounds_trust_each_other_and_no_others_do(
    tmp_path: Path, one: int, other: int
) -> None:
    server = _credentials(tmp_path / "one", "a", ROUNDS[one])
    client = _credentials(tmp_path / "other", "a", ROUNDS[other])
    assert _talk(server, client) == (abs(one - other) <= 1)


def the_first_secret_signs_the_certificate_and_comes_first_among_the_fingerprints(tmp_path: Path) -> None:
    (one,), both, turned, (other,) = (_credentials(tmp_path, secrets=each).fingerprints for each in ROUNDS)
    assert (both, turned) == ([one, other], [other, one])
    before = _credentials(tmp_path, secrets=ROUNDS[0]).own_file.read_bytes()
    assert _credentials(tmp_path, secrets=ROUNDS[1]).own_file.read_bytes() == before
    assert _credentials(tmp_path, secrets=ROUNDS[2]).own_file.read_bytes() != before


def the_authorities_have_another_file_when_others_are_trusted_and_not_when_another_comes_first(
    tmp_path: Path,
) -> None:
    one, both, turned, other = (_credentials(tmp_path, secrets=each).authority_file for each in ROUNDS)
    assert both == turned
    assert len({one, both, other}) == 3
    assert _credentials(tmp_path).authority_file == one, "the same at each start"


def files_of_authorities_that_are_trusted_no_more_are_removed(tmp_path: Path) -> None:
    former = _credentials(tmp_path).authority_file
    now = _credentials(tmp_path, secrets=ROUNDS[1])
    assert former.exists()
    now.remove_former_authorities()
    assert sorted(former.parent.iterdir()) == sorted([now.authority_file, now.own_file])
