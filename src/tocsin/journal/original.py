"""Is the journal of a single service the one that was written here, or a copy that was put back?

What was launched since the copy was made stands in no record then, and must not be launched again. A mark lies beside
the journal, made anew at each start and at each end, and a file tells which mark is the valid one.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import structlog

from tocsin.file_identity import drop_other_marks, is_surely_copied, new_mark
from tocsin.files import make_folder, write_whole

log = structlog.get_logger()


class Original:
    """The mark of a journal file."""

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self._folder = journal.parent
        self._of = f"{journal.name}-"
        self._path = journal.with_name(journal.name + ".original")
        self.are_to_be_noted = False
        """Are entries lost, and the journal has yet to hear of it?"""
        self.may_leave_state_ahead = False
        """Not where the journal alone came from elsewhere: a state that does not go with it is another service's."""

    async def start(self) -> None:
        """Before the journal is opened."""
        await asyncio.to_thread(self._start)

    async def stop(self) -> None:
        """After it was closed."""
        if not self.are_to_be_noted:
            await asyncio.to_thread(self._sign)

    may_leave_foreign_state = False

    def state_begun(self) -> None:
        return

    def noted(self) -> None:
        """The loss stands in the journal now."""
        self.are_to_be_noted = False
        self._sign()

    def _start(self) -> None:
        make_folder(self._folder)
        self.are_to_be_noted = self._is_copied()
        self.may_leave_state_ahead = self.are_to_be_noted and self._path.exists()
        if self.are_to_be_noted:
            log.warning(
                "the journal was put back from a copy: what was launched since is not known",
                journal=str(self._journal),
            )
        else:
            self._sign()

    def _is_copied(self) -> bool:
        """A journal is signed before it is made: one without a signature came from elsewhere."""
        try:
            known = self._path.read_bytes().decode(errors="replace")
        except FileNotFoundError:
            return self._journal.exists()
        except IsADirectoryError:
            return True
        return is_surely_copied(self._folder, known)

    def _sign(self) -> None:
        """The journal is the one that is written here."""
        try:
            mark = new_mark(self._folder, self._of)
            write_whole(self._path, mark.encode())
            drop_other_marks(self._folder, mark, self._of)
        except OSError as wrong:  # a full disk: the former mark is as good
            log.warning("the mark of the journal cannot be made anew", reason=str(wrong))
