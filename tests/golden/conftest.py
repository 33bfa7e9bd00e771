"""Real services, as the other tests have them."""

from __future__ import annotations

from tests.api.conftest import start as start
