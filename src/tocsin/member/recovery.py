"""The majority is lost for ever: the cluster goes on with one that survived (``--recover``).

etcd strikes all others off and goes on from what this disk holds. What only the others knew is lost, and so may be the
last entries before etcd was killed: they are on the disk, but nothing there says that they were agreed on. So a marker
is left for the journal, which then tells since when launches are in doubt.

etcd's log on the disk may end before its data does: of a killed etcd it says too little about what was agreed on.
Whoever joined and was told the log would miss what the data holds, and nobody would notice. So etcd is started
twice: the first time it writes all of its data down as a snapshot, and from the second on whoever joins is sent that.
"""

from __future__ import annotations

import msgspec
import structlog

from tocsin.clock import Clock
from tocsin.errors import ClusterError
from tocsin.files import write_whole
from tocsin.journal.etcd.client import EtcdClient
from tocsin.journal.etcd.journal import has_journal
from tocsin.member.founding import Inquiry
from tocsin.member.record import Memory

_log = structlog.get_logger()


RECOVERING = ("--force-new-cluster", "--snapshot-count=1")
"""How etcd is started the first time."""
_WRITES = 20
"""More than the entries that its log may lack: those are not counted again."""
_KEY = b"tocsin-recovery"


class _Marker(msgspec.Struct):
    time_ms: int


class Recovery:
    """Carried out once, however often the replica is started with the option."""

    def __init__(self, name: str, memory: Memory, inquiry: Inquiry, clock: Clock) -> None:
        self._name = name
        self._memory = memory
        self._inquiry = inquiry
        self._clock = clock
        self._marker = memory.folder / "recovered.json"
        self._marked: tuple[int | None] | None = None
        """The content of the file, once it was read: the status asks for it every second."""

    async def is_due(self, asked: bool) -> bool:
        """Raises where nothing is lost, and where nothing is left."""
        record = self._memory.record
        if not asked:
            if record.recovered_ms:
                self._memory.keep(recovered_ms=0)
            return False
        if record.recovered_ms:
            _log.warning(
                "this replica has been recovered already; --recover is not carried out again",
                remedy="start it without --recover",
            )
            return False
        if not self._memory.has_data():
            raise ClusterError(
                f"there is nothing to recover from: the disk of {self._name} is empty",
                hint="give --recover to the replica that survived, and start this one without it",
            )
        await self._check_lost()
        _log.warning("the cluster goes on with this replica alone; what only the others knew is lost")
        return True

    async def check_journal(self, client: EtcdClient, prefix: str) -> None:
        """A replica that was about to join the others may not have been sent anything by them. Raises ClusterError."""
        if self._memory.record.joined and not await has_journal(client, prefix):
            raise ClusterError(
                f"there is nothing to recover from: {self._name} was about to join the others, and has nothing of "
                "theirs",
                hint="give --recover to a replica that survived; if none did, restore a backup",
            )

    async def make_whole(self, client: EtcdClient) -> None:
        """With every write etcd makes a snapshot of its data now: a few, so that one holds everything."""
        for number in range(_WRITES):
            await client.put(_KEY, b"%d" % number)
        await client.delete(_KEY)

    def mark(self) -> None:
        """It is done."""
        now_ms = self._clock.wall_ms()
        write_whole(self._marker, msgspec.json.encode(_Marker(now_ms)))
        self._marked = (now_ms,)
        self._memory.sign(recovered_ms=now_ms, condition="founded")

    def marked_ms(self) -> int | None:
        if self._marked is None:
            try:
                self._marked = (msgspec.json.decode(self._marker.read_bytes(), type=_Marker).time_ms,)
            except FileNotFoundError:
                self._marked = (None,)
        return self._marked[0]

    def unmark(self) -> None:
        self._marker.unlink(missing_ok=True)
        self._marked = (None,)

    async def _check_lost(self) -> None:
        hellos = await self._inquiry.ask()
        remember = sorted(
            name for name, hello in hellos.items() if hello and hello.condition in ("founded", "recovering")
        )
        if remember and self._memory.is_copy():
            raise ClusterError(
                f"{self._memory.etcd} is a copy, and {', '.join(remember)} can know more",
                hint=f"start it without --recover; if a majority is lost for ever, give --recover to {remember[0]}",
            )
        if len(remember) + 1 > (len(hellos) + 1) // 2:
            raise ClusterError(
                f"the majority is not lost: {', '.join([*remember, self._name])} can go on",
                hint="start it without --recover",
            )
