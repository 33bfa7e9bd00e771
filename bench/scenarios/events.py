"""Events: a herd that goes to a broker, counted when the broker has acknowledged it and that is on record."""

from __future__ import annotations

from bench import brokers
from bench.context import Context
from bench.drain import drain
from bench.table import OURS

UNIT = "events/s"
WANTED = 20_000
KINDS = {"kafka": brokers.kafka, "nats": brokers.nats}
_PAYLOAD = '{"reminder":7}'


def run(context: Context) -> None:
    for kind in KINDS:
        try:
            _measured(context, kind)
        except brokers.Lacking as missing:
            context.report.add(_measure(kind), OURS, None, UNIT, note=str(missing))
            context.report.goal(f"acknowledged events to {kind}", None, WANTED, UNIT)


def _measured(context: Context, kind: str) -> None:
    report, size = context.report, context.asked.events
    with KINDS[kind](context.place(kind)) as broker:
        with context.alone(*broker.options) as service:
            report.say(f"{kind}: {size:,} events for one second")
            found = drain(service, size, prefix=kind, target=broker.target, payload=_PAYLOAD)
        note = f"API p99 {found.api_p99_ms:,.0f} ms meanwhile"
        report.add(_measure(kind), OURS, found.per_s, UNIT, size=size, note=note, more=found.told())
        bare = broker.bare(size)
        report.add(_measure(kind), "the official client alone", bare, UNIT, size=size)
    report.goal(f"acknowledged events to {kind}", found.per_s, WANTED, UNIT)


def _measure(kind: str) -> str:
    return f"events to {kind}"
