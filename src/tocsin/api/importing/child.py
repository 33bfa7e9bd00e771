"""The process that reads blocks: an order comes in, columns go out.

    python -m tocsin.api.importing.child

It imports little, because an import waits for it.
"""

from __future__ import annotations

import gc
import os
import pickle
import struct
import sys
from typing import BinaryIO

from tocsin.api.importing.reading import read

SIZE = struct.Struct(">I")
LESS_URGENT = 10
"""Whoever has something to launch comes first to the processor."""


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Block after block, each with the rules for it and the time."""
    while head := source.read(SIZE.size):
        block, rules, now_s = pickle.loads(source.read(SIZE.unpack(head)[0]))
        raw = pickle.dumps(read(block, rules, now_s))
        sink.write(SIZE.pack(len(raw)) + raw)
        sink.flush()


if __name__ == "__main__":
    os.nice(LESS_URGENT)
    gc.disable()  # a schedule refers to nothing that refers back to it
    serve(sys.stdin.buffer, sys.stdout.buffer)
