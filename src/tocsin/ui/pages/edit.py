"""Create and edit: a form that is looked at while it is filled in, and shows what would change before it is saved.

The page keeps what was typed; here it is only looked at, in the words of the API. Saving is the API's: POST for a new
one, PUT with ``If-Match`` for an edit, so that nobody writes over what somebody else did meanwhile.
"""

from __future__ import annotations

import sqlite3
from typing import Annotated, Any, NamedTuple
from urllib.parse import unquote

import msgspec
from litestar import Request, Response, post
from litestar.params import FromPath, QueryParameter

from tocsin.api import bodies
from tocsin.api.conditions import newest
from tocsin.api.door.access import WhoAsks
from tocsin.api.resources.preview import previewed
from tocsin.api.service import Given, Service
from tocsin.decide.forecast import Crowd
from tocsin.decide.preview import changed_fields
from tocsin.errors import Forbidden, InvalidInput, NotFound
from tocsin.model.history import RecordView
from tocsin.model.preview import FieldChange
from tocsin.model.rights import require, require_reach
from tocsin.model.schedule import Retry, ScheduleView
from tocsin.model.target import ExecTarget, HttpTarget, KafkaTarget, NatsTarget, TargetSpec, kind_of
from tocsin.model.token import WRITE, Caller
from tocsin.state import chronicle, views
from tocsin.ui.answer import OPERATION, page, plain, render
from tocsin.ui.pages import drafts
from tocsin.ui.pages.drafts import HERD_TOLD, Draft

DAYS_SHOWN = 14
LISTED_MAX = 8
RECORDS_SHOWN = 8
_PATIENCE_S = 0.4
"""A count of all that is due may take seconds: meanwhile the rest is told."""
_KINDS = {
    "exec": "a command",
    "http": "an HTTP call",
    "kafka": "an event on a Kafka topic",
    "nats": "an event on a NATS subject",
    "null": "nothing, for a rehearsal",
}


class Kind(NamedTuple):
    """A kind of target, and why it is not offered."""

    name: str
    words: str
    refusal: str


class Written(NamedTuple):
    """A definition as JSON: the payload apart, because a browser would not keep all of its numbers."""

    fields: str = "{}"
    payload: str = ""


@page("/new")
async def new(
    request: Request[Any, Any, Any],
    service: Given,
    caller: WhoAsks,
    like: Annotated[str, QueryParameter(max_length=200)] = "",
) -> Response[str]:
    """A form for a schedule that is not there yet. ``like``: with all that another one says."""
    if not caller.may(WRITE):
        return _not_theirs(request, service, caller)
    model = None
    if like:
        require_reach(caller, like)
        model = await service.replica.read(views.schedule, like)
    return _form(request, service, caller, None, model)


@page("/schedules/{id:str}/edit")
async def edit(
    request: Request[Any, Any, Any], service: Given, caller: WhoAsks, id: FromPath[str]
) -> Response[str]:
    """The same form with what a schedule says now."""
    if not caller.may(WRITE):
        return _not_theirs(request, service, caller, unquote(id))
    view = await service.replica.read(views.schedule, unquote(id))
    told = await service.replica.read(chronicle.records, about=view.id, limit=1)
    return _form(request, service, caller, view, view, told.items[0] if told.items else None)


class _Sent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was typed, as JSON; the id of what is edited; the version that it was made of."""

    schedule: msgspec.Raw
    of: str = ""
    version: int = 0


@post("/new/check", operation_id=OPERATION, include_in_schema=False, status_code=200)
async def check(request: Request[Any, Any, Any], service: Given, caller: WhoAsks) -> Response[str]:
    """What is to be said about what was typed so far."""
    require(caller, WRITE)
    sent = await bodies.taken(request, bodies.json_of, _Sent)
    draft, former = await _looked_at(service, caller, sent)
    return await _said(service, draft, former)


@post("/new/diff", operation_id=OPERATION, include_in_schema=False, status_code=200)
async def diff(request: Request[Any, Any, Any], service: Given, caller: WhoAsks) -> Response[str]:
    """What saving it would change; or its mistakes."""
    require(caller, WRITE)
    sent = await bodies.taken(request, bodies.json_of, _Sent)
    draft, former = await _looked_at(service, caller, sent)
    schedule = draft.schedule
    if schedule is None or draft.mistakes:
        return await _said(service, draft, former)
    found = await previewed(service, caller, schedule, DAYS_SHOWN)
    since = await service.replica.read(_since, schedule.id, sent.version, former) if sent.of else None
    return plain(
        "parts/edit_diff.html",
        schedule=schedule,
        found=found,
        target=_KINDS[kind_of(schedule.target)],
        days=DAYS_SHOWN,
        listed_max=LISTED_MAX,
        shown=_shown,
        version=0 if former is None else former.version,
        mine=sent.version,
        since=since,
        written=_written(former),
    )


HANDLERS = (new, edit, check, diff)


class _Since(NamedTuple):
    """What others did to a schedule since it was read."""

    records: list[RecordView]
    changes: list[FieldChange]


def _not_theirs(
    request: Request[Any, Any, Any], service: Service, caller: Caller, id: str = ""
) -> Response[str]:
    try:
        require(caller, WRITE)
    except Forbidden as refused:
        return render("edit_refused.html", request, service, caller, status=403, refused=refused, id=id)
    raise AssertionError("whoever may write is given the form")


def _form(
    request: Request[Any, Any, Any],
    service: Service,
    caller: Caller,
    view: ScheduleView | None,
    model: ScheduleView | None,
    last: RecordView | None = None,
) -> Response[str]:
    return render(
        "edit.html",
        request,
        service,
        caller,
        view=view,
        last=last,
        like="" if view is not None or model is None else model.id,
        kinds=_kinds(service),
        retry=Retry(),
        written=_written(model),
    )


def _written(view: ScheduleView | None) -> Written:
    if view is None:
        return Written()
    definition = views.definition(view)
    fields = msgspec.json.encode(msgspec.structs.replace(definition, payload=None)).decode()
    if definition.payload is None:
        return Written(fields)
    return Written(fields, msgspec.json.format(msgspec.json.encode(definition.payload), indent=2).decode())


def _kinds(service: Service) -> list[Kind]:
    """Those that this service launches, and why it does not launch the others."""
    allowed = service.permissions
    refusals = {
        "exec": allowed.refusal(ExecTarget(shell="true")),
        "kafka": "" if allowed.topics is not None else allowed.refusal(KafkaTarget(topic="any")),
        "nats": "" if allowed.subjects is not None else allowed.refusal(NatsTarget(subject="any")),
    }
    return [Kind(name, words, refusals.get(name, "")) for name, words in _KINDS.items()]


async def _looked_at(service: Service, caller: Caller, sent: _Sent) -> tuple[Draft, ScheduleView | None]:
    """And the stored one that it would replace."""
    written = bytes(sent.schedule)
    draft = await bodies.aside(len(written), drafts.read, written)
    schedule, former = draft.schedule, None
    if schedule is None:
        return draft, None
    if not draft.is_wrong("id"):
        if caller.reaches(schedule.id):
            former = await service.replica.read(newest, schedule.id)
        draft.mistakes.extend(_of_id(caller, schedule.id, sent.of, former))
    if not draft.is_wrong("target"):
        draft.mistakes.extend(_of_target(service, schedule.target))
    return draft, former if former is not None and former.id == sent.of else None


def _of_id(caller: Caller, id: str, edited: str, former: ScheduleView | None) -> list[InvalidInput]:
    try:
        require_reach(caller, id)
    except Forbidden as refused:
        return [InvalidInput(refused.message, field="id", value=id, hint=refused.hint)]
    if edited and id != edited:
        hint = "a schedule cannot be renamed: create another one like it, and delete this one"
        return [InvalidInput("it is another id than the one that is edited", field="id", value=id, hint=hint)]
    if not edited and former is not None:
        return [
            InvalidInput(
                f"there is a schedule {id!r} already",
                field="id",
                value=id,
                hint="choose another id, or edit that one",
            )
        ]
    return []


def _of_target(service: Service, spec: TargetSpec) -> list[InvalidInput]:
    """What this service does not launch, at the field that decides about it."""
    refusal = service.permissions.refusal(spec)
    if not refusal:
        return []
    field = {"kafka": "target.topic", "nats": "target.subject"}.get(kind_of(spec), "target.kind")
    if isinstance(spec, ExecTarget) and service.permissions.allow_exec:
        field = "target.user"
    elif isinstance(spec, HttpTarget):
        unsigned = msgspec.structs.replace(spec, secret=None, old_secret=None)
        field = "target.url" if service.permissions.refusal(unsigned) else "target.secret"
    hint = "whoever runs the service decides that, by its settings"
    return [InvalidInput(refusal, field=field, value="", hint=hint)]


async def _said(service: Service, draft: Draft, former: ScheduleView | None) -> Response[str]:
    schedule = draft.schedule
    outlook, crowd, is_timed = None, None, False
    if schedule is not None and not draft.is_wrong("cron", "timezone", "start", "end"):
        # Where a ? comes to lie depends on the id.
        is_timed = not (draft.is_wrong("id") and former is None and any(c in schedule.cron for c in "?~"))
        if is_timed:
            outlook = drafts.outlook(schedule, former, service.now_ms() // 1000)
            crowd = await service.herds.company(schedule, former, _PATIENCE_S)
    return plain(
        "parts/edit_said.html",
        mistakes=[(drafts.place_of(mistake), mistake) for mistake in draft.mistakes],
        schedule=schedule,
        outlook=outlook,
        is_timed=is_timed,
        crowd=crowd,
        is_herd=crowd is not None and _is_herd(service, crowd),
        limit=service.herds.limit,
        refuses=service.herds.refuses,
        spread="" if outlook is None or schedule is None else drafts.spread(schedule.cron),
    )


def _is_herd(service: Service, crowd: Crowd) -> bool:
    limit = service.herds.limit
    return crowd.number >= HERD_TOLD or bool(limit and crowd.number + 1 > limit)


def _since(db: sqlite3.Connection, id: str, version: int, present: ScheduleView | None) -> _Since | None:
    """Who did what to it after that version; None: nobody did anything."""
    if present is not None and present.version == version:
        return None
    records = chronicle.records(db, about=id, limit=RECORDS_SHOWN).items
    later = [each for each in records if (each.version or 0) > version or each.act == "deleted"]
    try:
        kept = chronicle.versions(db, id)
    except NotFound:
        kept = []
    read = next((each.schedule for each in kept if each.version == version), None)
    changes = [] if read is None or present is None else changed_fields(read, views.definition(present))
    return _Since(later, changes)


def _shown(value: object) -> str:
    """A value of a field in a difference."""
    if value is msgspec.UNSET or value is None or value == "":
        return "–"
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= 400 else f"{text[:400]}… ({len(text)} characters)"
