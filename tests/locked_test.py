"""The versions that CI installs by their hashes are those that the project asks for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
LINE = re.compile(r"([a-z0-9.-]+)==(\S+) --hash=sha256:[0-9a-f]{64}")


def _locked() -> dict[str, str]:
    header, *lines = (ROOT / ".ci/requirements.txt").read_text().splitlines()
    assert header.startswith("# Python ")
    found = [LINE.fullmatch(line) for line in lines]
    assert None not in found, "each has a version and a hash, and no address"
    return {canonicalize_name(each[1]): each[2] for each in found if each is not None}


def every_dependency_of_the_tests_is_locked_to_a_version_that_is_asked_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    asked = project["project"]["dependencies"] + project["project"]["optional-dependencies"]["test"]
    locked = _locked()
    for text in [*asked, *project["build-system"]["requires"]]:
        wanted = Requirement(text)
        version = locked.get(canonicalize_name(wanted.name))
        assert version is not None, f"{wanted.name} is not locked: run .ci/lock"
        assert wanted.specifier.contains(version), (
            f"{wanted.name} is locked to {version}, not {wanted.specifier}"
        )
