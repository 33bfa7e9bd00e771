"""Entries become events.

``drafts``   what an entry says, each thing with its place in it
``record``   which commands took effect
``names``    what the numbers in an entry are called
``telling``  a draft and its names become an event

Entries are translated long after they were applied as well as at once, and must read the same. So only what does not
change is looked up: names, the record of what people did (which holds nothing that was refused), and how a launch
ended for good. What nobody can name any more, because history has forgotten it, is not told.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from tocsin.model.entry import Entry
from tocsin.model.event import Event
from tocsin.state.events.drafts import Draft, drafts, is_command
from tocsin.state.events.names import Opened, look_up
from tocsin.state.events.record import acts_of
from tocsin.state.events.telling import event_of

__all__ = ["Opened", "opened", "told"]


def opened(db: sqlite3.Connection, seq: int, entry: Entry) -> Opened:
    """Take an entry apart."""
    acts = acts_of(db, seq, entry)
    commands = {place for place, change in enumerate(entry.changes) if is_command(change)}
    refused = commands - acts.keys()
    kept = [draft for draft in drafts(entry) if draft.place not in refused]
    (mark,) = db.execute("SELECT value FROM meta WHERE key = 'mark'").fetchone()
    return Opened(seq, entry.time_ms, kept, acts, mark)


def told(db: sqlite3.Connection, entry: Opened, some: Sequence[Draft]) -> list[Event]:
    """Some of an entry's drafts as events, with a handful of queries however many they are."""
    known = look_up(db, entry, some)
    events = (event_of(entry, draft, known) for draft in some)
    return [event for event in events if event is not None]
