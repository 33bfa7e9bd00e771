"""What the commands say where others could listen in, and that they never say the token."""

from __future__ import annotations

import pytest

from tocsin.cli.command import ask
from tocsin.cli.service import Start, _greet
from tocsin.client import Client
from tocsin.config import Settings
from tocsin.errors import Unreachable

START = Start(given={}, example=False, as_json=False)

NOBODY = "http://0.0.0.0:1"
"""Not a loopback name, and yet this machine: nothing leaves it."""


@pytest.mark.parametrize(
    ("url", "token", "is_warned"),
    [(NOBODY, "secret-1", True), (NOBODY, "", False), ("http://127.0.0.1:1", "secret-1", False)],
)
def a_token_that_goes_unencrypted_through_a_network_is_warned_of_once(
    monkeypatch, capsys, url, token, is_warned
):
    async def question(client: Client) -> None:
        with pytest.raises(Unreachable):
            await client.status()
        with pytest.raises(Unreachable):
            await client.status()

    monkeypatch.setenv("TOCSIN_TOKEN", token)
    ask(url, question)
    out, err = capsys.readouterr()
    assert err.count("others can read your token") == is_warned
    assert "secret" not in out + err


@pytest.mark.parametrize(
    ("listen", "cert", "is_warned"),
    [
        ("0.0.0.0:1", "", True),
        ("10.0.0.1:1", "", True),
        ("0.0.0.0:1", "c", False),
        ("127.0.0.1:1", "", False),
    ],
)
def the_greeting_warns_of_listeners(capsys, listen, cert, is_warned):
    _greet("http://x:1", Settings(listen=listen, tls_cert=cert, tls_key=cert), 0, START)
    assert ("without TLS" in capsys.readouterr().out) is is_warned


@pytest.mark.parametrize(
    ("listen", "is_loopback"),
    [
        ("127.0.0.1:1", True),
        ("127.9.9.9:1", True),
        ("[::1]:1", True),
        ("localhost:1", True),
        (":1", True),
        ("0.0.0.0:1", False),
        ("[::]:1", False),
        ("10.0.0.1:1", False),
        ("localhost.example:1", False),
        ("127.0.0.1.example:1", False),
    ],
)
def beyond_loopback_tokens_are_needed_and_commands_are_not_run(listen, is_loopback):
    settings = Settings(listen=listen)
    assert settings.is_loopback() is is_loopback
    assert settings.needs_tokens() is not is_loopback
    assert settings.allows_exec() is is_loopback
    assert Settings(listen=listen, tokens="always").needs_tokens()
    assert Settings(listen=listen, allow_exec="yes").allows_exec()
    assert not Settings(listen=listen, allow_exec="no").allows_exec()
