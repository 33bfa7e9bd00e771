"""What the settings forbid is not run, whatever stands in the journal; what runs already is still found."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.targets.exec_support import SETTINGS, run, shell

from tocsin.targets.contract import Outcome, Verdict
from tocsin.targets.exec.target import ExecTarget
from tocsin.targets.permissions import Permissions, listed_users


async def _launched(place: Path, permissions: Permissions, line: str, **spec: str) -> Outcome:
    target = ExecTarget(place / "exec", SETTINGS, permissions=permissions)
    await target.start()
    try:
        order = shell(line, **spec)
        outcome = await target.launch(order)
        return await target.watch(order) if outcome.verdict is Verdict.ACCEPTED else outcome
    finally:
        await target.stop()


def no_command_is_run_where_exec_is_not_allowed(tmp_path):
    async def test() -> None:
        outcome = await _launched(tmp_path, Permissions(allow_exec=False), f"touch {tmp_path}/ran")
        assert (outcome.verdict, outcome.permanent) == (Verdict.NOT_STARTED, True)
        assert "allow_exec" in outcome.reason
        assert not (tmp_path / "ran").exists()

    run(test)


def no_command_is_run_as_a_user_that_is_not_named(tmp_path):
    async def test() -> None:
        permissions = Permissions(users=listed_users("backup", own="tocsin", needs_tokens=False))
        outcome = await _launched(tmp_path, permissions, f"touch {tmp_path}/ran", user="nobody")
        assert (outcome.verdict, outcome.permanent) == (Verdict.NOT_STARTED, True)
        assert "exec_users" in outcome.reason
        assert "nobody" in outcome.reason
        assert not (tmp_path / "ran").exists()

    run(test)


def a_command_of_the_services_own_user_needs_no_list_where_nobody_needs_a_token(tmp_path):
    async def test() -> None:
        permissions = Permissions(users=listed_users("", own="tocsin", needs_tokens=False), own_user="tocsin")
        outcome = await _launched(tmp_path, permissions, f"touch {tmp_path}/ran")
        assert outcome.verdict is Verdict.SUCCEEDED
        assert (tmp_path / "ran").exists()

    run(test)


@pytest.mark.parametrize("named", ["", "backup"])
def no_command_is_run_as_the_services_own_user_where_tokens_are_needed_unless_it_is_named(tmp_path, named):
    async def test() -> None:
        permissions = Permissions(
            users=listed_users(named, own="tocsin", needs_tokens=True), own_user="tocsin"
        )
        outcome = await _launched(tmp_path, permissions, f"touch {tmp_path}/ran")
        assert (outcome.verdict, outcome.permanent) == (Verdict.NOT_STARTED, True)
        assert "exec_users" in outcome.reason
        assert not (tmp_path / "ran").exists()

    run(test)


def what_was_launched_before_it_was_forbidden_is_not_called_not_started(tmp_path):
    async def test() -> None:
        first = await _launched(tmp_path, Permissions(), "exit 3")
        again = await _launched(tmp_path, Permissions(allow_exec=False), "exit 3")
        assert (first.verdict, again.verdict) == (Verdict.FAILED, Verdict.FAILED)
        assert again.exit_code == 3

    run(test)
