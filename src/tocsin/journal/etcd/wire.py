"""Protocol buffers, as far as etcd's messages need them: numbers, bytes and messages in messages."""

from __future__ import annotations

from collections.abc import Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SMALL = [bytes([number]) for number in range(128)]

Value = bytes | str | int | bool
Fields = dict[int, list[bytes | int]]


def message(*fields: tuple[int, Value]) -> bytes:
    """The given fields in their order. Zero, False and nothing are left out: the reader assumes them."""
    parts: list[bytes] = []
    for number, value in fields:
        if isinstance(value, str):
            value = value.encode()
        if isinstance(value, bytes):
            if value:
                parts += (_varint(number << 3 | _BYTES), _varint(len(value)), value)
        elif value:
            parts += (_varint(number << 3 | _VARINT), _varint(int(value)))
    return b"".join(parts)


def nested(number: int, content: bytes) -> bytes:
    """A message as a field of another one. It is there also when it is empty."""
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def fields(raw: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Each field with its number, as it comes. Raises ValueError where the bytes end too early."""
    at, end = 0, len(raw)
    while at < end:
        tag, at = _read_varint(raw, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _read_varint(raw, at)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            size, at = _read_varint(raw, at)
        elif kind == _FIXED64:
            size = 8
        elif kind == _FIXED32:
            size = 4
        else:
            raise ValueError(f"a field of the unknown kind {kind}")
        if at + size > end:
            raise ValueError("the message ends in the middle of a field")
        yield tag >> 3, raw[at : at + size]
        at += size


def parsed(raw: bytes) -> Fields:
    """All fields by number."""
    found: Fields = {}
    for number, value in fields(raw):
        found.setdefault(number, []).append(value)
    return found


def number(found: Fields, field: int) -> int:
    """The last value of a numeric field. etcd's numbers are signed 64 bit."""
    value = found.get(field, [0])[-1]
    if not isinstance(value, int):
        raise ValueError(f"field {field} is no number")
    return value - (1 << 64) if value >> 63 else value


def unsigned(found: Fields, field: int) -> int:
    """Ids of members are unsigned."""
    value = found.get(field, [0])[-1]
    if not isinstance(value, int):
        raise ValueError(f"field {field} is no number")
    return value


def blob(found: Fields, field: int) -> bytes:
    """The last value of a field of bytes, text or message."""
    value = found.get(field, [b""])[-1]
    if not isinstance(value, bytes):
        raise ValueError(f"field {field} is a number")
    return value


def blobs(found: Fields, field: int) -> list[bytes]:
    """All values of a repeated field."""
    return [value for value in found.get(field, []) if isinstance(value, bytes)]


def text(found: Fields, field: int) -> str:
    return blob(found, field).decode("utf-8", "replace")


def _varint(value: int) -> bytes:
    if 0 <= value < 128:
        return _SMALL[value]
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(raw: bytes, at: int) -> tuple[int, int]:
    try:
        byte = raw[at]
        if byte < 128:
            return byte, at + 1
        value, shift = byte & 127, 7
        while True:
            at += 1
            byte = raw[at]
            value |= (byte & 127) << shift
            if byte < 128:
                return value, at + 1
            shift += 7
            if shift > 63:
                raise ValueError("a number that is too long")
    except IndexError:
        raise ValueError("the message ends in the middle of a number") from None
