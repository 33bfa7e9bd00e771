"""Does the service keep what ``/openapi.json`` promises? schemathesis asks it thousands of questions, right and wrong
ones, and looks at every answer: status, type, shape, headers, what was accepted and what was refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 180
EXCLUDED = {
    "events": "it does not end by itself; it has tests of its own",
    "importSchedules": "its body is lines, which no schema describes; it has tests of its own",
}


def judge(url: str, headers: Mapping[str, str], folder: Path, *, without: Sequence[str] = ()) -> str:
    """What schemathesis finds wrong with the service at that address; empty: nothing. ``headers`` go with every
    request, such as a token."""
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(ROOT / "tests/api/contract.toml")),
        *("run", f"{url}/openapi.json", "--checks", "all"),
        *(part for name in (*EXCLUDED, *without) for part in ("--exclude-operation-id", name)),
        *(part for name, value in headers.items() for part in ("--header", f"{name}: {value}")),
    ]
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "tests.api.contract_hooks", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    return "" if done.returncode == 0 else done.stdout[-8000:] + done.stderr[-2000:]


def the_service_is_what_it_says_it_is(service, tmp_path):
    assert judge(service.url, {}, tmp_path) == ""


def it_is_so_too_where_tokens_are_needed(guarded, tmp_path):
    headers = {"Authorization": f"Bearer {guarded.token}"}
    # It would sooner or later revoke the token that it comes with.
    assert judge(guarded.url, headers, tmp_path, without=["revokeToken"]) == ""


def the_judge_notices_what_is_not_as_described(tmp_path, start):
    """A judge that never finds anything would be of no use: a lie in the description is found."""
    running = start(tmp_path / "data")
    described = running.ask("GET", "/openapi.json").json
    lying = {**described, "paths": {"/v1/status": described["paths"]["/v1/status"]}}
    lying["components"]["schemas"]["StatusView"]["properties"]["term"] = {"type": "string"}
    file = tmp_path / "lying.json"
    file.write_text(json.dumps(lying))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "schemathesis.cli",
            "run",
            str(file),
            "--url",
            running.url,
            "--max-examples",
            "1",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 1
    assert "Response violates schema" in done.stdout


def every_handler_is_described(service):
    described = service.ask("GET", "/openapi.json").json
    operations = _operations(described)
    assert {"createSchedule", "putSchedule", "patchSchedule", "listLaunches", "status", "docs"} <= set(
        operations
    )
    for name, operation in operations.items():
        assert operation["summary"] != name, f"{name} says nothing about itself"
        assert operation["description"], name
        assert operation["tags"][0] in {tag["name"] for tag in described["tags"]}, name
        for parameter in operation.get("parameters", []):
            assert parameter["description"], (name, parameter["name"])
        for status, answer in operation["responses"].items():
            if int(status) >= 400:
                assert list(answer["content"]) == ["application/problem+json"], (name, status)


def every_reference_in_the_description_leads_somewhere(service):
    described = service.ask("GET", "/openapi.json").json
    operations = _operations(described)

    def walk(part: Any) -> None:
        if isinstance(part, dict):
            if "$ref" in part:
                assert part["$ref"].rpartition("/")[2] in described["components"]["schemas"], part
            for link in part.get("links", {}).values():
                assert link["operationId"] in operations
            for inner in part.values():
                walk(inner)
        elif isinstance(part, list):
            for inner in part:
                walk(inner)

    walk(described)


def _operations(described: Any) -> dict[str, Any]:
    found = [operation for item in described["paths"].values() for operation in item.values()]
    named = {operation["operationId"]: operation for operation in found}
    assert len(named) == len(found)
    return named
