"""A wall clock that can be stepped for one process while it runs. Every other clock stays as it is."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

from tests.needs import lacking

_SOURCE = Path(__file__).with_suffix(".c")


class ClockShift:
    """What a process is started with (``environment``), and how far its wall clock is off from then on."""

    def __init__(self, folder: Path) -> None:
        library, self._file = folder / "clockshift.so", folder / "clockshift"
        self._file.write_bytes(struct.pack("=q", 0))
        self.is_there = True
        try:
            command = ["cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
            subprocess.run(command, check=True, capture_output=True)
        except (FileNotFoundError, subprocess.CalledProcessError):
            self.is_there = False
        self.environment = {"LD_PRELOAD": str(library), "CLOCKSHIFT": str(self._file)}

    def step(self, seconds: int) -> None:
        """From now on it is so much ahead (or behind) in all."""
        if not self.is_there:
            lacking("stepping the clock of one process needs a C compiler")
        descriptor = os.open(self._file, os.O_WRONLY)
        os.pwrite(descriptor, struct.pack("=q", seconds), 0)
        os.close(descriptor)
