"""``make bench``: everything, in one run, as ratios on this machine."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from pathlib import Path

from bench import cron_speed, exec_speed, herd, simulation


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="schedules in the herd")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    asked = parser.parse_args()
    print(f"Python {platform.python_version()} on {platform.machine()}\n")
    results = {
        "cron": cron_speed.report(),
        "herd": herd.report(asked.count),
        "exec": exec_speed.report(),
        "simulation": simulation.report(),
    }
    if asked.json:
        asked.json.write_text(json.dumps(results, indent=2))
    if not results["cron"]["good"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
