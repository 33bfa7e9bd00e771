"""The certificate that the API shows, read again when its files change.

The listener keeps one TLS context for its whole life, which hands each new connection to the newest good one (in
the callback for the server's name, which is called whether a client sends a name or not). So a change of the pair
is all or nothing: a pair is read into a context of its own, and only one that is whole takes over. Connections
that are open go on with what they began with.
"""

from __future__ import annotations

import asyncio
import os
import ssl

import structlog

from tocsin.config import Settings
from tocsin.errors import InvalidInput

log = structlog.get_logger()

LOOK_S = 1.0
"""How often the files are looked at."""

_Stamp = tuple[tuple[int, int, int] | None, ...]


class Certificate:
    """A certificate and its key, from two files. Raises InvalidInput if they cannot be used."""

    def __init__(self, cert: str, key: str) -> None:
        self._cert = cert
        self._key = key
        self._stamp = self._look()
        self._newest = self._load()
        self.context = _empty()
        self.context.sni_callback = self._hand_over

    def refresh(self) -> bool:
        """Look at the files; True if new ones took over. A pair that is broken is told once, and not used."""
        stamp = self._look()
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            self._newest = self._load()
        except InvalidInput as wrong:
            log.warning(
                "the new certificate is not used, the one before stays", file=wrong.value, reason=str(wrong)
            )
            return False
        log.info("a new certificate is in use", file=self._cert)
        return True

    async def keep_fresh(self, every_s: float = LOOK_S) -> None:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(every_s)
            await asyncio.to_thread(self.refresh)  # the files may be on a disk that does not answer

    def _hand_over(
        self, connection: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _: ssl.SSLContext
    ) -> None:
        connection.context = self._newest

    def _look(self) -> _Stamp:
        return tuple(_stamp_of(path) for path in (self._cert, self._key))

    def _load(self) -> ssl.SSLContext:
        context = _empty()
        for field, path in (("tls_cert", self._cert), ("tls_key", self._key)):
            _check_readable(field, path)
        _check_certificate(self._cert)
        try:
            context.load_cert_chain(self._cert, self._key, password=_no_passphrase)
        except (OSError, ValueError) as wrong:
            raise _unusable("tls_key", self._key, self._why(wrong)) from None
        return context

    def _why(self, wrong: OSError | ValueError) -> str:
        if isinstance(wrong, ssl.SSLError) and wrong.reason == "KEY_VALUES_MISMATCH":
            return f"is not the key of the certificate in {self._cert}"
        if isinstance(wrong, _PassphraseNeeded):
            return "is protected by a passphrase, which nobody can type here"
        if isinstance(wrong, OSError) and not isinstance(wrong, ssl.SSLError):
            return f"cannot be read: {wrong.strerror}"
        return "holds no private key"


class _PassphraseNeeded(ValueError):
    """OpenSSL would ask for it at the terminal, and wait."""


def certificate(settings: Settings) -> Certificate | None:
    """The certificate that the settings ask for."""
    return Certificate(settings.tls_cert, settings.tls_key) if settings.is_tls() else None


def _empty() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    return context


def _no_passphrase() -> str:
    raise _PassphraseNeeded


def _stamp_of(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _check_readable(field: str, path: str) -> None:
    try:
        with open(path, "rb") as file:
            file.read(1)
    except OSError as wrong:
        raise _unusable(field, path, f"cannot be read: {wrong.strerror}") from None


def _check_certificate(path: str) -> None:
    """On its own, so that it is known which of the two files is wrong."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=path)
    except ssl.SSLError:
        raise _unusable("tls_cert", path, "holds no certificate") from None


def _unusable(field: str, path: str, why: str) -> InvalidInput:
    allowed = (
        "a certificate in PEM" if field == "tls_cert" else "its private key in PEM, without a passphrase"
    )
    return InvalidInput(f"{path} {why}", field=field, value=path, allowed=f"a file with {allowed}")
