"""One cluster under load for all tests that leave it as they found it. Logs are shown where a test fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.cluster.places import on_loopback
from tests.cluster.special import Special
from tests.cluster.trial import Trial, close, trial_of

SPECIAL = "c"
_SHOWN = 4_000


class Shared:
    """Built when it is first asked for, and again when a test has left it in ruins."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self._factory = factory
        self.trial: Trial | None = None
        self.special: Special | None = None

    def healthy(self) -> Trial:
        if self.trial is not None:
            try:
                self.trial.cluster.until_healthy()
            except AssertionError:
                self.close()
        if self.trial is None:
            folder = self._factory.mktemp("cluster")
            self.trial = trial_of(folder, on_loopback("abc"))
            self.special = Special(self.trial.cluster[SPECIAL], folder)
            self.trial.cluster.start()
            self.trial.load.start()
        return self.trial

    def close(self) -> None:
        if self.trial is not None:
            close(self.trial)
        self.trial = None


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    one = Shared(tmp_path_factory)
    yield one
    one.close()


@pytest.fixture
def trial(shared: Shared) -> Trial:
    """A healthy cluster under load."""
    return shared.healthy()


@pytest.fixture
def special(trial: Trial, shared: Shared) -> Special:
    """The one of its replicas with which more can be done than with the others."""
    assert shared.special is not None
    return shared.special


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[Any]:
    report = yield
    if report.failed:
        for value in getattr(item, "funcargs", {}).values():
            one = value.trial if isinstance(value, Shared) else value
            if isinstance(one, Trial):
                for replica in one.cluster:
                    report.sections.append((f"log of {replica.name}", replica.log()[-_SHOWN:]))
                break
    return report
