"""Chance, all of it from one seed. Each purpose has a stream of its own: asking once more in one place does not change
what happens in another."""

from __future__ import annotations

import hashlib
import random


class Chance:
    """A tree of random streams."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._streams: dict[str, random.Random] = {}

    def of(self, purpose: str) -> random.Random:
        """The stream of that purpose."""
        stream = self._streams.get(purpose)
        if stream is None:
            digest = hashlib.blake2b(f"{self._seed}/{purpose}".encode(), digest_size=8).digest()
            stream = self._streams[purpose] = random.Random(int.from_bytes(digest, "big"))
        return stream
