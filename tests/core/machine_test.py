"""Random histories: the real state and decisions against the naive model, and against a replay of the journal."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.core.desk import Desk, schedule_of
from tests.core.naive import Naive

from tocsin.journal import codec
from tocsin.model.command import DeleteSchedule, PutSchedule, SwitchSchedule
from tocsin.model.launch import HELD_MS
from tocsin.state.apply import apply
from tocsin.state.digest import full_digest
from tocsin.state.store import Store
from tocsin.targets.contract import SUCCEEDED, Outcome, Verdict

START = 1_711_846_500  # 2024-03-31T00:55:00Z, five minutes before clocks change in Europe
IDS = ("a", "b", "c")

_schedules = st.builds(
    dict,
    cron=st.sampled_from(["* * * * *", "@every 37s", "*/20 * * * * *", "30 */2 * * *", "0,7,9 * * * *"]),
    timezone=st.sampled_from(["UTC", "Europe/Berlin"]),
    missed=st.sampled_from(["skip", "last", "all"]),
    overlap=st.sampled_from(["allow", "forbid", "replace", "queue"]),
    deadline=st.sampled_from([None, "45s", "10m"]),
    description=st.sampled_from(["", "x"]),
    retry=st.sampled_from([None, {"limit": 1, "backoff": "5s", "jitter": 0}]),
)


class AgainstTheNaiveModel(RuleBasedStateMachine):
    """Whatever happens in whatever order, every occurrence is accounted for once, in the way the policies say."""

    @initialize()
    def begin(self) -> None:
        self.desk = Desk(START)
        self.naive = Naive(START)

    def teardown(self) -> None:
        if hasattr(self, "desk"):
            self.desk.close()

    @rule(id=st.sampled_from(IDS), fields=_schedules)
    def put(self, id: str, fields: dict[str, object]) -> None:
        schedule = schedule_of(id=id, **fields)
        self.desk.command(PutSchedule(schedule))
        (resolved,) = self.desk.db.execute("SELECT resolved FROM schedule WHERE id = ?", (id,)).fetchone()
        self.naive.put(schedule, resolved)

    @precondition(lambda self: self._held())
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(self._held()))
        self.desk.command(DeleteSchedule(id))
        self.naive.delete(id)
        self._decide()

    @precondition(lambda self: self._held())
    @rule(data=st.data(), enabled=st.booleans())
    def switch(self, data: st.DataObject, enabled: bool) -> None:
        id = data.draw(st.sampled_from(self._held()))
        self.desk.command(SwitchSchedule(id, enabled))
        self.naive.switch(id, enabled)

    @rule(seconds=st.sampled_from([1, 7, 20, 60, 61]))
    def time_passes(self, seconds: int) -> None:
        """Turns are frequent: at every second there is one."""
        for _ in range(seconds):
            self._set_time(self.naive.now + 1)
            self._decide()

    @rule(seconds=st.sampled_from([30, 600, 7200]))
    def nobody_is_in_office_for_a_while(self, seconds: int) -> None:
        self._set_time(self.naive.now + seconds)
        self.naive.present_since = self.naive.now
        self.desk.take_office()
        self._decide()

    @precondition(lambda self: self.desk.flights)
    @rule(data=st.data(), verdict=st.sampled_from([Verdict.SUCCEEDED, Verdict.FAILED, Verdict.UNKNOWN]))
    def a_target_reports(self, data: st.DataObject, verdict: Verdict) -> None:
        lid = data.draw(st.sampled_from(sorted(self.desk.flights)))
        order = self.desk.flights[lid].order
        retries = self.desk.flights[lid].retry_policy().limit
        (cancel,) = self.desk.db.execute("SELECT cancel FROM launch WHERE lid = ?", (lid,)).fetchone()
        self.desk.end(lid, SUCCEEDED if verdict is Verdict.SUCCEEDED else Outcome(verdict, reason="why not"))
        line = self.naive.timelines[order.schedule]
        if verdict is Verdict.SUCCEEDED:
            outcome = "succeeded"
        elif verdict is Verdict.UNKNOWN:
            outcome = "in_doubt"
        elif cancel:
            outcome = "cancelled"
        else:
            outcome = "failed" if order.attempt > retries else "retrying"
        line.outcomes[order.scheduled_at_s] = outcome
        if outcome == "in_doubt":
            line.held[order.scheduled_at_s] = self.naive.now + HELD_MS // 1000
        self._decide()

    @invariant()
    def every_occurrence_is_accounted_for_alike(self) -> None:
        if hasattr(self, "desk"):
            for id, line in self.naive.timelines.items():
                assert self._recorded(id) == line.outcomes, id

    @invariant()
    def nothing_is_early(self) -> None:
        if hasattr(self, "desk"):
            found = self.desk.db.execute(
                "SELECT 1 FROM launch WHERE started_ms < instant_s * 1000"
            ).fetchone()
            assert found is None

    @invariant()
    def the_counters_agree_with_the_tables(self) -> None:
        if hasattr(self, "desk"):
            held = self.desk.db.execute("SELECT count(*), coalesce(sum(enabled), 0) FROM schedule").fetchone()
            assert (self.desk.store.meta.schedules, self.desk.store.meta.enabled) == held

    def _decide(self) -> None:
        self.desk.turns()
        self._note_retries()
        self.naive.decide()
        self._note_retries()

    def _note_retries(self) -> None:
        """When a retry comes is the real thing's to say (and tested elsewhere); that it comes is what counts."""
        for flight in self.desk.flights.values():
            line = self.naive.timelines[flight.order.schedule]
            if flight.order.attempt > 1 and line.outcomes[flight.order.scheduled_at_s] == "retrying":
                line.outcomes[flight.order.scheduled_at_s] = "started"

    def _recorded(self, id: str) -> dict[int, str]:
        """Launches, and the stretches that were missed, instant by instant."""
        found = dict(self.desk.states_of(id))
        stretches = self.desk.db.execute(
            "SELECT m.from_s, m.before_s, s.resolved, s.zone FROM missed m JOIN "
            "(SELECT sid, version, id, resolved, zone FROM schedule UNION ALL "
            "SELECT sid, version, id, resolved, zone FROM revision) s USING (sid, version) WHERE s.id = ?",
            (id,),
        )
        for from_s, before_s, resolved, zone in stretches:
            from tocsin.decide.timeline import plan

            expression = plan(resolved, zone, None).expression
            instant: int | None = from_s
            while instant is not None and instant < before_s:
                assert instant not in found, "an occurrence is accounted for twice"
                found[instant] = "skipped"
                instant = expression.next_unix(instant)
        return found

    def _set_time(self, now: int) -> None:
        self.desk.now_ms = now * 1000
        self.naive.now = now

    def _held(self) -> list[str]:
        if not hasattr(self, "naive"):
            return []
        return [id for id, line in self.naive.timelines.items() if line.schedule is not None]


class AReplayGivesTheSameState(AgainstTheNaiveModel):
    """The entries alone, applied to an empty file, give the very same tables."""

    def teardown(self) -> None:
        if not hasattr(self, "desk"):
            return
        from pathlib import Path
        from tempfile import TemporaryDirectory

        with TemporaryDirectory() as folder:
            again = Store(Path(folder) / "state.db")
            for seq, raw in enumerate(self.desk.records, 1):
                apply(again, seq, codec.decode(raw, seq), raw)
            assert full_digest(again.db) == full_digest(self.desk.db)
            assert again.meta == self.desk.store.meta
            again.close()
        super().teardown()


# A failing history is long, and making it shorter takes minutes: ask for that with TOCSIN_SHRINK=1.
_settings = settings(
    max_examples=int(os.environ.get("TOCSIN_EXAMPLES", "150")),
    stateful_step_count=25,
    deadline=None,
    phases=[phase for phase in Phase if phase is not Phase.shrink or "TOCSIN_SHRINK" in os.environ],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
AgainstTheNaiveModel.TestCase.settings = _settings
AReplayGivesTheSameState.TestCase.settings = settings(_settings, max_examples=30)
ClaimsOfTheModel = AgainstTheNaiveModel.TestCase
ClaimsOfTheReplay = AReplayGivesTheSameState.TestCase
