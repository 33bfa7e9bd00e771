"""The examples do what they say, against a real service."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.api.conftest import Service

EXAMPLES = Path(__file__).parents[1] / "examples"


def every_example_runs_to_its_end(tmp_path: Path) -> None:
    service = Service(tmp_path / "data")
    try:
        for path in sorted(EXAMPLES.glob("*.py")):
            if path.stem.endswith("_consumer"):
                continue  # it needs a broker, and is tried beside it: tests/brokers
            done = subprocess.run(
                [sys.executable, str(path)],
                env={**os.environ, "TOCSIN_URL": service.url},
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            assert done.stdout.count("succeeded") == 3
    finally:
        service.stop()
