"""Which files ``apply`` means. What cannot be looked at is told: with --prune, to overlook a file is to remove."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from tocsin.errors import InvalidInput, TocsinError

_SUFFIXES = (".yaml", ".yml", ".json", ".toml")


class Findings:
    """What was wrong on the way. ``strict``: nothing may be passed over, because what is missing will be removed."""

    def __init__(self, strict: bool) -> None:
        self._strict = strict
        self.mistakes: list[TocsinError] = []
        self.remarks: list[str] = []

    def unreadable(self, name: str, wrong: OSError | UnicodeDecodeError) -> None:
        reason = wrong.strerror if isinstance(wrong, OSError) and wrong.strerror else str(wrong)
        self.mistakes.append(InvalidInput(f"{name}: {reason}", field="file", value=name))

    def passed_over(self, name: str, reason: str) -> None:
        """A mistake if it could cost a schedule, else only a remark."""
        if not self._strict:
            self.remarks.append(f"{name}: {reason}")
            return
        self.mistakes.append(
            InvalidInput(
                f"{name}: {reason}, and --prune would remove what was in it",
                field="file",
                value=name,
                hint="repair it; or delete it, if its schedules are to be removed",
            )
        )


def files_of(path: Path, findings: Findings) -> list[Path]:
    """The file itself, or all files with schedules below a directory, in the order of their names."""
    if not path.is_dir():
        return [path]
    mistakes = len(findings.mistakes)
    found = list(_below(path, findings, {}))
    if not found and len(findings.mistakes) == mistakes:
        findings.passed_over(str(path), "there is no schedule in it")
    return found


def _below(top: Path, findings: Findings, seen: dict[str, Path]) -> Iterator[Path]:
    """Links are followed, but each file and each directory is read once, under whatever name it comes first.

    So a link that leads back up is no loop, and a mounted ConfigMap, all links, defines nothing twice.
    """

    def unreadable(wrong: OSError) -> None:
        findings.unreadable(str(wrong.filename or top), wrong)

    for folder, folders, files in os.walk(top, onerror=unreadable, followlinks=True):
        if seen.setdefault(os.path.realpath(folder), Path(folder)) != Path(folder):
            folders.clear()
            continue
        folders.sort()
        if not folders and not files and _is_in_sight(Path(folder).relative_to(top)):
            # A submodule that was not checked out, or a volume that is not mounted, looks like this.
            findings.passed_over(folder, "an empty directory")
        for name in sorted(files):
            path = Path(folder, name)
            if _is_wanted(path, findings) and seen.setdefault(os.path.realpath(path), path) == path:
                yield path


def _is_in_sight(below: Path) -> bool:
    """Neither the top itself nor in something like .git, which is full of empty directories."""
    return bool(below.parts) and not any(part.startswith(".") for part in below.parts)


def _is_wanted(path: Path, findings: Findings) -> bool:
    has_suffix = path.suffix in _SUFFIXES
    if path.is_symlink() and not os.path.exists(path):
        # Whatever its name: it may have led to a directory.
        findings.passed_over(str(path), f"a link to {os.readlink(path)!r}, which cannot be reached")
        return False
    if has_suffix and not os.path.isfile(path):
        findings.passed_over(str(path), "not a regular file")
        return False
    return has_suffix
