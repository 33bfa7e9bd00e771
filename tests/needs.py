"""What a test needs and this machine may lack: on a laptop the test is skipped, in CI it fails."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest


def lacking(what: str) -> NoReturn:
    """This cannot be tested here."""
    if os.environ.get("CI"):
        pytest.fail(f"CI must have it: {what}")
    pytest.skip(what)


def program(name: str, package: str) -> str:
    """Where it is."""
    return shutil.which(name) or lacking(f"there is no program {name} (Debian: apt-get install {package})")
