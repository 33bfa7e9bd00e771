"""The journal that the tests of several replicas share is a journal."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.replica.ledger import Handle, Ledger, Presences

from tocsin.journal.contract import Journal
from tocsin.testing.journals import JournalConformance
from tocsin.testing.presences import Place, PresenceConformance


class _Conformance(JournalConformance):
    def __init__(self) -> None:
        self._ledgers: dict[Path, Ledger] = {}

    async def make(self, folder: Path) -> Journal:
        return Handle(self._ledgers.setdefault(folder, Ledger()))


@pytest.mark.parametrize("claim", _Conformance.claims())
def the_shared_ledger_keeps_the_contract(claim: str, tmp_path: Path) -> None:
    _Conformance().check(claim, tmp_path)


class _PresenceConformance(PresenceConformance):
    async def make(self, folder: Path) -> Place:
        handle = Handle(Ledger())
        return Place(handle, Presences(handle), Presences(handle))


@pytest.mark.parametrize("claim", _PresenceConformance.claims())
def the_presence_beside_the_ledger_keeps_the_contract(claim: str, tmp_path: Path) -> None:
    _PresenceConformance().check(claim, tmp_path)
