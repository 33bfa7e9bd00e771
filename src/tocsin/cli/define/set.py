"""``set``: some fields of a schedule get other values, the rest stays as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tocsin.cli.command import Id, Json, Url, ask, pairs
from tocsin.cli.printing import print_json
from tocsin.cli.warned import warn
from tocsin.errors import InvalidInput, VersionConflict

if TYPE_CHECKING:
    from tocsin.client import Client
    from tocsin.model.schedule import ScheduleView

_TEXTS_BY_KEY = ("labels", "target.env", "target.headers")
"""Below these every key is the user's own, dots and all, and every value is text."""
_NO_TEXTS = (
    "payload target labels retry enabled retry.limit retry.jitter target.argv target.env target.headers target.success "
    "target.limits target.limits.memory_mb target.limits.cpu_seconds target.limits.processes target.idempotent"
)
_JSON = frozenset(_NO_TEXTS.split())
"""What is not text is read as JSON. Elsewhere ``007`` and ``true`` are what they look like: text."""


def set_fields(
    id: Id,
    assignments: Annotated[
        list[str],
        typer.Argument(metavar="FIELD=VALUE...", help="Fields as in files, with dots.", show_default=False),
    ],
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Change some fields of a schedule. FIELD= or FIELD=null puts one back to its default.

    Fields are called as in files: cron, timezone, retry.limit, labels.team, target.url. Lists and objects are JSON.
    Nobody's edit in between is overwritten.

    Examples:

    tocsin set billing/payroll cron='0 3 1 * *' retry.limit=5

    tocsin set billing/payroll labels.team=finance payload='{"company": 7}' timeout=
    """
    given = pairs(assignments, "FIELD=VALUE")
    before, after = ask(url, lambda client: _set(client, id, given))
    if as_json:
        print_json(after)
    else:
        _tell(before, after)


async def _set(client: Client, id: str, given: dict[str, str]) -> tuple[ScheduleView, ScheduleView]:
    import msgspec

    before = await client.schedule(id)
    changes: dict[str, Any] = {}
    for field, text in given.items():
        _assign(changes, msgspec.to_builtins(before), _path(field), _value(field, text))
    try:
        return before, await client.patch(id, changes, expect=before.version)
    except VersionConflict as meanwhile:
        meanwhile.hint = "somebody changed it meanwhile: look at it, then set it again"
        raise


def _path(field: str) -> list[str]:
    """The steps to a field. An error where no such field could be set."""
    from tocsin.model.schedule import Schedule

    for above in _TEXTS_BY_KEY:
        if field.startswith(f"{above}.") and field != f"{above}.":
            return [*above.split("."), field.removeprefix(f"{above}.")]
    steps = field.split(".")
    known = [name for name in Schedule.__struct_fields__ if name != "id"]
    if steps[0] not in known or not all(steps):
        raise _no_field(field, steps[0], known)
    return steps


def _no_field(field: str, name: str, known: list[str]) -> InvalidInput:
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else ""
    if name == "id":
        hint = (
            "an id is for ever: 'tocsin versions ID --version N' prints what can be applied under another one"
        )
    return InvalidInput("it cannot be set", field=field, value="", allowed=", ".join(known), hint=hint)


def _value(field: str, text: str) -> object:
    """What is meant by the text. A field that is text is never taken for JSON."""
    if text in ("", "null"):
        return None
    if field not in _JSON and not field.startswith("payload."):
        return text
    import json

    try:
        return json.loads(text)
    except ValueError:
        if field.startswith("payload"):
            return text
        raise InvalidInput(
            f"{text[:60]!r} is not JSON", field=field, value=text, allowed=_form(field)
        ) from None


def _form(field: str) -> str:
    if field.endswith(("limit", "memory_mb", "cpu_seconds", "limits.processes")):
        return "a whole number"
    if field in ("enabled", "target.idempotent"):
        return "true or false"
    return 'a list such as ["a", "b"]' if field in ("target.argv", "target.success") else "JSON"


def _assign(changes: dict[str, Any], present: Any, path: list[str], value: object) -> None:
    """Into a merge patch. What is given as a whole replaces the whole, so what it leaves out is taken away."""
    for step in path[:-1]:
        present = present.get(step) if isinstance(present, dict) else None
        changes = changes.setdefault(step, {})
        if not isinstance(changes, dict):
            raise InvalidInput(
                "it is set as a whole too", field=".".join(path), value="", allowed="the whole, or its parts"
            )
    name = path[-1]
    changes[name] = _replaced(present.get(name) if isinstance(present, dict) else None, value, name)


def _replaced(old: object, new: object, field: str) -> object:
    if not isinstance(new, dict):
        return new
    if field == "payload" and _has_null(new):
        raise InvalidInput(
            "a null within it would take the key away",
            field=field,
            value="",
            hint="write it into a file and use 'tocsin apply -f'",
        )
    kept = old if isinstance(old, dict) else {}
    gone = dict.fromkeys(key for key in kept if key not in new)
    return {**gone, **{key: _replaced(kept.get(key), item, key) for key, item in new.items()}}


def _has_null(value: object) -> bool:
    """In an object, not in a list: a list is always replaced as a whole."""
    return isinstance(value, dict) and any(item is None or _has_null(item) for item in value.values())


def _tell(before: ScheduleView, after: ScheduleView) -> None:
    from tocsin.cli.fields import fields_of
    from tocsin.cli.present import away, moment, printable

    old, new = fields_of(before), fields_of(after)
    for name in {**old, **new}:
        if old.get(name) != new.get(name):
            print(printable(f"{name}: {old.get(name, '(none)')} -> {new.get(name, '(none)')}"))
    if after.version == before.version:
        print(f"{after.id} is as it was, at version {after.version}")
        return
    following = f"next: {moment(after.next, after.timezone)}, {away(after.next)}"
    told = following if after.next else "no next occurrence"
    print(f"{after.id} is at version {after.version}; {told if after.enabled else 'it is paused'}")
    warn(after)
