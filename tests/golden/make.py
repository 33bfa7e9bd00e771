"""Writes the golden journals of this version, which every later one must be able to read::

    python -m tests.golden.make v2

It refuses to touch what is there: what was written once is what users have on their disks.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

import msgspec
from tests.core.desk import START, Desk
from tests.golden.folder import HERE, Expected, pack, write_records
from tests.golden.history import SCHEDULES, first_half, second_half

from tocsin import __version__
from tocsin.config import Settings
from tocsin.journal import codec
from tocsin.journal.contract import Record
from tocsin.journal.sqlite import SqliteJournal
from tocsin.model.command import LaunchNow, SwitchSchedule
from tocsin.model.entry import Position
from tocsin.node import compose
from tocsin.state import snapshot
from tocsin.state.digest import full_digest
from tocsin.state.snapshot import Manifest
from tocsin.state.store import Store
from tocsin.state.tables import SCHEMA_VERSION


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or not arguments[0].startswith("v"):
        print(__doc__)
        return 2
    into = HERE / arguments[0]
    if into.exists():
        print(f"{into} is there already, and what is golden stays as it is")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        first, restored = Path(folder) / "first", Path(folder) / "restored"
        made = asyncio.run(_first(first))
        asyncio.run(_restored(restored, first, made))
        for data in (first, restored):
            asyncio.run(_keep(data, into / data.name, made))
    return 0


async def _first(data: Path) -> Manifest:
    journal = SqliteJournal(data / "journal.db")
    await journal.open()
    desk = Desk(START, data, journal.birth)
    first_half(desk)
    reader = desk.store.reader()
    made = snapshot.write(reader, data / "snapshots")
    made = msgspec.structs.replace(made, digest=full_digest(reader))
    reader.close()
    snapshot.write_manifest(data / "snapshots", made)
    second_half(desk)
    desk.close()
    after = journal.birth.start
    for raw in desk.records:
        id = codec.decode(raw, after.seq + 1).id
        await journal.append(id, raw, after)
        after = Position(after.seq + 1, id)
    await journal.close()
    return made


async def _restored(data: Path, source: Path, made: Manifest) -> None:
    """The real thing: a service that goes on from what ``tocsin restore`` left there."""
    (data / "restore").mkdir(parents=True)
    for path in (source / "snapshots").iterdir():
        (data / "restore" / path.name).write_bytes(path.read_bytes())
    replica = compose(Settings(data=data, name="one", clock_gap="20000d")).replica
    await replica.start()
    await replica.propose(SwitchSchedule("every/hour", False, note="after the fire", actor="ann"))
    await replica.propose(LaunchNow("retried", actor="ann"))
    await replica.stop()


async def _keep(data: Path, into: Path, made: Manifest) -> None:
    journal = SqliteJournal(data / "journal.db")
    await journal.open()
    bounds = await journal.bounds()
    records = [await journal.get(seq) for seq in range(bounds.first, bounds.last + 1)]
    await journal.close()
    for name in ("journal.db", "state.db"):
        pack(data / name, into / name)
    file = snapshot.data_of(Path("snapshots"), made.seq)
    pack(data / file, into / file)
    (into / file).with_suffix(".json").write_bytes((data / file).with_suffix(".json").read_bytes())
    write_records([record for record in records if isinstance(record, Record)], into / "journal.ndjson")
    store = Store(data / "state.db")
    expected = Expected(
        version=__version__,
        schema=SCHEMA_VERSION,
        incarnation=store.meta.incarnation,
        snapshot_seq=made.seq,
        seq=store.meta.seq,
        running_digest=store.meta.digest.hex(),
        full_digest=full_digest(store.db),
        schedules=[
            id for (id,) in store.db.execute("SELECT id FROM schedule ORDER BY id") if id in SCHEDULES
        ],
    )
    store.close()
    (into / "expected.json").write_bytes(msgspec.json.format(msgspec.json.encode(expected)) + b"\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
