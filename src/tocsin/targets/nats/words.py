"""What a server says, in words that may be shown."""

from __future__ import annotations

import os
import ssl


def why_of(wrong: Exception) -> str:
    if isinstance(wrong, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {printable(wrong.verify_message)}"
    if isinstance(wrong, OSError) and not isinstance(wrong, ssl.SSLError) and (wrong.errno or 0) > 0:
        return os.strerror(wrong.errno or 0)
    return printable(str(wrong)) or type(wrong).__name__


def said_in(line: bytes) -> str:
    return printable(line[4:].decode(errors="replace").strip().strip("'"))


def printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text[:400])
