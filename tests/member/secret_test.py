"""One secret makes a cluster, and keeps everybody else out."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from tocsin.errors import InvalidInput
from tocsin.member.secret import Credentials, certified_name, new_secret, read_secret, secrets_differ
from tocsin.model.cluster import Member

ONE, OTHER = b"one secret of a cluster, long enough", b"another secret of another cluster..."


def _credentials(
    folder: Path, name: str = "a", secret: bytes = ONE, peer: str = "127.0.0.1:8410"
) -> Credentials:
    credentials = Credentials(secret, Member(name, peer=peer), folder / name)
    credentials.write()
    return credentials


def _kept(path: Path, content: str, mode: int = 0o600) -> Path:
    path.write_text(content)
    path.chmod(mode)
    return path


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
    assert a.fingerprint == b.fingerprint
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
    a, stranger = _credentials(tmp_path, "a"), _credentials(tmp_path, "z", OTHER)
    assert a.fingerprint != stranger.fingerprint
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
    assert _credentials(tmp_path, secret=OTHER).own_file.read_bytes() != moved


def a_damaged_certificate_is_made_anew(tmp_path: Path) -> None:
    own = _credentials(tmp_path).own_file
    own.write_bytes(own.read_bytes()[:200])
    _credentials(tmp_path).server_context()


def nobody_else_can_read_the_key(tmp_path: Path) -> None:
    own = _credentials(tmp_path / "data" / "member").own_file
    assert own.stat().st_mode & 0o777 == 0o600
    assert [folder.stat().st_mode & 0o777 for folder in own.parents[:3]] == [0o700] * 3


def a_new_secret_is_fit_and_like_no_other(tmp_path: Path) -> None:
    secret = new_secret()
    assert secret != new_secret()
    assert read_secret(_kept(tmp_path / "secret", f"{secret}\n")) == secret.encode()


def a_missing_secret_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read: no such file") as refused:
        read_secret(tmp_path / "secret")
    assert "tocsin cluster secret" in refused.value.hint


def a_short_secret_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="of 6 bytes can be guessed") as refused:
        read_secret(_kept(tmp_path / "secret", "hunter\n"))
    assert "32 bytes" in refused.value.allowed
    assert "hunter" not in str(refused.value)


@pytest.mark.parametrize("mode", [0o604, 0o666])
def a_secret_that_everybody_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(InvalidInput, match="every user") as refused:
        read_secret(_kept(tmp_path / "secret", new_secret(), mode))
    assert "chmod" in refused.value.hint


def a_group_may_share_a_secret(tmp_path: Path) -> None:
    assert read_secret(_kept(tmp_path / "secret", new_secret(), 0o640))
