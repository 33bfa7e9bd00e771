"""What commands print: answers, errors as sentences, and the exit status that goes with them."""

from __future__ import annotations

import sys

from tocsin.errors import InvalidInput, TocsinError, Uncertain, Unreachable

REFUSED, UNREACHABLE, INTERRUPTED = 1, 3, 130
_SHOWN_MAX = 100


class Mistakes(TocsinError):  # why: so are all of tocsin.errors
    """Several errors at once: all that is wrong with what was given."""

    def __init__(self, found: list[TocsinError]) -> None:
        super().__init__("; ".join(str(mistake) for mistake in found))
        self.found = found


def exit_status(error: TocsinError) -> int:
    return UNREACHABLE if isinstance(error, (Unreachable, Uncertain)) else REFUSED


def report(error: TocsinError, as_json: bool) -> None:
    """One or two lines on stderr, or the problem details in one."""
    for each in error.found if isinstance(error, Mistakes) else [error]:
        if as_json:
            from tocsin.model.problem import problem_of

            print(encoded(problem_of(each)), file=sys.stderr)
        else:
            print("\n".join(sentences(each)), file=sys.stderr)


def sentences(error: TocsinError) -> list[str]:
    """What is wrong, and below it what would be right."""
    first, second = error.message, [error.hint]
    if isinstance(error, InvalidInput):
        shown = _shown(error.value)
        is_told = not shown or shown.removesuffix("...") in error.message
        first = f"{error.field}: {first}" + ("" if is_told else f" (given: {shown})")
        second = [f"allowed: {error.allowed}" if error.allowed else "", error.hint]
    rest = "; ".join(filter(None, second))
    return [_printable(f"tocsin: {first}"), *([_printable(f"        {rest}")] if rest else [])]


def _shown(value: object) -> str:
    """As it was given, which was never Python."""
    text = encoded(value) if isinstance(value, (dict, list, tuple, bool)) else str(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."


def encoded(value: object) -> str:
    import msgspec

    return msgspec.json.encode(value).decode()


def print_json(value: object) -> None:
    print(encoded(value))


def say(text: str) -> None:
    """What we have to say beside the answer."""
    print(_printable(text), file=sys.stderr, flush=True)


def tell_of_more(cursor: str) -> None:
    if cursor:
        say("there are more: --limit 0 shows all")


def a_person_looks() -> bool:
    """At a terminal; else it is a file or another program."""
    return sys.stdout.isatty()


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
