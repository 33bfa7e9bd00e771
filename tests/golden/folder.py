"""What a golden folder holds, and how it becomes a data directory.

    v<n>/<journal>/journal.db.zst            the journal as the embedded engine keeps it
    v<n>/<journal>/journal.ndjson            its entries again, one a line: number, id and bytes in base64
    v<n>/<journal>/snapshots/                one snapshot: of the middle, or what ``restored`` goes on from
    v<n>/<journal>/state.db.zst              the state at the end
    v<n>/<journal>/expected.json             what is to come of it

Large files are compressed: a state is mostly empty pages.
"""

from __future__ import annotations

import base64
from pathlib import Path

import msgspec
import zstandard

from tocsin.journal.contract import Record

HERE = Path(__file__).parent
JOURNALS = ("first", "restored")


class Expected(msgspec.Struct, frozen=True):
    """After the last entry."""

    version: str
    schema: int
    incarnation: str
    snapshot_seq: int
    seq: int
    running_digest: str
    full_digest: str
    schedules: list[str]


class Line(msgspec.Struct, frozen=True):
    seq: int
    id: str
    raw: str


class Golden:
    """One journal of one version."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __str__(self) -> str:
        return f"{self.folder.parent.name}-{self.folder.name}"

    @property
    def expected(self) -> Expected:
        return msgspec.json.decode((self.folder / "expected.json").read_bytes(), type=Expected)

    @property
    def records(self) -> list[Record]:
        lines = (self.folder / "journal.ndjson").read_bytes().splitlines()
        found = [msgspec.json.decode(line, type=Line) for line in lines]
        return [Record(line.seq, base64.b64decode(line.id), base64.b64decode(line.raw)) for line in found]

    def unpack(self, data: Path, *, with_state: bool = True) -> Path:
        """As the data directory that it was."""
        for packed in self.folder.rglob("*.zst"):
            if packed.name == "state.db.zst" and not with_state:
                continue
            path = data / packed.relative_to(self.folder).with_suffix("")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(zstandard.ZstdDecompressor().decompress(packed.read_bytes()))
        for manifest in self.folder.glob("snapshots/*.json"):
            (data / "snapshots" / manifest.name).write_bytes(manifest.read_bytes())
        return data


def goldens() -> list[Golden]:
    return [Golden(path) for version in sorted(HERE.glob("v*")) for path in sorted(version.iterdir())]


def pack(path: Path, into: Path) -> None:
    into.parent.mkdir(parents=True, exist_ok=True)
    packed = zstandard.ZstdCompressor(level=19).compress(path.read_bytes())
    into.with_name(into.name + ".zst").write_bytes(packed)


def write_records(records: list[Record], path: Path) -> None:
    def text(raw: bytes) -> str:
        return base64.b64encode(raw).decode()

    lines = [msgspec.json.encode(Line(record.seq, text(record.id), text(record.raw))) for record in records]
    path.write_bytes(b"\n".join(lines) + b"\n")
