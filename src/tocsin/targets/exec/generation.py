"""Which start of Tocsin an order is of.

A helper that was frozen when Tocsin was killed may go on later, with orders that nobody knows of any more: meanwhile
they may have been cancelled, or given anew. So every start has a number, keepers compare it right before they start a
command, and what an earlier one has ordered is not started.
"""

from __future__ import annotations

from pathlib import Path


class Generation:
    """The file ``.generation`` of an ``exec_dir``."""

    def __init__(self, exec_dir: Path) -> None:
        self.path = exec_dir / ".generation"
        self.number = 0

    def begin(self) -> None:
        """Tocsin was started."""
        try:
            former = int(self.path.read_text())
        except (FileNotFoundError, ValueError):
            former = 0
        self.number = former + 1
        temporary = self.path.with_name(".generation.new")
        temporary.write_text(str(self.number))
        temporary.replace(self.path)
