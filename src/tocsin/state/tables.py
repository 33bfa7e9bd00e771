"""The tables.

``schedule`` holds definitions and is not touched when a launch fires. ``due`` is the only thing that a launch
moves; its key starts with the moment, so that a midnight herd is one range on disk. ``launch`` holds open launches
and history; its row number grows in the order of the journal, so that old history is one range as well.
``revision`` keeps former versions: a launch goes on with the version that it started under, and ``why`` can tell
what was in force at any time. ``record`` says who did what, and when. ``minute`` counts what happened (see
``minutes``). ``kept`` counts the launches of each version, so that retention finds what is too much without counting it
again; launches are counted after the fact, in the order of their numbers, never while a herd starts.
"""

SCHEMA_VERSION = 11


def has_failed_before(launch: str) -> str:
    """Did an attempt of a launch before the present one fail for certain? ``launch`` is the table's name or alias."""
    return (
        f"EXISTS (SELECT 1 FROM attempt a WHERE a.lid = {launch}.lid AND a.attempt < {launch}.attempt "
        "AND NOT a.doubtful)"
    )


def was_never_called(launch: str) -> str:
    """Was a launch that has ended as cancelled never called? It has no attempt, or only such of which it was found out
    that they were not made, before it was backfilled."""
    return (
        f"({launch}.attempt = (SELECT count(*) FROM attempt a WHERE a.lid = {launch}.lid "
        f"AND a.attempt BETWEEN 1 AND {launch}.attempt AND a.doubtful AND a.started_ms IS NULL))"
    )


def started_at(launch: str, attempts: str = "attempt") -> str:
    """When a launch was started, as it is shown: at its first call that is known. What was skipped never was, nor what
    has no attempt, whatever was written. What is in doubt, or was, may have waited for a free place, and then nobody
    knows; its first known call is that of the first attempt behind it. ``launch`` is the table's name or alias."""
    of_it = f"FROM {attempts} a WHERE a.lid = {launch}.lid"
    is_first_unknown = f"EXISTS (SELECT 1 {of_it} AND a.attempt = 1 AND a.started_ms IS NULL)"
    is_last_doubtful = f"EXISTS (SELECT 1 {of_it} AND a.attempt = {launch}.attempt AND a.doubtful)"
    known = f"(SELECT a.started_ms {of_it} AND a.started_ms IS NOT NULL ORDER BY a.attempt LIMIT 1)"
    return (
        f"CASE WHEN {launch}.state = 12 OR {launch}.attempt = 0 THEN NULL "
        f"WHEN {launch}.called_ms IS NOT NULL THEN {launch}.called_ms "
        f"WHEN {launch}.attempt = 1 AND ({launch}.state = 14 OR {launch}.reason IS NOT NULL AND {is_first_unknown}) "
        f"THEN NULL WHEN {launch}.attempt = 1 THEN coalesce({known}, {launch}.attempt_ms, {launch}.started_ms) "
        f"WHEN {launch}.doubt = 1 OR {is_first_unknown} THEN coalesce({known}, "
        f"CASE WHEN {launch}.state = 14 OR {is_last_doubtful} THEN {launch}.told_ms ELSE {launch}.attempt_ms END) "
        f"ELSE coalesce({known}, {launch}.started_ms) END"
    )


TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;

CREATE TABLE skipped (seq INTEGER PRIMARY KEY, id BLOB NOT NULL);  -- entries that an operator had skipped

CREATE TABLE office (
  term INTEGER PRIMARY KEY,
  replica TEXT NOT NULL,
  since_ms INTEGER NOT NULL,
  seq INTEGER NOT NULL,  -- the entry that began the term
  id BLOB NOT NULL,  -- its id: unlike the replica's name it is unique
  prev BLOB NOT NULL  -- the id of the last entry of the former term
);

CREATE TABLE absence (since_ms INTEGER NOT NULL, until_ms INTEGER PRIMARY KEY);

CREATE TABLE schedule (
  sid INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  version INTEGER NOT NULL,
  enabled INTEGER NOT NULL,
  resolved TEXT NOT NULL,
  zone TEXT NOT NULL,
  rule BLOB,                      -- NULL: every timing policy has its default
  since_ms INTEGER NOT NULL,      -- when this version came into force
  created_ms INTEGER NOT NULL,
  spec BLOB NOT NULL,             -- the schedule as written
  note TEXT,                      -- why it is paused
  act TEXT NOT NULL,              -- how this version came about: created, edited, paused, resumed, restored
  actor TEXT NOT NULL             -- by whom
);

CREATE TABLE due (
  at_ms INTEGER NOT NULL,         -- when to look at it
  sid INTEGER NOT NULL,
  instant_s INTEGER NOT NULL,     -- the nominal instant of the occurrence
  PRIMARY KEY (at_ms, sid)
) WITHOUT ROWID;
CREATE UNIQUE INDEX due_by_schedule ON due (sid);

CREATE TABLE revision (
  sid INTEGER NOT NULL,
  version INTEGER NOT NULL,
  id TEXT NOT NULL,
  since_ms INTEGER NOT NULL,
  until_ms INTEGER NOT NULL,
  created_ms INTEGER NOT NULL,
  enabled INTEGER NOT NULL,
  resolved TEXT NOT NULL,
  zone TEXT NOT NULL,
  spec BLOB NOT NULL,
  note TEXT,
  act TEXT NOT NULL,
  actor TEXT NOT NULL,
  ended_by TEXT NOT NULL,         -- edited, paused, resumed, restored or deleted
  before_lid INTEGER NOT NULL,    -- every launch of this version has a lower number
  PRIMARY KEY (sid, version)
) WITHOUT ROWID;
CREATE INDEX revision_by_id ON revision (id, version);
CREATE INDEX revision_by_age ON revision (until_ms);

CREATE TABLE launch (
  lid INTEGER PRIMARY KEY,
  sid INTEGER NOT NULL,
  version INTEGER NOT NULL,
  instant_s INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  state INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  term INTEGER NOT NULL,
  planned_ms INTEGER,             -- NULL: at the instant itself
  asked_ms INTEGER,               -- when a person asked for it after the fact (backfill); NULL: nobody did
  started_ms INTEGER,             -- when the entry of its start was written; NULL: never started
  called_ms INTEGER,              -- when the first call was made; NULL: at once
  attempt_ms INTEGER,             -- when the present attempt began; NULL: when the launch did
  told_ms INTEGER,                -- when the present attempt was called, as it was told; NULL: nobody has told
  accepted_ms INTEGER,            -- when the target took it
  ended_ms INTEGER,
  exit_code INTEGER,
  retry_at_ms INTEGER,
  cancel TEXT,                    -- why it is to be stopped; NULL: it is not
  doubt INTEGER,                  -- the first attempt that may have been called unseen; NULL: no former call may
  relaunched INTEGER,             -- the attempt that a person asked for in spite of the doubt; NULL: none
  held_ms INTEGER,                -- a call may still run: until when it keeps its place in overlap and limits
  reason TEXT
);
CREATE UNIQUE INDEX launch_by_name ON launch (sid, instant_s, kind);
CREATE INDEX launch_open ON launch (sid, state) WHERE state < 10;
CREATE INDEX launch_queued ON launch (sid, asked_ms IS NOT NULL, instant_s) WHERE state = 4;
CREATE INDEX launch_trouble ON launch (ended_ms) WHERE state IN (11, 14);
CREATE INDEX launch_held ON launch (sid, held_ms) WHERE held_ms IS NOT NULL;
CREATE INDEX launch_retry ON launch (retry_at_ms) WHERE retry_at_ms IS NOT NULL;

CREATE TABLE attempt (
  lid INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  started_ms INTEGER,
  ended_ms INTEGER NOT NULL,
  exit_code INTEGER,
  reason TEXT NOT NULL,
  doubtful INTEGER NOT NULL,      -- 1: nobody knows, or knew, whether it was called
  PRIMARY KEY (lid, attempt)
) WITHOUT ROWID;

CREATE TABLE missed (
  sid INTEGER NOT NULL,
  from_s INTEGER NOT NULL,
  before_s INTEGER NOT NULL,
  version INTEGER NOT NULL,
  at_ms INTEGER NOT NULL,
  reason TEXT NOT NULL,
  PRIMARY KEY (sid, from_s)
) WITHOUT ROWID;
CREATE INDEX missed_by_age ON missed (at_ms);

CREATE TABLE kept (
  sid INTEGER NOT NULL,
  version INTEGER NOT NULL,
  launches INTEGER NOT NULL,      -- rows of ``launch`` up to ``counted_lid`` of ``meta``
  PRIMARY KEY (sid, version)
) WITHOUT ROWID;

CREATE TABLE forgotten (
  sid INTEGER NOT NULL,
  epoch INTEGER NOT NULL,         -- of launches that were made in it; 0: in any that is known to be right
  from_s INTEGER NOT NULL,        -- from this instant; in 0 from the first there is
  upto_s INTEGER NOT NULL,        -- to this one they may have been deleted
  PRIMARY KEY (sid, epoch)
) WITHOUT ROWID;

CREATE TABLE epoch (
  epoch INTEGER PRIMARY KEY,
  first_lid INTEGER NOT NULL,     -- launches from this number on were made in it, or in a later one
  from_s INTEGER NOT NULL,        -- the second before the leap with which it began
  length_ms INTEGER NOT NULL,     -- how long that leap was
  again_ms INTEGER NOT NULL,      -- by then somebody would have noticed that the time is wrong
  void_upto_s INTEGER NOT NULL    -- the clock was put back from there: this time has not come yet; -1: it was not
);

CREATE TABLE record (
  rid INTEGER PRIMARY KEY,
  seq INTEGER NOT NULL,           -- the entry that carried it
  at_ms INTEGER NOT NULL,
  actor TEXT NOT NULL,
  act TEXT NOT NULL,
  about TEXT NOT NULL,            -- a schedule's id, or a token's
  version INTEGER,
  lid INTEGER,                    -- the launch it was about, if it was about one
  note TEXT NOT NULL
);
CREATE INDEX record_by_about ON record (about, rid);
CREATE INDEX record_by_actor ON record (actor, rid);
CREATE INDEX record_by_launch ON record (lid, rid) WHERE lid IS NOT NULL;

CREATE TABLE minute (
  at_min INTEGER PRIMARY KEY,     -- unix time in minutes
  started INTEGER NOT NULL DEFAULT 0,
  succeeded INTEGER NOT NULL DEFAULT 0,
  failed INTEGER NOT NULL DEFAULT 0,
  skipped INTEGER NOT NULL DEFAULT 0,
  cancelled INTEGER NOT NULL DEFAULT 0,
  in_doubt INTEGER NOT NULL DEFAULT 0,
  missed INTEGER NOT NULL DEFAULT 0,
  retries INTEGER NOT NULL DEFAULT 0,
  latest_ms INTEGER NOT NULL DEFAULT 0,   -- how late the latest start was
  late_5 INTEGER NOT NULL DEFAULT 0,      -- starts that were up to 5 ms late
  late_10 INTEGER NOT NULL DEFAULT 0,     -- from there up to 10 ms, and so on
  late_20 INTEGER NOT NULL DEFAULT 0,
  late_50 INTEGER NOT NULL DEFAULT 0,
  late_100 INTEGER NOT NULL DEFAULT 0,
  late_200 INTEGER NOT NULL DEFAULT 0,
  late_500 INTEGER NOT NULL DEFAULT 0,
  late_1000 INTEGER NOT NULL DEFAULT 0,
  late_2000 INTEGER NOT NULL DEFAULT 0,
  late_5000 INTEGER NOT NULL DEFAULT 0,
  late_15000 INTEGER NOT NULL DEFAULT 0,
  late_60000 INTEGER NOT NULL DEFAULT 0,
  late_300000 INTEGER NOT NULL DEFAULT 0,
  late_more INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE token (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  hash BLOB NOT NULL,             -- of the secret, which nobody keeps
  scopes TEXT NOT NULL,
  prefixes TEXT NOT NULL,         -- JSON; an empty list reaches everything
  targets TEXT NOT NULL,          -- JSON; an empty list: any
  created_ms INTEGER NOT NULL,
  created_by TEXT NOT NULL,
  expires_ms INTEGER,
  used_ms INTEGER
) WITHOUT ROWID;

CREATE TABLE session (            -- logins at the console
  id TEXT PRIMARY KEY,
  token TEXT NOT NULL,            -- the id of the token that opened it
  hash BLOB NOT NULL,
  opened_ms INTEGER NOT NULL,
  expires_ms INTEGER NOT NULL,
  used_ms INTEGER,
  address TEXT NOT NULL
) WITHOUT ROWID;
"""
