"""Which crontabs are meant, and in which of the two formats each one is. Where that is a guess, it says so."""

from __future__ import annotations

import getpass
import hashlib
import os
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tocsin.cli.printing import Mistakes
from tocsin.errors import InvalidInput, TocsinError

STDIN = "(stdin)"
_NAME_IN_CRON_D = re.compile(r"[A-Za-z0-9_-]+")
_LABEL_LENGTH_MAX = 200


class Wish(NamedTuple):
    """What the caller said about the format."""

    system: bool = False
    user_format: bool = False
    user: str | None = None


class Source(NamedTuple):
    """One crontab, not yet read line by line. ``reason`` says why it is taken for this format."""

    name: str
    text: str
    system: bool
    guessed: bool
    reason: str
    user: str | None = None
    passed_over: tuple[str, ...] = ()

    @property
    def origin(self) -> str:
        """By this a schedule knows which crontab it is from: ``web1:/etc/crontab``, ``alice@web1:-`` from stdin.

        Many machines have an /etc/crontab, and none may overwrite what another one brought.
        """
        machine = socket.gethostname()
        if self.name == STDIN:
            return _labelled(f"{self.user or getpass.getuser()}@{machine}:-")
        return _labelled(f"{machine}:{os.path.abspath(self.name)}")

    @property
    def format(self) -> str:
        if self.system:
            return "system format (with a user column)"
        return f"user format, of {self.user}" if self.user else "user format"


def read_sources(given: list[str], wish: Wish) -> list[Source]:
    """All of them, or ``Mistakes`` with everything that cannot be read."""
    if wish.system and (wish.user_format or wish.user):
        raise InvalidInput(
            "a system crontab names a user in every line",
            field="--system",
            value="--user" if wish.user else "--user-format",
            allowed="one of --system, --user-format, --user NAME",
        )
    found: list[Source] = []
    mistakes: list[TocsinError] = []
    for name in given:
        try:
            found += _read(name, wish)
        except OSError as wrong:
            mistakes.append(InvalidInput(f"{name}: {wrong.strerror or wrong}", field="file", value=name))
        except InvalidInput as wrong:
            mistakes.append(wrong)
    if mistakes:
        raise Mistakes(mistakes)
    return found


def system_zone(etc: Path = Path("/etc")) -> str:
    """The zone that this machine's cron goes by; UTC where nothing tells it."""
    with suppress(OSError):
        place = os.readlink(etc / "localtime")
        if "zoneinfo/" in place:
            return _known(place.partition("zoneinfo/")[2])
    with suppress(OSError, UnicodeDecodeError):
        return _known((etc / "timezone").read_text(encoding="ascii").strip())
    return "UTC"


def _known(zone: str) -> str:
    """UTC has many names, and Tocsin's own is the one that its texts leave out."""
    return "UTC" if zone in ("", "Etc/UTC", "Etc/UCT", "UCT", "Zulu", "Etc/Zulu", "Universal") else zone


def _labelled(origin: str) -> str:
    """As a label can hold it; what would be lost by that is kept as a mark."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in origin)
    if shown == origin and len(shown) <= _LABEL_LENGTH_MAX:
        return shown
    mark = hashlib.sha256(origin.encode(errors="surrogateescape")).hexdigest()[:12]
    return f"{shown[: _LABEL_LENGTH_MAX - 13]}#{mark}"


def _read(name: str, wish: Wish) -> Iterator[Source]:
    if name == "-":
        yield _source(STDIN, Path("stdin"), sys.stdin.buffer.read(), wish)
        return
    path = Path(name)
    if not path.is_dir():
        yield _source(name, path, path.read_bytes(), wish)
        return
    files = sorted(file for file in path.iterdir() if file.is_file())
    wanted = [file for file in files if _is_wanted(file)]
    if not wanted:
        raise InvalidInput(f"{name}: there is no crontab in there", field="file", value=name)
    passed_over = tuple(file.name for file in files if file not in wanted)
    for file in wanted:
        source = _source(str(file), file, file.read_bytes(), wish)
        yield source._replace(passed_over=passed_over) if file is wanted[0] else source


def _is_wanted(file: Path) -> bool:
    """As in Debian: a dot in the name of a file in cron.d marks what a package manager or an editor left."""
    if _folder(file) == "cron.d":
        return _NAME_IN_CRON_D.fullmatch(file.name) is not None
    return not file.name.startswith(".") and not file.name.endswith("~")


def _source(name: str, path: Path, raw: bytes, wish: Wish) -> Source:
    text = raw.decode("utf-8-sig", "surrogateescape")
    system, user, reason = _format(path, wish)
    guessed = not (wish.system or wish.user_format or wish.user)
    return Source(name, text, system, guessed, reason, user)


def _format(path: Path, wish: Wish) -> tuple[bool, str | None, str]:
    where = _where(path)
    if wish.system:
        return True, None, "--system"
    if wish.user_format:
        return False, wish.user, "--user-format"
    if wish.user:
        if where:
            raise InvalidInput(
                f"{path}: {where}, so it names a user in every line",
                field="--user",
                value=wish.user,
                hint="leave out --user, or say --user-format too",
            )
        return False, wish.user, "--user"
    if where:
        return True, None, where
    if _is_spool(path.absolute().parent):
        return False, path.name, "it lies among the users' crontabs"
    return False, None, "a guess: --system if its lines name a user"


def _where(path: Path) -> str:
    """Why the place of the file makes it a system crontab."""
    if _folder(path) == "cron.d":
        return "it lies in cron.d"
    return "it is etc/crontab" if (_folder(path), path.name) == ("etc", "crontab") else ""


def _is_spool(folder: Path) -> bool:
    """Where cron itself keeps the users' crontabs, each under its user's name: Debian's place, and the others'."""
    return folder.parts[-3:] == ("spool", "cron", "crontabs") or folder.parts[-2:] == ("spool", "cron")


def _folder(path: Path) -> str:
    return path.absolute().parent.name
