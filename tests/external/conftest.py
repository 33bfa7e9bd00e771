"""Services on an etcd that they do not run themselves."""

from __future__ import annotations

from tests.api.conftest import start as start
