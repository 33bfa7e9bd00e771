from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tocsin.model.target import NullTarget as NullSpec
from tocsin.targets.contract import Target
from tocsin.targets.null import NullTarget
from tocsin.testing.targets import (
    CLAIMS,
    Claim,
    Harness,
    a_further_attempt_has_an_effect_of_its_own,
    claim_name,
    hold,
)


class _NullHarness(Harness):
    succeeds = NullSpec()

    def __init__(self) -> None:
        self.target = NullTarget()

    async def another(self) -> Target:
        return NullTarget()

    def effects(self, name: str) -> int:
        return 1  # there is nothing to count


@asynccontextmanager
async def _harness() -> AsyncIterator[Harness]:
    yield _NullHarness()


_APPLICABLE = [claim for claim in CLAIMS if claim is not a_further_attempt_has_an_effect_of_its_own]


@pytest.mark.parametrize("claim", _APPLICABLE, ids=claim_name)
def the_null_target_conforms(claim: Claim) -> None:
    hold(claim, _harness())
