"""``tocsin`` in a process of which a test has changed something."""

from __future__ import annotations

import sys
from typing import NoReturn

from tocsin.cli import service
from tocsin.cli.main import main


def run() -> None:
    """What ``tocsin`` does. A service goes on in this very program: a new one would not have the changes."""
    service.become = _serve_here
    main()


def _serve_here(start: service.Start) -> NoReturn:
    sys.exit(service._run(start))
