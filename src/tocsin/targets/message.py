"""What an HTTP call says: the event, the headers that name the launch, and the signature over both."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence

from multidict import CIMultiDict

from tocsin import __version__
from tocsin.model.target import HttpTarget as HttpSpec
from tocsin.targets.contract import Order
from tocsin.targets.event import event_of, rfc3339

_NO_BODY = ("GET", "HEAD")
_OURS_ALONE = ("content-length", "transfer-encoding", "connection", "expect")
"""``Expect`` would send the headers ahead, and then wait: a call goes out whole or not at all."""


def body_of(spec: HttpSpec, order: Order) -> bytes | None:
    if spec.body is not None:
        return spec.body.encode()
    if spec.method in _NO_BODY:
        return None
    return event_of(order)


def headers_of(
    given: Mapping[str, str],
    spec: HttpSpec,
    order: Order,
    body: bytes | None,
    keys: Sequence[bytes],
    now_s: int,
) -> CIMultiDict[str]:
    """The owner's headers (``given``, with their values), then ours: what names and signs the launch cannot be
    overridden."""
    headers = CIMultiDict({"User-Agent": f"tocsin/{__version__}", "Accept": "*/*"})
    if body is not None:
        headers["Content-Type"] = "application/json" if spec.body is None else "text/plain; charset=utf-8"
    headers.update({name: value for name, value in given.items() if name.lower() not in _OURS_ALONE})
    scheduled_at = rfc3339(order.scheduled_at_s * 1000, "seconds")
    headers.update(
        {
            "Idempotency-Key": order.name,
            "Tocsin-Attempt": str(order.attempt),
            "Tocsin-Term": str(order.term),
            "Tocsin-Scheduled-At": scheduled_at,
            "ce-specversion": "1.0",
            "ce-id": order.name,
            "ce-source": "/tocsin",
            "ce-type": "tocsin.launch",
            "ce-subject": order.schedule,
            "ce-time": scheduled_at,
        }
    )
    if keys:
        headers["Tocsin-Signature"] = _signature(order.name, body, keys, now_s)
    return headers


def _signature(name: str, body: bytes | None, keys: Sequence[bytes], now_s: int) -> str:
    """Over time, launch and body, by each key. The name begins with the schedule's id, so that one who has his own
    launches signed with the same secret cannot pass them off as another schedule's. Neither time nor name can hold a
    line end: no two calls have the same text."""
    signed = b"%d\n%b\n%b" % (now_s, name.encode(), body or b"")
    return f"t={now_s}" + "".join(f",v3={hmac.new(key, signed, hashlib.sha256).hexdigest()}" for key in keys)
