"""Brings a snapshot here, in pieces, from whoever has it.

What has come stays in a partial file that bears the snapshot's number and checksum. When the one who lends it goes
away, the transfer goes on from another one that holds the very same file; where nobody does, it begins anew with what
there is. It counts only when the checksum of the whole is right.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

import aiohttp
import structlog

from tocsin.errors import TocsinError, Unreachable
from tocsin.state import snapshot
from tocsin.state.snapshot import Manifest

log = structlog.get_logger()
SILENCE_MAX_S = 5.0
FRUITLESS_MAX = 5
"""After so many tries in a row that brought nothing it is given up."""
LOYAL = 2
"""So often it is tried to go on with what has come in part, before that is given up for another snapshot."""
PAUSE_S = 0.3
_WRITTEN_AT_ONCE = 1024 * 1024
SPARE_BYTES = 64 * 1024 * 1024
"""So much of the disk is left free: the journal needs room too."""
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Lenders(Protocol):
    """The other replicas, as a transfer needs them."""

    async def offers(self) -> dict[str, list[Manifest]]: ...
    def lent(
        self, replica: str, manifest: Manifest, first: int, silence_s: float
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]: ...


class Offer(NamedTuple):
    """A snapshot, and who has it."""

    replica: str
    manifest: Manifest


class Transfer:
    """One snapshot on its way."""

    def __init__(
        self,
        lenders: Lenders,
        incarnation: str,
        least: int,
        folder: Path,
        newest: Callable[[], Awaitable[int]] | None = None,
    ) -> None:
        self._lenders = lenders
        self._incarnation = incarnation
        self._least = least
        self._folder = folder
        self._newest = newest
        self._bad: set[Offer] = set()
        """What turned out not to be what it was said to be."""

    async def run(self) -> Manifest | None:
        """The snapshot's manifest, when it is in the folder and right. None: nobody has one."""
        self._folder.mkdir(parents=True, exist_ok=True)
        fruitless, wrong = 0, Unreachable("no snapshot was brought here")
        while fruitless < FRUITLESS_MAX:
            try:
                offers = list(self._usable(*await self._offered()))
            except Unreachable as silent:
                wrong, offers = silent, []
            else:
                if not offers:
                    return None
            came = 0
            for offer in self._best(offers):
                came = await self._fetch(offer)
                done = await self._complete(offer)
                if done is not None:
                    return done
                wrong = Unreachable(f"{offer.replica} did not lend its snapshot")
                if came or (self._has(offer) and fruitless < LOYAL):
                    break
            fruitless = 0 if came else fruitless + 1
            await asyncio.sleep(PAUSE_S)
        raise wrong

    async def _offered(self) -> tuple[dict[str, list[Manifest]], int | None]:
        """What there is, and where the journal ends: looked at afterwards, because it moves on."""
        offers = await self._lenders.offers()
        return offers, None if self._newest is None else await self._newest()

    def _usable(self, offers: dict[str, list[Manifest]], last: int | None) -> Iterator[Offer]:
        for replica, manifests in offers.items():
            for manifest in manifests:
                offer = Offer(replica, manifest)
                is_ours = manifest.incarnation == self._incarnation and manifest.seq >= self._least
                if is_ours and offer not in self._bad and self._is_possible(offer, last):
                    yield offer

    def _is_possible(self, offer: Offer, last: int | None) -> bool:
        """What another one says is not taken on trust: nothing is written for a snapshot that cannot be one."""
        manifest = offer.manifest
        if not _SHA256.fullmatch(manifest.sha256) or manifest.size < 1:
            reason = "its manifest is not one"
        elif last is not None and manifest.seq > last:
            reason = f"the journal ends at {last}"
        else:
            return True
        self._pass_over(offer, reason)
        return False

    def _has_room(self, offer: Offer) -> bool:
        """What has come in part of others is dropped for it, so its room counts as free."""
        free = shutil.disk_usage(self._folder).free + sum(
            path.stat().st_size for path in self._folder.glob("fetch-*.partial")
        )
        return offer.manifest.size <= free - SPARE_BYTES

    def _pass_over(self, offer: Offer, reason: str) -> None:
        self._bad.add(offer)
        log.warning(
            "a snapshot is passed over",
            replica=offer.replica,
            seq=offer.manifest.seq,
            bytes=offer.manifest.size,
            reason=reason,
        )

    def _best(self, offers: list[Offer]) -> list[Offer]:
        """What has come in part already, then the newest. One that is tried in vain is followed by the next."""
        return sorted(offers, key=lambda offer: (self._has(offer), offer.manifest.seq), reverse=True)

    def _has(self, offer: Offer) -> int:
        path = self._partial(offer.manifest)
        return path.stat().st_size if path.is_file() else 0

    async def _fetch(self, offer: Offer) -> int:
        """Go on with it as far as it comes. Returns how many bytes that were."""
        manifest, path = offer.manifest, self._partial(offer.manifest)
        first = await asyncio.to_thread(self._has, offer)
        if first >= manifest.size:
            return 0
        if not await asyncio.to_thread(self._has_room, offer):
            self._pass_over(offer, f"there is no room for it on the disk of {self._folder}")
            return 0
        try:
            async with self._lenders.lent(offer.replica, manifest, first, SILENCE_MAX_S) as response:
                if response.status != 206:
                    return 0
                self._drop_others(path)
                await _keep(response, path, manifest.size - first)
        except (aiohttp.ClientError, TimeoutError, ConnectionError, TocsinError) as wrong:
            log.info("a snapshot was cut off", replica=offer.replica, seq=manifest.seq, reason=str(wrong))
        return await asyncio.to_thread(self._has, offer) - first

    async def _complete(self, offer: Offer) -> Manifest | None:
        """Verified and admitted to the folder, if all of it is here."""
        path = self._partial(offer.manifest)
        if await asyncio.to_thread(self._has, offer) < offer.manifest.size:
            return None
        if not await asyncio.to_thread(snapshot.is_whole, path, offer.manifest):
            log.warning("a snapshot came damaged", replica=offer.replica, seq=offer.manifest.seq)
            self._bad.add(offer)
            path.unlink(missing_ok=True)
            return None
        await asyncio.to_thread(snapshot.admit, self._folder, path, offer.manifest)
        return offer.manifest

    def _partial(self, manifest: Manifest) -> Path:
        return self._folder / f"fetch-{manifest.seq:016d}-{manifest.sha256[:32]}.partial"

    def _drop_others(self, kept: Path) -> None:
        """There may not be room for two."""
        for path in self._folder.glob("fetch-*.partial"):
            if path != kept:
                path.unlink(missing_ok=True)


async def _keep(response: aiohttp.ClientResponse, path: Path, size: int) -> None:
    """What comes goes to the disk, on a thread; what came before it was cut off is kept."""
    file = await asyncio.to_thread(_appended, path)
    held: list[bytes] = []
    weight = 0
    try:
        async for piece in response.content.iter_any():
            taken = piece[:size]
            size -= len(taken)
            held.append(taken)
            weight += len(taken)
            if weight >= _WRITTEN_AT_ONCE:
                await asyncio.to_thread(file.writelines, held)
                held, weight = [], 0
            if not size:
                break
    finally:
        await asyncio.to_thread(_ended, file, held)


def _appended(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb")


def _ended(file: BinaryIO, rest: list[bytes]) -> None:
    with file:
        file.writelines(rest)
