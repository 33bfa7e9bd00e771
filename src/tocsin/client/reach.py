"""Why nobody answered, in words: what the system calls it, and what would help."""

from __future__ import annotations

import os
import re
import socket
import ssl

import aiohttp

from tocsin.errors import Unreachable

_ONLY_ASK = ("GET", "HEAD")


def unreached(wrong: OSError) -> str:
    """Why there was no connection: ``connection refused``, whatever the libraries put around it."""
    if isinstance(wrong, ssl.SSLError):
        return "it does not speak TLS" if wrong.reason in _NOT_TLS else (wrong.reason or "TLS").lower()
    if isinstance(wrong, socket.gaierror):
        return (wrong.strerror or str(wrong)).lower()
    number = wrong.errno
    if number is None and (found := re.search(r"\[Errno ([0-9]+)\]", str(wrong))) is not None:
        number = int(found[1])  # several addresses were tried: the reason of the first stands for all
    return os.strerror(number).lower() if number else str(wrong)


_NOT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG")


def nobody(urls: list[str], reason: str) -> Unreachable:
    """None of the addresses took a connection."""
    hint = "is it running? start it with `tocsin serve`"
    if "TLS" in reason:
        hint = "if it is not meant to, its address begins with http://"
    return Unreachable(f"nothing answers at {', '.join(urls)} ({reason})", hint=hint)


def unanswered(url: str, method: str, wrong: Exception) -> Unreachable:
    """A connection, but no answer. What only asks can be asked again without a second thought."""
    hints = []
    if _is_cut(wrong) and url.startswith("http:"):
        hints.append("if it speaks TLS, its address begins with https://")
    if method not in _ONLY_ASK:
        hints.append("it may have been carried out nevertheless: look before you repeat it")
    return Unreachable(f"{url} did not answer: {_how(wrong)}", hint="; ".join(hints))


def cut_off(url: str, wrong: Exception) -> Unreachable:
    """An answer that ended too early."""
    if isinstance(wrong, aiohttp.ClientPayloadError):
        return Unreachable(f"{url} was cut off: before the end of its answer")
    hint = "if it speaks TLS, its address begins with https://"
    is_cut = isinstance(wrong, aiohttp.ServerDisconnectedError) and url.startswith("http:")
    return Unreachable(f"{url} was cut off: {_how(wrong)}", hint=hint if is_cut else "")


def _is_cut(wrong: Exception) -> bool:
    return isinstance(wrong, (aiohttp.ServerDisconnectedError, ConnectionResetError))


def _how(wrong: Exception) -> str:
    if _is_cut(wrong):
        return "it closed the connection"
    if isinstance(wrong, TimeoutError):
        return "it took too long"
    return unreached(wrong) if isinstance(wrong, OSError) else str(wrong) or "it is silent"
