"""An entry as bytes: one byte for the form, a checksum, then msgpack, compressed when it is large."""

from __future__ import annotations

import zlib

import msgspec
import zstandard

from tocsin.errors import StateDamaged
from tocsin.model.entry import Entry

ENTRY_BYTES_MAX = 1 << 20
CHANGES_BYTES_MAX = ENTRY_BYTES_MAX - 16 * 1024
"""Changes that take no more than this make an entry within the limit, whether or not they can be compressed."""
_BODY_BYTES_MAX = 64 * ENTRY_BYTES_MAX
_COMPRESS_FROM_BYTES = 4096
_PLAIN, _COMPRESSED = 1, 2
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Entry)


def encode(entry: Entry) -> bytes:
    body = _encoder.encode(entry)
    form = _PLAIN
    if len(body) >= _COMPRESS_FROM_BYTES:
        body, form = zstandard.ZstdCompressor(level=1).compress(body), _COMPRESSED
    return bytes([form]) + zlib.crc32(body).to_bytes(4, "big") + body


def decode(raw: bytes, seq: int) -> Entry:
    """The entry, or an error that names it: a damaged one is never half read."""
    body = raw[5:]
    if len(raw) < 5 or zlib.crc32(body) != int.from_bytes(raw[1:5], "big"):
        raise StateDamaged(f"journal entry {seq} is damaged: its checksum does not match")
    try:
        if raw[0] == _COMPRESSED:
            body = _decompressed(body, seq)
        elif raw[0] != _PLAIN:
            raise StateDamaged(
                f"journal entry {seq} has the unknown form {raw[0]}",
                hint="was it written by a newer version?",
            )
        return _decoder.decode(body)
    except (zstandard.ZstdError, msgspec.MsgspecError, UnicodeError, RecursionError, OverflowError) as wrong:
        raise StateDamaged(
            f"journal entry {seq} cannot be read: {wrong}", hint="was it written by a newer version?"
        ) from wrong


def _decompressed(body: bytes, seq: int) -> bytes:
    """What a frame says about its size is not taken on trust: memory is set aside for it at once."""
    size = zstandard.frame_content_size(body)
    if not 0 <= size <= _BODY_BYTES_MAX:
        raise StateDamaged(f"journal entry {seq} cannot be read: it would have {size} bytes")
    return zstandard.ZstdDecompressor().decompress(body)
