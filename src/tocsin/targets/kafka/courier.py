"""The thread that owns the producers: takes orders in, asks whether a broker answers, sends, listens, throws away."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import structlog
from confluent_kafka import KafkaError, KafkaException, Message

from tocsin.clock import Clock
from tocsin.targets.authority import has_ended
from tocsin.targets.contract import SUCCEEDED, TOO_LATE, Outcome, Verdict
from tocsin.targets.kafka.hearing import Hearing
from tocsin.targets.kafka.lane import Lane
from tocsin.targets.kafka.parcel import Parcel, message_of
from tocsin.targets.kafka.sender import Config, Sender
from tocsin.targets.kafka.senders import RETIRE_S, Senders
from tocsin.targets.kafka.terms import Terms
from tocsin.targets.kafka.verdicts import NO_TOPIC, TOO_LARGE, outcome_of, refusal_of, shown

log = structlog.get_logger()

PATIENCE_S = 30.0
"""How long an event waits for a broker to answer, if its schedule has no timeout."""
KNOWN_S = 60.0
"""How long a topic that was there is taken to be there."""
CREATION_S = 2.0
"""How long a topic may take to come into being when it is asked for: a broker may make it by itself."""
LEADERS_S = 5.0
"""How long some partitions of a topic may be without a leader before the others are sent to all the same: events for
those would be under way until one is elected, and so in doubt."""
ASK_AGAIN_S = 0.2
HAND_OVER_S = 0.05
"""What it takes an event to leave: with less authority left, it is not given to the library."""
LOOK_S = 0.05
LOOK_AT_WAITING_S = 0.25
SENT_AT_ONCE = 250
STOP_S = 1.0

_STOPS = Outcome(Verdict.NOT_STARTED, "the service stops")
_NOBODY_WAITS = Outcome(Verdict.NOT_STARTED, "nobody waits for it any more")


class Courier:
    """Everything here but ``start``, ``take`` and ``stop`` happens on its own thread."""

    def __init__(self, config: Config, clock: Clock) -> None:
        self._clock = clock
        self._hearing = Hearing()
        self._senders = Senders(config, self._hearing)
        self._inbox: deque[Sequence[Parcel]] = deque()
        self._bell = threading.Event()
        self._thread = threading.Thread(target=self._work, name="kafka", daemon=True)
        self._is_stopping = self._has_ended = False
        self._lanes: dict[str, Lane] = {}
        self.terms = self._terms = Terms()
        self._look_again_s = self._look_at_waiting_s = 0.0

    def start(self) -> None:
        self._thread.start()

    def take(self, parcels: Sequence[Parcel]) -> None:
        """From any thread. Returns at once."""
        if parcels:
            self._inbox.append(parcels)
            self._bell.set()
            if self._has_ended:
                self._turn_away()

    def stop(self) -> None:
        """From any thread. Waits until all is let go."""
        self._is_stopping = True
        self._bell.set()
        if self._thread.is_alive():
            self._thread.join()

    def _work(self) -> None:
        try:
            # It takes a second until a new producer may send: better now than when the first event is due.
            with suppress(KafkaException):
                self._senders.ready()
            while not self._is_stopping:
                self._take_in()
                has_sent = self._send(self._clock.elapsed_s())
                self._listen(has_sent)
                self._look(self._clock.elapsed_s())
        except Exception:
            # A defect. Whoever waits for an outcome must not wait for ever.
            log.error("the kafka target broke", exc_info=True)
        finally:
            self._end()

    def _take_in(self) -> None:
        while self._inbox:
            for parcel in self._inbox.popleft():
                order = parcel.order
                topic = order.target.topic  # type: ignore[union-attr]  # why: the target has looked at its kind
                lane = self._lanes.get(topic)
                if lane is None:
                    lane = self._lanes[topic] = Lane(topic)
                lane.waiting.append(parcel)
                self._terms.learn(order)

    def _send(self, now_s: float) -> bool:
        """Hand on as much as the lanes have room for. False: there was nothing, or no room."""
        has_sent = False
        for lane in tuple(self._lanes.values()):
            if lane.has_waiting:
                room = lane.room(now_s)
                if room > 0 and self._is_open(lane, now_s):
                    has_sent = True
                    self._send_some(lane, min(room, SENT_AT_ONCE))
            elif lane.known_until_s < now_s and lane.is_idle:
                del self._lanes[lane.topic]
        return has_sent

    def _send_some(self, lane: Lane, count: int) -> None:
        sender = self._senders.current
        assert sender is not None
        for _ in range(count):
            parcel = lane.take()
            if parcel is None:
                return
            if parcel.is_settled:
                continue
            message = message_of(parcel.order)
            now_s = self._clock.elapsed_s()
            end = self._end_of_waiting(parcel, now_s)
            if end is not None:
                parcel.settle(end)
                continue
            if not parcel.give():
                continue
            try:
                sender.send(message, partial(self._reported, parcel))
            except (BufferError, KafkaException) as refused:
                self._not_taken(lane, parcel, refused)
                return
            parcel.sender = sender
            lane.send(parcel, now_s)

    def _not_taken(self, lane: Lane, parcel: Parcel, refused: BufferError | KafkaException) -> None:
        """The library did not take it, so it is as certain as before."""
        parcel.not_given()
        error: KafkaError | None = None if isinstance(refused, BufferError) else refused.args[0]
        outcome = None if error is None else refusal_of(error)
        if outcome is not None:
            parcel.settle(outcome)
            return
        lane.returned.appendleft(parcel)
        if error is not None:
            self._senders.retire(self._clock.elapsed_s(), is_broken=True)
            self._hearing.failed(self._clock.elapsed_s(), error)

    def _is_open(self, lane: Lane, now_s: float) -> bool:
        """Is a broker there, and the topic? It is asked if that is not known."""
        if self._hearing.is_fresh(now_s) and lane.known_until_s > now_s:
            return True
        if not self._hearing.may_ask(now_s) or now_s < lane.ask_again_s:
            return False
        try:
            sender = self._senders.ready()
            answer = sender.ask(lane.topic, self._hearing.ask_s(self._earliest_end_s() - now_s))
        except KafkaException as silent:
            self._senders.listen(now_s)  # it may have said more about why
            self._no_answer(silent.args[0])
            return False
        now_s = self._clock.elapsed_s()
        self._hearing.heard(now_s)
        if answer.error is not None:
            self._no_topic(lane, now_s, answer.error)
            return False
        if answer.leaders < answer.partitions and (not answer.leaders or lane.misses(now_s) < LEADERS_S):
            lane.ask_again_s = now_s + ASK_AGAIN_S
            return False
        lane.known_until_s, lane.missing_since_s = now_s + KNOWN_S, None
        return True

    def _no_answer(self, error: KafkaError) -> None:
        self._hearing.failed(self._clock.elapsed_s(), error)
        if self._hearing.is_refused:
            refusal = Outcome(Verdict.NOT_STARTED, f"kafka does not let us in: {self._hearing.why}")
            for lane in self._lanes.values():
                lane.weed(lambda _: refusal)

    def _no_topic(self, lane: Lane, now_s: float, error: KafkaError) -> None:
        lane.known_until_s = 0.0
        may_come = error.code() in NO_TOPIC or error.code() == KafkaError.LEADER_NOT_AVAILABLE
        if may_come and lane.misses(now_s) < CREATION_S:
            lane.ask_again_s = now_s + ASK_AGAIN_S
            return
        lane.missing_since_s = None
        refusal = refusal_of(error) or Outcome(
            Verdict.NOT_STARTED, f"kafka has no place for it now: {shown(error)}"
        )
        lane.weed(lambda _: refusal)

    def _listen(self, has_sent: bool) -> None:
        if has_sent or self._inbox:
            wait_s = 0.0
        elif any(lane.under_way for lane in self._lanes.values()):
            wait_s = 0.01
        elif any(lane.has_waiting for lane in self._lanes.values()):
            wait_s = 0.05
        else:
            self._bell.wait(1.0)
            wait_s = 0.0
        if not self._senders.listen(self._clock.elapsed_s(), wait_s):
            self._bell.wait(wait_s)
        self._bell.clear()
        if self._hearing.was_heard:
            self._hearing.heard(self._clock.elapsed_s())

    def _reported(self, parcel: Parcel, error: KafkaError | None, message: Message) -> None:
        """The library's last word about an event."""
        lane, sender = parcel.lane, parcel.sender
        assert lane is not None
        assert sender is not None
        sender.count -= 1
        if parcel not in lane.under_way:
            return
        if error is None:
            self._hearing.was_heard |= sender is self._senders.current
            lane.acknowledged(parcel)
            parcel.settle(SUCCEEDED)
            return
        if error.code() == TOO_LARGE and lane.split(parcel):
            return
        outcome = outcome_of(error, message.partition())
        if error.code() in NO_TOPIC:
            lane.known_until_s = 0.0
        if outcome.verdict is Verdict.FAILED:
            lane.ended(parcel)
        else:
            lane.lost(parcel)
        parcel.settle(outcome)

    def _look(self, now_s: float) -> None:
        """Whose time is over?"""
        if now_s >= self._look_again_s:
            self._look_again_s = now_s + LOOK_S
            self._look_at_sent(now_s)
            for parcel in [each for lost in self._senders.tidy(now_s) for each in self._parcels_of(lost)]:
                assert parcel.lane is not None
                parcel.lane.lost(parcel)
                parcel.settle(Outcome(Verdict.UNKNOWN, "no acknowledgement from kafka"))
        if now_s >= self._look_at_waiting_s:
            self._look_at_waiting_s = now_s + LOOK_AT_WAITING_S
            for lane in self._lanes.values():
                lane.weed(lambda parcel: self._end_of_waiting(parcel, now_s))

    def _look_at_sent(self, now_s: float) -> None:
        overdue: set[Sender] = set()
        for lane in self._lanes.values():
            for parcel in lane.under_way:
                limit_s = parcel.order.timeout_s
                # The time that it waited is not taken off: what is cut short is doubt, and what was not sent is not.
                if limit_s is not None and now_s - parcel.sent_s > limit_s:
                    parcel.settle(Outcome(Verdict.UNKNOWN, f"no acknowledgement within {limit_s:g}s"))
                left_s = self._terms.end_s(parcel.order) - now_s
                if left_s < RETIRE_S and parcel.sender is self._senders.current:
                    self._senders.retire(now_s)
                if left_s < HAND_OVER_S and parcel.sender is not None:
                    overdue.add(parcel.sender)
        for sender in overdue:
            sender.throw_away()

    def _earliest_end_s(self) -> float:
        ends = (self._terms.end_s(parcel.order) for lane in self._lanes.values() for parcel in lane.under_way)
        return min(ends, default=float("inf")) - RETIRE_S

    def _end_of_waiting(self, parcel: Parcel, now_s: float) -> Outcome | None:
        """None: it may wait on, or be sent."""
        order = parcel.order
        if parcel.batch.is_abandoned:
            return _NOBODY_WAITS
        if has_ended(self._terms.may_be_sent_until_s(order), now_s + HAND_OVER_S):
            # Called again at once, by whoever leads: not for ever, while there is nobody to call.
            return self._in_vain(PATIENCE_S) if self._hearing.silence_s(now_s) > PATIENCE_S else TOO_LATE
        if has_ended(order.deadline_s, now_s):
            return TOO_LATE
        limit_s = PATIENCE_S if order.timeout_s is None else order.timeout_s
        return self._in_vain(limit_s) if now_s - parcel.handed_s > limit_s else None

    def _in_vain(self, limit_s: float) -> Outcome:
        why = f": {self._hearing.why}" if self._hearing.why else ""
        return Outcome(Verdict.NOT_STARTED, f"kafka did not take it within {limit_s:g}s{why}")

    def _parcels_of(self, sender: Sender) -> list[Parcel]:
        return [each for lane in self._lanes.values() for each in lane.under_way if each.sender is sender]

    def _end(self) -> None:
        self._take_in()
        for lane in self._lanes.values():
            lane.weed(lambda _: _STOPS)
        self._senders.close(STOP_S)
        for lane in self._lanes.values():
            for parcel in lane.under_way:
                parcel.settle(Outcome(Verdict.UNKNOWN, "the service stopped before kafka acknowledged it"))
        self._has_ended = True
        self._turn_away()

    def _turn_away(self) -> None:
        while self._inbox:
            for parcel in self._inbox.popleft():
                parcel.settle(_STOPS)
