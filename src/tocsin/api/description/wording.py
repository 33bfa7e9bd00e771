"""Words, limits and patterns for the fields of what is sent and answered, where a type alone does not tell them.

They describe; what counts is what ``model`` checks. A test sends what they allow and what they do not.
"""

from __future__ import annotations

from typing import Any

from tocsin.api.description import activities, audits, clock, forecasts, limits
from tocsin.api.query import ID_PATTERN, PREFIX_PATTERN
from tocsin.model.ids import ID_LENGTH_MAX
from tocsin.model.launch import LaunchState
from tocsin.model.schedule import DESCRIPTION_LENGTH_MAX, LABELS_MAX, PAYLOAD_BYTES_MAX, RETRY_LIMIT_MAX
from tocsin.model.target import ARGV_MAX, ENV_MAX, HEADERS_MAX, SUBJECT_MAX, SUCCESS_MAX

Words = dict[str, Any]

_NAME_PATTERN = ID_PATTERN.removesuffix("$") + r"-(0|[1-9][0-9]{0,11})(-manual)?$"
_NO_NUL = r"^[^\x00]*$"
_HEADERS = {
    "maxProperties": HEADERS_MAX,
    "propertyNames": {"pattern": r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"},
    "additionalProperties": {"type": "string", "pattern": r"^[^\x00-\x08\x0a-\x1f\x7f]*$"},
}
_STATES = [state.name.lower() for state in LaunchState]

ID: Words = {
    "description": "The id of a schedule: letters, digits and `. _ @ + - /`, beginning with a letter or digit.",
    "pattern": ID_PATTERN,
    "minLength": 1,
    "maxLength": ID_LENGTH_MAX,
    "examples": ["billing/payroll"],
}
NAME: Words = {
    "description": "The name of a launch: its schedule's id, the unix seconds of its instant, and `-manual` behind "
    "it if a person asked for it.",
    "pattern": _NAME_PATTERN,
    "maxLength": ID_LENGTH_MAX + len("-999999999999-manual"),
    "examples": ["billing/payroll-1769907600"],
}
TOKEN: Words = {"description": "The name or the id of a token.", "minLength": 1, "examples": ["ci"]}


def _duration(description: str) -> Words:
    return {
        "description": f"{description} Such as `90s`, `5m` or `1h30m`; the units are w, d, h, m, s.",
        "format": "time-span",
        "examples": ["5m"],
    }


def _moment(description: str) -> Words:
    return {"description": f"{description} With its offset.", "examples": ["2026-01-31T09:00:00Z"]}


def _when(description: str) -> Words:
    return {
        "description": f"{description} RFC 3339, or unix seconds.",
        "format": "moment",
        "minLength": None,
        "maxLength": None,
        "examples": ["2026-01-01T00:00:00Z"],
    }


_SCHEDULE: dict[str, Words] = {
    "id": ID,
    "cron": {
        "description": "When: five fields of crontab(5), six with seconds, or `@daily`, `@every 5m`, "
        "`@at 2026-01-31T09:00:00Z`. `?` lets Tocsin choose.",
        "format": "cron",
        "examples": ["0 2 1 * *"],
    },
    "target": {"description": "Where launches go."},
    "timezone": {
        "description": "The zone that `cron` is read in, by its IANA name.",
        "format": "timezone",
        "examples": ["Europe/Berlin"],
    },
    "payload": {
        "description": f"Any JSON, handed to the target. At most {PAYLOAD_BYTES_MAX} bytes and 64 levels; whole "
        "numbers of up to 64 bits.",
        "examples": [{"company": 7}],
    },
    "on_doubt": {"description": "What to do when it cannot be known whether a launch went out."},
    "missed": {"description": "What to do with occurrences that fell due while nobody was in office."},
    "catch_up_spread": _duration("Catching up is spread over this time."),
    "deadline": _duration("A start later than this is a skip."),
    "overlap": {"description": "What to do when the launch before is still open."},
    "retry": {"description": "How often, and how far apart, a failed launch is tried again."},
    "timeout": _duration("An attempt is cancelled after this time."),
    "jitter": _duration("Starts are spread over this time, each schedule at its own place in it."),
    "enabled": {"description": "False: paused."},
    "labels": {
        "description": "For finding schedules.",
        "maxProperties": LABELS_MAX,
        "propertyNames": {"pattern": "^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$"},
        "additionalProperties": {"type": "string", "maxLength": 200, "format": "printable"},
        "examples": [{"team": "finance"}],
    },
    "description": {"description": "For people.", "maxLength": DESCRIPTION_LENGTH_MAX},
    "start": _moment("No occurrence before this moment."),
    "end": _moment("No occurrence at or after this moment."),
}
_LAUNCH: dict[str, Words] = {
    "name": NAME,
    "schedule": {"description": "The id of its schedule."},
    "scheduled_at": {"description": "The instant that it is for."},
    "state": {"description": "The first four are open: something is still to happen.", "enum": _STATES},
    "reason": {"description": "Why it is in this state, in words."},
    "attempt": {"description": "The number of its last attempt; 0: there was none."},
    "term": {"description": "The leadership that it was started in."},
    "replica": {"description": "Who started it."},
    "version": {"description": "The version of its schedule."},
    "lateness_ms": {"description": "How long after its moment it started. Not told of launches by hand."},
    "retry_at": {"description": "When the next attempt is made."},
}

FIELDS: dict[str, dict[str, Words]] = {
    "Schedule": _SCHEDULE,
    "ScheduleView": {
        **_SCHEDULE,
        "version": {"description": "Grows with every change; the ETag is made of it."},
        "resolved": {"description": "What `cron` settled to, with every choice made."},
        "next": {"description": "The next instant. None: it is paused, or there are no more."},
        "updated_at": {"description": "Since when this version is in force."},
        "note": {"description": "What was said when it was paused."},
        "warnings": {
            "description": "Only in the answer to a write, if there is something to say: a second that becomes "
            "too full (`herd_limit`)."
        },
    },
    "LaunchView": _LAUNCH,
    "LaunchDetail": {**_LAUNCH, "attempts": {"description": "The attempts before the last one."}},
    "SchedulePage": {"cursor": {"description": "Asks for the next page. Empty: there is none."}},
    "LaunchPage": {"cursor": {"description": "Asks for the next page. Empty: there is none."}},
    **activities.FIELDS,
    **audits.FIELDS,
    **clock.FIELDS,
    **forecasts.FIELDS,
    **limits.FIELDS,
    "PauseBody": {"note": {"description": "Why.", "maxLength": 2000}},
    "CancelBody": {"reason": {"description": "Why.", "maxLength": 2000}},
    "Retry": {
        "limit": {"description": "How many further attempts.", "minimum": 0, "maximum": RETRY_LIMIT_MAX},
        "backoff": _duration("The first wait; it doubles each time."),
        "max_backoff": _duration("The longest wait."),
        "jitter": {"description": "The part of a wait that is left to chance.", "minimum": 0, "maximum": 1},
    },
    "ExecTarget": {
        "argv": {
            "description": "The command and its arguments.",
            "items": {"type": "string", "pattern": _NO_NUL},
            "minItems": 1,
            "maxItems": ARGV_MAX,
        },
        "shell": {"description": "A line for `/bin/sh -c`.", "pattern": r"^[^\x00]*[^\x00\s][^\x00]*$"},
        "env": {
            "description": "Variables for its environment.",
            "maxProperties": ENV_MAX,
            "propertyNames": {"pattern": r"^[^=\x00]+$"},
            "additionalProperties": {"type": "string", "pattern": _NO_NUL},
        },
        "cwd": {"description": "Where it starts; by default `/`.", "pattern": r"^/[^\x00]*$"},
        "user": {"description": "As whom it runs.", "pattern": _NO_NUL},
        "limits": {"description": "Ceilings for the command and its children."},
    },
    "ExecLimits": {
        "memory_mb": {"minimum": 1, "maximum": 2**30},
        "cpu_seconds": {"minimum": 1, "maximum": 2**30},
        "processes": {"minimum": 1, "maximum": 2**30},
    },
    "HttpTarget": {
        "url": {
            "format": "http-address",
            "pattern": "^https?://",
            "examples": ["http://127.0.0.1:9000/payroll"],
        },
        "method": {"enum": ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"]},
        "headers": _HEADERS,
        "success": {
            "items": {"type": "string", "pattern": "^([1-5]xx|[1-5][0-9][0-9])$"},
            "maxItems": SUCCESS_MAX,
        },
        "secret": {
            "description": "Where the key of the signature is found; never the key itself.",
            "pattern": "^(env:[A-Za-z_][A-Za-z0-9_]*|file:/.+)$",
            "examples": ["env:PAYROLL_KEY"],
        },
        "old_secret": {
            "description": "During a rotation: signs as well, for receivers that do not have the new one yet.",
            "pattern": "^(env:[A-Za-z_][A-Za-z0-9_]*|file:/.+)$",
            "examples": ["env:PAYROLL_KEY_OLD"],
        },
        "timeout": _duration("How long the receiver may take, up to an hour."),
        "idempotent": {
            "description": "The receiver deduplicates by `Idempotency-Key`: it may be called again."
        },
    },
    "KafkaTarget": {
        "topic": {"pattern": r"^(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}$", "examples": ["reminders"]},
        "key": {"description": "Of the message; by default the schedule's id."},
        "headers": _HEADERS,
    },
    "NatsTarget": {
        "subject": {
            "maxLength": SUBJECT_MAX,
            "pattern": r"^(?!\$)[^\s.*>\x00-\x1f\x7f]+(\.[^\s.*>\x00-\x1f\x7f]+)*$",
            "examples": ["reminders.due"],
        },
        "headers": {
            **_HEADERS,
            "propertyNames": {"pattern": r"^(?![Nn][Aa][Tt][Ss]-)[!#$%&'*+.^_`|~0-9A-Za-z-]+$"},
        },
    },
    "PreviewRequest": {"from": _when("Where to begin; by default now.")},
    "BackfillRequest": {
        "from": _when("The first moment."),
        "until": _when("The first moment that is not meant any more; by default now."),
        "preview": {"description": "Only tell what would be launched."},
        "unrecorded": {"description": "Also what may have been launched and is no longer recorded."},
    },
    "Selector": {
        "prefix": {"description": "Ids that begin with this.", "pattern": PREFIX_PATTERN},
        "labels": {**_SCHEDULE["labels"], "description": "Labels that must all hold."},
        "everything": {"description": "All schedules are meant: it must be said."},
        "ids": {
            "description": "Only these.",
            "items": {"type": "string", "pattern": ID_PATTERN, "maxLength": ID_LENGTH_MAX},
        },
    },
    "BulkRequest": {
        "labels": {
            **_SCHEDULE["labels"],
            "description": "With the action `label`: what each is to have; null removes one.",
            "additionalProperties": {"type": ["string", "null"], "maxLength": 200, "format": "printable"},
        },
    },
    "BulkLine": {"was": {"description": "The labels that are changed, as they were; null: it had none."}},
    "TokenRequest": {
        "prefixes": {
            "description": "Of ids, in whole parts; none for an admin. Without any it reaches everything.",
            "items": {"type": "string", "pattern": ID_PATTERN, "maxLength": ID_LENGTH_MAX},
        },
        "expires_in": {**_duration("How long it is valid; by default for ever."), "maxLength": None},
        "targets": {
            "description": "Patterns of targets that it may write into schedules: a kind, or a kind with the host, "
            "topic, subject or user that it may reach; none for an admin. Without any: all kinds, `exec` only with "
            "that scope.",
            "items": {
                "type": "string",
                "pattern": "^(exec|http|kafka|nats|null)$|^(exec|http|kafka|nats):[!-~]{1,200}$",
            },
            "examples": [["http:*.example.org", "nats:team-a.*"]],
        },
    },
    "AddReplicaRequest": {
        "name": {"description": "Its name.", "examples": ["d"]},
        "peer": {
            "description": "HOST:PORT at which the others reach it; an IPv6 address in brackets.",
            "format": "replica-address",
            "examples": ["10.0.0.4:8410"],
        },
    },
    "RemoveReplicaRequest": {"name": {"description": "Its name.", "examples": ["d"]}},
    "ClusterView": {
        "answered_by": {"description": "The replica that answers."},
        "leader": {"description": "Empty: nobody is in office, as far as it knows."},
        "sequence": {"description": "The newest entry that any of them has applied."},
        "majority": {"description": "How many replicas it takes to write anything down."},
        "reachable": {"description": "How many answer, with this one."},
        "digests_agree": {"description": "False: a replica holds another state than the others."},
        "rotation": {
            "description": "The next step while the cluster's secret is being changed. Empty: it is not."
        },
    },
    "ReplicaView": {
        "peer": {"description": "HOST:PORT at which the others reach it."},
        "api": {"description": "The address of its API."},
        "lag": {"description": "How many entries it has yet to apply."},
        "digest": {"description": "Of its newest snapshot."},
        "clock_offset_ms": {"description": "How far its clock is ahead of that of the one that answers."},
        "secrets": {
            "description": "Fingerprints of the cluster's secrets that it trusts; it presents the first one."
        },
        "problem": {"description": "What keeps it from working. Empty: nothing."},
    },
    "Problem": {
        "type": {"description": "What kind of problem, for programs."},
        "detail": {"description": "What is wrong, for people."},
        "field": {"description": "The field or parameter that it is about."},
        "value": {"description": "What stood there."},
        "allowed": {"description": "What may stand there."},
        "hint": {"description": "What to do."},
        "retryable": {"description": "Whether trying again can help."},
    },
}
WHOLE: dict[str, Words] = {
    "ExecTarget": {
        "oneOf": [
            {"required": ["argv"], "properties": {"argv": {"type": "array"}, "shell": {"type": "null"}}},
            {"required": ["shell"], "properties": {"shell": {"type": "string"}, "argv": {"type": "null"}}},
        ]
    },
    "Selector": {
        "anyOf": [
            {"required": ["prefix"], "properties": {"prefix": {"minLength": 1}}},
            {"required": ["labels"], "properties": {"labels": {"minProperties": 1}}},
            {"required": ["enabled"], "properties": {"enabled": {"type": "boolean"}}},
            {"required": ["target"], "properties": {"target": {"type": "string"}}},
            {"required": ["everything"], "properties": {"everything": {"const": True}}},
            {"required": ["ids"], "properties": {"ids": {"minItems": 1}}},
        ]
    },
    "BulkRequest": {
        "oneOf": [
            {
                "required": ["labels"],
                "properties": {"action": {"const": "label"}, "labels": {"minProperties": 1}},
            },
            {
                "properties": {
                    "action": {"enum": ["pause", "resume", "run", "delete"]},
                    "labels": {"maxProperties": 0},
                }
            },
        ]
    },
}
"""What is true of a thing as a whole."""
LINKS = {
    "ScheduleView": dict.fromkeys(
        ("getSchedule", "patchSchedule", "deleteSchedule", "pauseSchedule", "resumeSchedule", "runSchedule"),
        ("id", "id"),
    ),
    "LaunchView": dict.fromkeys(("getLaunch", "cancelLaunch", "getOutput"), ("name", "name")),
    "NewTokenView": {"revokeToken": ("token", "id")},
}
"""What can be done next with what was answered, the parameter that takes its name, and the field that has it."""
TAGS = {
    "schedules": "What is to be launched, and when.",
    "launches": "What was launched, and what became of it.",
    "history": "Who did what, and what it was before.",
    "tokens": "Who may do what.",
    "cluster": "The replicas of the service.",
    "service": "How the service is doing.",
}
REFUSALS = {
    400: "Something in it cannot be accepted: `field`, `value` and `allowed` say what.",
    401: "The token is missing, or nobody knows it.",
    403: "Not for this caller, or not from this page or under this host name.",
    404: "There is nothing there.",
    409: "The present state does not allow it.",
    412: "It is not at the version that was demanded.",
    413: "The body is too large.",
    415: "The body is of a type that is not understood here.",
    429: "Too many requests. `Retry-After` says when to try again.",
    500: "The service made a mistake. Its log says more.",
    503: "Nothing can be written at the moment, and nothing was. `Retry-After` says when to try again.",
    504: "The answer of the leader was lost: it may have been carried out or not. Look before you repeat it.",
}
INTRODUCTION = """\
A distributed cron service: it launches every occurrence of a schedule once, on time, and accounts for it.

Times are RFC 3339 in UTC. Ids may contain slashes, written as they are or as `%2F`; what is done to a thing stands \
behind a colon: `POST /v1/schedules/billing/payroll:pause`. Lists come in pages: hand the `cursor` of one page back \
to get the next. Errors are problem details (RFC 9457) that name the field, the value and what is allowed. Wherever \
there is GET there is HEAD; OPTIONS says what else. Parameters that are not listed here are refused."""
