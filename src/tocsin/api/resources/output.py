"""What an attempt printed: on whichever replica that was, and from a byte on for whoever reads it while it runs."""

from __future__ import annotations

import asyncio

from tocsin.api.service import Service
from tocsin.errors import NoLeader, Unreachable
from tocsin.targets.contract import Output

_LETTER_BYTES_MAX = 4


async def wherever(service: Service, kind: str, name: str, attempt: int, replica: str) -> Output | None:
    """The output of an attempt. It lies where the attempt was made: ``replica`` made the last one, a former one may
    have been made by any of them."""
    found = await service.replica.output_here(kind, name, attempt)
    names = {replica, *(member.name for member in service.around.members())} - {"", service.replica.name}
    if found is not None or not names:
        return found
    answers = await asyncio.gather(*(_of(service, other, kind, name, attempt) for other in sorted(names)))
    found = next((answer for answer in answers if isinstance(answer, Output)), None)
    silent = [other for other, answer in zip(sorted(names), answers, strict=True) if answer == _SILENT]
    if found is None and kind == "exec" and replica in silent:
        raise Unreachable(
            f"{replica} made this attempt and has its output, and does not answer",
            hint="try again when it is up",
        )
    return found


_SILENT = "silent"


async def _of(service: Service, other: str, kind: str, name: str, attempt: int) -> Output | str | None:
    try:
        return await service.around.peers.output(other, kind, name, attempt)
    except (Unreachable, NoLeader):
        return _SILENT


def beyond(found: Output, after: int) -> tuple[Output, int]:
    """What was printed behind so many bytes, and how many bytes there are up to its end.

    The beginning is kept as it is, while the end moves: bytes that were let go before anybody asked for them count as
    dropped. While the command runs, a letter that has come in part is left for the next time.
    """
    tail_at = len(found.head) + found.dropped
    end = tail_at + len(found.tail)
    last = found.tail if found.dropped else found.head[-_LETTER_BYTES_MAX:] + found.tail
    held = 0 if found.complete else _unfinished(last)
    head = found.head[after:]
    tail = found.tail[max(0, after - tail_at) :]
    dropped = max(0, tail_at - max(after, len(found.head)))
    if not dropped:
        head, tail = head + tail, b""  # a letter may stand across the seam
    if held and dropped:
        tail = tail[:-held]
    elif held:
        head = head[:-held]
    return Output(head, tail, dropped, found.complete), max(end - held, after)


def _unfinished(data: bytes) -> int:
    """How many bytes at the end are the beginning of a letter in UTF-8."""
    for length in range(1, min(_LETTER_BYTES_MAX, len(data) + 1)):
        byte = data[-length]
        if byte & 0b1100_0000 != 0b1000_0000:  # not a byte that goes on with a letter
            wanted = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
            return length if wanted > length else 0
    return 0
