"""One cluster under load for all tests that leave it as they found it. Logs are shown where a test fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.cluster.places import on_loopback
from tests.cluster.trial import Trial, close, trial_of

_SHOWN = 4_000


class Shared:
    """Built when it is first asked for, and again when a test has left it in ruins."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self._factory = factory
        self.trial: Trial | None = None

    def healthy(self) -> Trial:
        if self.trial is not None:
            try:
                self.trial.cluster.until_healthy()
            except AssertionError:
                self.close()
        if self.trial is None:
            self.trial = trial_of(self._factory.mktemp("cluster"), on_loopback("abc"))
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
