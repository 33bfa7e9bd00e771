"""Documents become schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tocsin.cli.printing import print_json, report
from tocsin.cli.several import told
from tocsin.cli.warned import warn
from tocsin.errors import NotFound, TocsinError

if TYPE_CHECKING:
    from tocsin.cli.define.documents import Document
    from tocsin.client import Client
    from tocsin.model.schedule import Schedule, ScheduleView


class Applied(NamedTuple):
    """What became of a document: ``created``, ``updated`` or ``unchanged``."""

    id: str
    result: str
    version: int
    enabled: bool
    remark: str = ""

    def __str__(self) -> str:
        version = f" (version {self.version})" if self.result == "updated" else ""
        return f"{self.id} {self.result}{version}" + (f", {self.remark}" if self.remark else "")


async def apply_one(client: Client, document: Document) -> Applied:
    """Create or update the schedule of a document. Raises what the service refuses with."""
    present = await present_one(client, document.schedule.id)
    if present is None:
        created = await client.put(document.schedule, expect=0)
        warn(created)
        return Applied(created.id, "created", created.version, created.enabled)
    schedule, remark = intended(document, present)
    # The version of the read goes along: nobody's edit in between is overwritten unseen.
    view = await client.put(schedule, expect=present.version)
    warn(view)
    result = "unchanged" if view.version == present.version else "updated"
    return Applied(view.id, result, view.version, view.enabled, remark)


async def apply_all(client: Client, documents: list[Document], as_json: bool) -> bool:
    """All of them, also when one is refused. True if all went well."""
    refused: list[TocsinError] = []

    def tell(document: Document, result: Applied | TocsinError) -> None:
        if isinstance(result, TocsinError):
            refused.append(result)
            report(placed(result, document), as_json)
        elif as_json:
            fields = result._asdict()
            del fields["remark"]
            print_json(fields)
        else:
            print(result)

    await told("applying", documents, lambda document: apply_one(client, document), tell)
    return not refused


async def present_one(client: Client, id: str) -> ScheduleView | None:
    try:
        return await client.schedule(id)
    except NotFound:
        return None


def intended(document: Document, present: ScheduleView | None) -> tuple[Schedule, str]:
    """What is to be sent, and a remark. A file that does not mention it overrules nobody who paused a schedule."""
    import msgspec

    schedule = document.schedule
    if present is None or present.enabled:
        return schedule, ""
    if not document.mentions_enabled:
        return msgspec.structs.replace(schedule, enabled=False), "still paused"
    return schedule, "resumed" if schedule.enabled else ""


def placed(refused: TocsinError, document: Document) -> TocsinError:
    """The same error, which now says where the document stands."""
    refused.message = f"{refused.message} ({document.where}, {document.schedule.id})"
    return refused
