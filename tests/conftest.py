"""A test is any public function of a ``*_test.py`` file whose name is a claim, and nothing that it imports."""

from __future__ import annotations

import contextlib
import inspect
import signal
from typing import Any

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background, by a shell that shields it from Ctrl-C: the programs that tests start would inherit it.
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, signal.default_int_handler)

LONGEST = (
    "tests/kill/sigkill_test.py",
    "tests/simulation/mutants_test.py",
    "tests/simulation/",
    "tests/backup/interrupted_test.py",
    "tests/backup/service_test.py",
    "tests/targets/kafka_faults_test.py",
    "tests/api/contract_test.py",
    "tests/api/events_test.py",
    "tests/member/disks_test.py",
    "tests/cli/serve_test.py",
    "tests/kill/",
    "tests/fuzz/",
    "tests/external/",
    "tests/cluster/pause_test.py",
    "tests/cluster/kill_test.py",
    "tests/cluster/partition_test.py",
    "tests/cluster/loss_test.py",
    "tests/cluster/clock_test.py",
)
"""What takes longest begins first, or all would wait for it in the end. Not all of it is long because of its number of
tests, by which pytest-xdist would go."""


def pytest_configure(config: pytest.Config) -> None:
    config.option.loadscopereorder = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        return next((at for at, path in enumerate(LONGEST) if item.nodeid.startswith(path)), len(LONGEST))

    items.sort(key=place)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: Any, name: str, obj: Any) -> list[Any] | None:
    if inspect.isfunction(obj) and obj.__code__.co_filename != str(collector.path):
        wrapped = inspect.unwrap(obj)
        if wrapped.__code__.co_filename != str(collector.path):
            return []
    return None
