"""The record of one attempt: a directory that tells its story to whoever comes later."""

from __future__ import annotations

import errno
import json
import os

TYPE_CHECKING = False  # why: importing typing would make every keeper bigger
if TYPE_CHECKING:
    from typing import Any

VOID = "void"
"""The claim of nobody: made so that the attempt can never start."""


class Record:
    """One directory, ``<exec_dir>/<name>/<attempt>``."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def make(self) -> None:
        """Make the directory. ``exec_dir`` itself is not made: if it is gone, so is all certainty."""
        name_dir = os.path.dirname(self.path)
        for last_try in (False, False, True):
            try:
                _mkdir(name_dir)
                _mkdir(self.path)
                return
            except FileNotFoundError:  # pruning removed the empty parent between the two lines
                if last_try:
                    raise

    def unmake(self) -> None:
        """Remove the directory as far as it is empty."""
        for path in (self.path, os.path.dirname(self.path)):
            try:
                os.rmdir(path)
            except FileNotFoundError:
                continue
            except OSError:
                return

    def claim(self, who: str) -> bool:
        """Take this attempt. False: someone has it already."""
        try:
            os.symlink(who, self._file("claim"))
        except FileExistsError:
            return False
        return True

    def withdraw(self) -> None:
        """Give back a claim of one's own that nothing came of: the attempt is free again, and that it was is seen."""
        os.rename(self._file("claim"), self._file("withdrawn"))

    def withdrawn(self) -> bool:
        return os.path.lexists(self._file("withdrawn"))

    def claimed_by(self) -> str | None:
        return self._link("claim")

    def asked_lid(self) -> int | None:
        """The number of the launch that this attempt was claimed for, if a person asked for it after the fact, else 0.
        None: nobody has claimed it."""
        number = (self.claimed_by() or "").split(" ")[3:]
        return int(number[0]) if number and number[0].isdecimal() else None

    def note_command(self, who: str, began_ms: int) -> None:
        """``began_ms``: by the wall clock of the moment after its start. The disk may take this note much later."""
        os.symlink(f"{began_ms} {who}", self._file("command"))

    def command(self) -> str | None:
        text = self._link("command")
        return None if text is None else text.partition(" ")[2]

    def began_ms(self) -> int | None:
        """When its command began, by the wall clock of then. None: that was not noted."""
        try:
            began = (self._link("command") or "").partition(" ")[0]
        except OSError:
            return None
        return int(began) if began.isdecimal() else None

    def ask_cancel(self) -> None:
        os.close(os.open(self._file("cancel"), os.O_CREAT | os.O_WRONLY, 0o600))

    def cancel_asked(self) -> bool:
        return os.path.lexists(self._file("cancel"))

    def write_ended(self, ended: dict[str, Any]) -> None:
        self.replace("ended", json.dumps(ended).encode())

    def ended(self) -> dict[str, Any] | None:
        """How it ended. None when it has not, or when a power cut left half a file."""
        text = self.read("ended")
        if text is None:
            return None
        try:
            found = json.loads(text)
        except ValueError:
            return None
        return found if isinstance(found, dict) else None

    def is_taken_back(self) -> bool:
        """Is it certain that no command was begun under this record? It was made void, or cancelled before."""
        ended = self.ended()
        if ended is not None:
            return bool(ended.get("is_uncalled"))
        claim = self.claimed_by()
        return claim == VOID or (claim is None and self.cancel_asked())

    def append(self, name: str, data: bytes) -> int:
        """Append to a file; how many bytes found room."""
        fd = os.open(self._file(name), os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        try:
            return os.write(fd, data)
        finally:
            os.close(fd)

    def replace(self, name: str, data: bytes) -> None:
        """Write a whole file, so that a reader sees the old or the new one."""
        temporary = self._file(name + ".new")
        try:
            fd = os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
            try:
                if os.write(fd, data) != len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), temporary)
            finally:
                os.close(fd)
            os.rename(temporary, self._file(name))
        except OSError:
            if os.path.lexists(temporary):
                os.unlink(temporary)
            raise

    def read(self, name: str) -> bytes | None:
        try:
            with open(self._file(name), "rb") as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _file(self, name: str) -> str:
        return f"{self.path}/{name}"

    def _link(self, name: str) -> str | None:
        try:
            return os.readlink(self._file(name))
        except (FileNotFoundError, NotADirectoryError):
            return None


def _mkdir(path: str) -> None:
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
