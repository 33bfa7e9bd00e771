"""What goes over the wire for one event, and what the stream's answer to it means."""

from __future__ import annotations

import msgspec

from tocsin.model.target import NatsTarget as NatsSpec
from tocsin.targets.contract import SUCCEEDED, Order, Outcome, Verdict
from tocsin.targets.event import event_of, names_of
from tocsin.targets.nats.wire import NOBODY_LISTENS, REFUSED
from tocsin.targets.nats.words import printable

_IN_PROCESS = 10158
"""The stream has this very message id under way: how that one ends is not known yet."""
_NOT_OURS = frozenset({400, 401, 403, 413})
"""The event itself is what is wrong, so the same one again will be refused again."""


class Frame(msgspec.Struct, frozen=True, gc=False):
    """A message as it is sent, and how much of it counts as payload."""

    content: bytes
    size: int


class _Error(msgspec.Struct, frozen=True):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _Acknowledgement(msgspec.Struct, frozen=True):
    stream: str = ""
    seq: int = 0
    duplicate: bool = False
    error: _Error | None = None


_decode = msgspec.json.Decoder(_Acknowledgement).decode


def frame_of(order: Order, spec: NatsSpec, reply: bytes) -> Frame:
    """The owner's headers, then ours: what names the launch cannot be overridden. Raises ValueError if there is a
    character in it that cannot be sent."""
    names = names_of(order)
    lines = ["NATS/1.0", f"Nats-Msg-Id: {order.name}", *[f"{name}: {value}" for name, value in names.items()]]
    if spec.headers:
        ours = {name.lower() for name in names}
        lines += [f"{name}: {value}" for name, value in spec.headers.items() if name.lower() not in ours]
    head = ("\r\n".join(lines) + "\r\n\r\n").encode()
    body = event_of(order)
    size = len(head) + len(body)
    line = b"HPUB %b %b %d %d\r\n" % (spec.subject.encode(), reply, len(head), size)
    return Frame(b"%b%b%b\r\n" % (line, head, body), size)


def judge(answer: tuple[int, bytes], subject: str) -> Outcome:
    """What the answer says."""
    status, content = answer
    if status == NOBODY_LISTENS:
        return Outcome(Verdict.NOT_STARTED, f"no stream takes {subject!r}")
    if status == REFUSED:
        return Outcome(Verdict.FAILED, f"nats does not permit to send to {subject!r}", permanent=True)
    try:
        found = _decode(content)
    except msgspec.DecodeError:
        found = _Acknowledgement()
    if found.error is None:
        if found.stream and found.seq:
            return SUCCEEDED
        return Outcome(Verdict.UNKNOWN, f"what answers on {subject!r} is no stream")
    return _refusal(found.error)


def _refusal(error: _Error) -> Outcome:
    reason = f"the stream refuses: {printable(error.description)} ({error.err_code or error.code})"
    if error.err_code == _IN_PROCESS:
        return Outcome(Verdict.UNKNOWN, reason)
    return Outcome(Verdict.FAILED, reason, permanent=error.code in _NOT_OURS)
