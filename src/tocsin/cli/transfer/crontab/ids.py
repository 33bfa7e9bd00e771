"""Ids for the lines of a crontab: readable, from the command itself, and the same at every import.

An id never holds what could be a secret: of an option only its name is taken, of an address only host and path.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

_LENGTH_MAX = 60
_MARK_LENGTH = 6
_WORDS_MAX = 4
_PHRASE_MAX = 3
_PREPARING = (
    "cd test [ [[ command type which for fi done } sleep set ulimit umask export . source exit true : mkdir"
)
_NOT_THE_POINT = frozenset(_PREPARING.split())
"""Commands that only prepare for the one that matters."""

_KEYWORDS = frozenset({"if", "then", "else", "elif", "while", "until", "do", "{", "!"})

_WRAPPERS = {
    "nice": ("n", 0), "ionice": ("cnp", 0), "flock": ("wE", 1), "sudo": ("ugh", 0), "timeout": ("sk", 1),
    "chrt": ("", 1), "taskset": ("", 1), "setsid": ("", 0), "chronic": ("", 0), "cronic": ("", 0),
    "env": ("u", 0), "exec": ("", 0), "nohup": ("", 0), "time": ("f", 0), "run-one": ("", 0),
    "lockfile": ("", 1), "systemd-cat": ("tp", 0), "stdbuf": ("", 0), "nocache": ("", 0),
}  # fmt: skip
"""Commands that run another one: their options that have a value, and how many words come before the other."""

_INTERPRETERS = re.compile(r"(php|python|perl|ruby|node|java|sh|bash|dash|ksh|zsh)[0-9.]*")
_RUN_A_TEXT = frozenset({"sh", "bash", "dash", "ksh", "zsh", "su", "flock"})
_SCRIPT = re.compile(r"(.+)\.(sh|bash|py|pl|php|rb|js|jar|cgi)")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_SECRET = re.compile(r"pass|pwd|secret|token|key|auth|cred|user|login", re.IGNORECASE)


class Identity(NamedTuple):
    """What makes a line this line and no other, from the most lasting to the least."""

    user: str
    command: str
    input: str
    when: str
    settings: str


class Names:
    """Ids for the lines of a crontab."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def give(self, lines: Sequence[Identity]) -> list[str]:
        """The command's own words and a mark of user and command, so that a line keeps its id wherever it stands,
        whatever stands around it and whenever it is due.

        Where the same command stands in several lines, the mark is of when it is due too, for all of them: none of
        them is the first. If even that is the same, of the settings above; and what is the same in everything is
        counted, because it does not matter which is which.
        """
        ids = [self._id(line, line[:3]) for line in lines]
        for much in (4, 5):
            times = Counter(ids)
            ids = [
                id if times[id] == 1 else self._id(line, line[:much])
                for id, line in zip(ids, lines, strict=True)
            ]
        seen: Counter[str] = Counter()
        for place, (id, line) in enumerate(zip(ids, lines, strict=True)):
            seen[id] += 1
            if seen[id] > 1:
                ids[place] = self._id(line, (*line, str(seen[id])))
        return ids

    def _id(self, line: Identity, marked: Sequence[str]) -> str:
        mark = hashlib.sha256("\0".join(marked).encode(errors="surrogateescape")).hexdigest()
        return f"{self._prefix}{slug(line.command)}-{mark[:_MARK_LENGTH]}"


def slug(command: str) -> str:
    """``backup-daily`` for ``cd /srv && nice -n 5 /opt/bin/backup.sh --daily >/dev/null 2>&1``."""
    words = list(_told(_point(command)))
    short = "-".join(dict.fromkeys(filter(None, map(_plain, words[:_WORDS_MAX]))))
    return short[:_LENGTH_MAX].strip("-._+") or "command"


def _plain(word: str) -> str:
    return re.sub(r"[^a-z0-9._+]+", "-", word.lower()).strip("-._+")


def _point(command: str, depth: int = 0) -> list[str]:
    """The words of the simple command that a person would name if asked what this line does."""
    commands = [_unwrapped(words) for words in _simple_commands(command)]
    useful = [words for words in commands if words and words[0] not in _NOT_THE_POINT]
    words = next(iter(useful or filter(None, commands)), [])
    if words and depth < 3 and posixpath.basename(words[0]) in _RUN_A_TEXT:
        for place, word in enumerate(words[:-1]):
            if re.fullmatch(r"-[a-z]*c", word):
                return _point(words[place + 1], depth + 1)
    return words


def _simple_commands(command: str) -> list[list[str]]:
    """The words of each, without redirections."""
    found: list[list[str]] = [[]]
    skip = False
    for word in _words(command):
        if word.startswith("#"):
            break
        if set(word) <= set("();<>|&"):
            if "<" in word or ">" in word:
                skip = True
                if found[-1] and found[-1][-1].isdigit():
                    found[-1].pop()
            else:
                found.append([])
        elif skip:
            skip = False
        else:
            found[-1].append(word)
    return [words for words in found if words]


def _words(command: str) -> list[str]:
    reader = shlex.shlex(command, posix=True, punctuation_chars=True)
    reader.whitespace_split = True
    reader.commenters = ""
    try:
        return list(reader)
    except ValueError:  # a quote that is never closed: the shell's business, not ours
        return command.split()


def _unwrapped(words: list[str]) -> list[str]:
    while words:
        if words[0] in _KEYWORDS or _ASSIGNMENT.fullmatch(words[0]):
            words = words[1:]
            continue
        name = posixpath.basename(words[0])
        if name not in _WRAPPERS:
            return words
        rest = _behind(words[1:], *_WRAPPERS[name])
        if name == "flock" and rest[:1] in (["-c"], ["--command"]):
            return [name, "-c", *rest[1:]]
        if not rest:
            return words
        words = rest
    return words


def _behind(words: list[str], with_value: str, count: int) -> list[str]:
    """What stands behind the wrapper's own options and words."""
    while words and (words[0].startswith("-") or count):
        if not words[0].startswith("-"):
            count -= 1
        elif words[0] == "-c" and not count and "c" not in with_value:
            return words
        elif len(words[0]) == 2 and words[0][1] in with_value:
            words = words[1:]
        words = words[1:]
    return words


def _told(words: list[str]) -> Iterator[str]:
    """The program, and those of its words that may be told."""
    if words and _INTERPRETERS.fullmatch(posixpath.basename(words[0])):
        script = next((at for at, word in enumerate(words[1:], 1) if word[:1] != "-" and "=" not in word), 0)
        words = words[script:]
    if not words:
        return
    program = posixpath.basename(words[0].rstrip("/"))
    script_name = _SCRIPT.fullmatch(program)
    yield script_name[1] if script_name else program
    is_value = False
    for word in words[1:]:
        if word.startswith("--"):
            name, has_value, _ = word[2:].partition("=")
            yield name
            is_value = not has_value and _SECRET.search(name) is not None
        elif word.startswith("-"):
            is_value = True
        else:
            if "://" in word or (not is_value and not set(word) & set("$`*=")):
                yield _place(word)
            is_value = False


def _place(word: str) -> str:
    if "://" in word:
        try:
            parts = urlsplit(word)
            return f"{parts.hostname or ''}-{posixpath.basename(parts.path.rstrip('/'))}"
        except ValueError:
            return ""
    return "-".join(posixpath.basename(word.rstrip("/")).split()[:_PHRASE_MAX])
