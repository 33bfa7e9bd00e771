"""What comes out of the journal or from another replica is what went in, or is refused by name."""

from __future__ import annotations

import zlib
from typing import get_args

import msgspec
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzz.mutation import corpus, fuzz, outcome
from tests.fuzz.shapes import structs
from tests.golden.folder import goldens
from tests.peers.messages_test import SCHEDULE

from tocsin import errors
from tocsin.errors import StateDamaged
from tocsin.journal import codec
from tocsin.model.change import Change, SchedulePut
from tocsin.model.entry import Entry
from tocsin.peers import messages


def _decoded(raw: bytes) -> Entry | None:
    entry, damaged = outcome(lambda: codec.decode(raw, 7), StateDamaged)
    assert damaged is None or damaged.message.startswith("journal entry 7 ")
    return entry


def _check_entry(raw: bytes) -> None:
    """As it is; and as something with a right checksum, so that what is behind it is reached as well."""
    seen = {whole for name, whole in corpus("entry")}
    assert _decoded(raw) is None or raw in seen, "a damaged entry was taken for a whole one"
    for form in (1, 2):
        found = _decoded(bytes([form]) + zlib.crc32(raw[5:]).to_bytes(4, "big") + raw[5:])
        if found is not None:
            whole = codec.encode(found)
            assert codec.encode(codec.decode(whole, 8)) == whole


def an_entry_is_read_whole_or_refused_by_its_number() -> None:
    fuzz("entry", _check_entry, 6_000)


def _packed(body: bytes) -> bytes:
    return b"\x02" + zlib.crc32(body).to_bytes(4, "big") + body


def _frame(claimed: int) -> bytes:
    """An empty frame that claims to hold so many bytes."""
    return b"\x28\xb5\x2f\xfd\xe0" + claimed.to_bytes(8, "little") + b"\x01\x00\x00"


@pytest.mark.parametrize("claimed", [65 << 20, 1 << 40, (1 << 64) - 3])
def no_memory_is_set_aside_for_what_an_entry_only_claims(claimed: int) -> None:
    with pytest.raises(StateDamaged, match="journal entry 9 cannot be read"):
        codec.decode(_packed(_frame(claimed)), 9)


def an_entry_that_grows_without_end_is_refused() -> None:
    stream = zstandard.ZstdCompressor().compressobj()
    body = stream.compress(b"\0" * (70 << 20)) + stream.flush()
    with pytest.raises(StateDamaged, match="journal entry 9 cannot be read"):
        codec.decode(_packed(body), 9)


def _nested() -> bytes:
    put = SchedulePut(msgspec.structs.replace(SCHEDULE, payload="PLACE"), "0 2 1 * *", None, None, 0)
    body = msgspec.msgpack.encode(Entry(b"i", b"h", 1, 1, [put]))
    return body.replace(b"\xa5PLACE", b"\x91" * 50_000 + b"\xc0")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(_nested(), id="lists in lists without end"),
        pytest.param(
            b"\x95\xc4\x01i\xc4\x01h\x01\x01\x91\x93\xaaTookOffice\x01\xa1\xff", id="a text that is none"
        ),
        pytest.param(b"\x95\xc4\x01i\xc4\x01h\x01\x01\x91\x93\xa1\xff\x01\xa1r", id="a kind that is no text"),
        pytest.param(b"\x95\xc4\x01i\xc4\x01h\x01\x01\x91\x91\xa6Future", id="a kind of the future"),
    ],
)
def an_entry_whose_content_makes_no_sense_is_refused_by_its_number(body: bytes) -> None:
    with pytest.raises(StateDamaged, match="journal entry 9 cannot be read"):
        codec.decode(b"\x01" + zlib.crc32(body).to_bytes(4, "big") + body, 9)


@pytest.mark.parametrize("kind", get_args(Change), ids=lambda kind: kind.__name__)
def every_kind_of_change_comes_back_as_it_was(kind: type) -> None:
    @settings(max_examples=15, deadline=None, database=None)
    @given(structs(kind), st.integers(0, 2**63), st.integers(0, 2**63), st.integers(1, 60))
    def there_and_back(change: Change, term: int, time_ms: int, times: int) -> None:
        entry = Entry(b"i" * 16, b"h" * 16, term, time_ms, [change] * times)
        raw = codec.encode(entry)
        found = codec.decode(raw, 1)
        assert found == entry
        assert codec.encode(found) == raw

    there_and_back()


def one_flipped_byte_of_an_entry_is_always_noticed() -> None:
    """In every entry of the golden journals, each byte in turn."""
    for golden in goldens():
        for record in golden.records:
            for position in range(0, len(record.raw), max(1, len(record.raw) // 60)):
                raw = bytearray(record.raw)
                raw[position] ^= 1 << position % 8
                assert _decoded(bytes(raw)) is None


def _check_message(raw: bytes) -> None:
    for shape in (messages.Inquiry, messages.Cancelling, messages.Printed, messages.Nothing):
        outcome(lambda shape=shape: messages.decode(raw, shape), errors.Unreachable)
    outcome(lambda: messages.answered_of(messages.decode(raw, messages.Result)), errors.Unreachable)
    error, _ = outcome(lambda: messages.error_of(messages.decode(raw, messages.Wrong)), errors.Unreachable)
    assert error is None or isinstance(error, errors.TocsinError)
    command, refused = outcome(
        lambda: messages.command_of(messages.decode(raw, messages.Proposal)),
        *(errors.Unreachable, errors.Refused, errors.InvalidInput),
    )
    assert len(str(refused)) < 5_000
    if command is not None:
        sent = messages.encode(messages.proposal_of(command))
        again = messages.command_of(messages.decode(sent, messages.Proposal))
        assert (
            messages.encode(messages.proposal_of(again)) == sent
        )  # a payload may hold what is unlike itself: NaN


def a_message_of_another_replica_is_understood_or_refused() -> None:
    fuzz("message", _check_message, 6_000)
