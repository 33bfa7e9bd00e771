"""What an operator is given works on what the service really says: alerts, dashboard, unit, and the words in them."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
import yaml
from prometheus_client.parser import text_string_to_metric_families
from tests.api.conftest import Service

from tocsin.cli.main import app
from tocsin.config import Settings
from tocsin.member.address import parse_cluster
from tocsin.member.process import _STOP_S as STOP_S
from tocsin.replica.leader import GRACE_S

DEPLOY = Path(__file__).parent.parent / "deploy"
PROMETHEUS = DEPLOY / "prometheus"
COMMANDS = typer.main.get_command(app)
ALERTS = {
    rule["alert"]: rule
    for group in yaml.safe_load((PROMETHEUS / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
}
DASHBOARD = json.loads((DEPLOY / "grafana" / "tocsin.json").read_text())
SCRAPED = {"job", "instance"}
"""What Prometheus itself puts on every series."""
KEYWORDS = {"and", "or", "unless", "by", "on", "bool"}
FUNCTIONS = {"absent", "changes", "histogram_quantile", "increase", "max", "min", "rate", "sum"}


class Asked(NamedTuple):
    """What an expression takes for granted."""

    labels: dict[str, set[str]]
    """Each metric, with the labels that its selectors name."""
    grouped: list[set[str]]
    functions: set[str]


def _asked(expr: str) -> Asked:
    """Small, because the expressions here are: strings, durations, groupings and selectors are taken out in turn."""
    grouped = [
        {label.strip() for label in found.split(",")} for found in re.findall(r"\bby \(([^)]*)\)", expr)
    ]
    rest = re.sub(r"\bby \([^)]*\)", " ", re.sub(r"\[[^]]*\]", "", re.sub(r'"[^"]*"', '""', expr)))
    labels: dict[str, set[str]] = {}
    functions: set[str] = set()
    for name, opening, matchers in re.findall(r"([a-zA-Z_:][\w:]*)\s*(\(|\{([^}]*)\})?", rest):
        if opening == "(" and name not in KEYWORDS:
            functions.add(name)
        elif name not in KEYWORDS:
            labels.setdefault(name, set()).update(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))
    return Asked(labels, grouped, functions)


def _panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DASHBOARD["panels"]
    return found


def _expressions() -> dict[str, str]:
    """Every expression, with where it stands."""
    found = {f"alert {name}": rule["expr"] for name, rule in ALERTS.items()}
    for panel in _panels():
        for target in panel["targets"]:
            found[f"panel {panel['title']} {target['refId']}"] = target["expr"]
    for note in DASHBOARD["annotations"]["list"]:
        found[f"annotation {note['name']}"] = note["expr"]
    return found


EXPRESSIONS = _expressions()


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The text of a live ``/metrics``, after a request of every kind that has a series of its own."""
    running = Service(tmp_path_factory.mktemp("node") / "data")
    running.ask("GET", "/v1/status")
    running.ask("GET", "/v1/status", headers={"host": "elsewhere.example"})
    yield running.ask("GET", "/metrics").body.decode()
    assert running.stop() == 0


@pytest.fixture(scope="module")
def known(exposed: str) -> dict[str, set[str]]:
    """Each series by name, with the labels it has."""
    found: dict[str, set[str]] = {"up": set()}
    for family in text_string_to_metric_families(exposed):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


@pytest.mark.parametrize("where", EXPRESSIONS)
def an_expression_asks_only_for_what_the_service_says(where: str, known: dict[str, set[str]]) -> None:
    asked = _asked(EXPRESSIONS[where])
    assert asked.labels, "it asks for nothing"
    assert set(asked.labels) <= set(known)
    for name, labels in asked.labels.items():
        assert labels <= known[name] | SCRAPED, name
    having = set().union(*(known[name] for name in asked.labels)) | SCRAPED
    for labels in asked.grouped:
        assert labels <= having


@pytest.mark.parametrize("where", EXPRESSIONS)
def an_expression_is_well_formed(where: str) -> None:
    expr = EXPRESSIONS[where]
    open_ones: list[str] = []
    for character in re.sub(r'"[^"]*"', "", expr):
        if character in "([{":
            open_ones.append(character)
        elif character in ")]}":
            assert open_ones, expr
            assert open_ones.pop() + character in ("()", "[]", "{}")
    assert not open_ones
    asked = _asked(expr)
    assert asked.functions <= FUNCTIONS
    for name in asked.labels:
        is_counted = name.endswith(("_total", "_bucket"))
        is_rated = re.search(rf"(rate|increase)\({name}\b", expr) is not None
        # Those stand at what happened since the start on purpose.
        is_since_start = re.search(r"rebuilds|damaged|concluded|absences|snapshot_failures", name) is not None
        assert is_rated == (is_counted and not is_since_start), f"{name}: a counter is rated, a gauge is not"


@pytest.mark.parametrize("name", ALERTS)
def an_alert_says_when_how_bad_and_what_to_do(name: str) -> None:
    rule = ALERTS[name]
    assert re.fullmatch(r"Tocsin[A-Z][A-Za-z]+", name)
    assert re.fullmatch(r"[0-9]+m", rule["for"])
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert set(rule["annotations"]) == {"summary", "description"}
    assert len(rule["annotations"]["summary"]) > 20
    assert len(rule["annotations"]["description"]) > 80


@pytest.mark.parametrize("name", ALERTS)
def an_alert_shows_only_labels_that_it_still_has(name: str) -> None:
    rule = ALERTS[name]
    shown = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
    for kept in _asked(rule["expr"]).grouped:
        assert shown <= kept


@pytest.mark.parametrize("name", ALERTS)
def the_commands_in_an_alert_can_be_typed(name: str) -> None:
    for line in re.findall(r"'tocsin ([^']+)'", ALERTS[name]["annotations"]["description"]):
        command, *words = shlex.split(line)
        COMMANDS.commands[command].make_context(command, words, resilient_parsing=False)


def every_alert_is_seen_to_fire_in_the_tests_of_the_rules() -> None:
    tests = yaml.safe_load((PROMETHEUS / "alerts_test.yaml").read_text())["tests"]
    expected = {
        found
        for test in tests
        for question in test["promql_expr_test"]
        for sample in question["exp_samples"]
        for found in re.findall(r'alertname="(\w+)"', sample["labels"])
    }
    assert expected == set(ALERTS)


def promtool_agrees_where_it_is_installed(exposed: str) -> None:
    """Elsewhere the other tests here must do."""
    tool = shutil.which("promtool")
    asked = [["check", "metrics"], ["check", "rules", "alerts.yaml"], ["test", "rules", "alerts_test.yaml"]]
    for words in asked if tool else []:
        done = subprocess.run(
            [tool, *words], cwd=PROMETHEUS, input=exposed, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def the_dashboard_works_with_any_prometheus() -> None:
    names = {variable["name"]: variable["type"] for variable in DASHBOARD["templating"]["list"]}
    assert names["datasource"] == "datasource"
    assert len({panel["id"] for panel in _panels()}) == len(_panels()) >= 12
    for panel in _panels():
        assert panel["description"], panel["title"]
        for source in [panel["datasource"], *(target["datasource"] for target in panel["targets"])]:
            assert source["uid"] == "${datasource}"
    used = set(re.findall(r"\$\{?([a-z]+)", json.dumps(DASHBOARD)))
    assert used <= set(names)


def the_panels_of_the_dashboard_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in _panels():
        at = panel["gridPos"]
        cells = {
            (column, row)
            for column in range(at["x"], at["x"] + at["w"])
            for row in range(at["y"], at["y"] + at["h"])
        }
        assert at["x"] + at["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells


def the_scrape_example_is_what_the_alerts_expect() -> None:
    found = yaml.safe_load((PROMETHEUS / "scrape.yaml").read_text())
    (job,) = found["scrape_configs"]
    assert job["job_name"] == "tocsin"
    assert job["metrics_path"] == "/metrics"
    assert job["authorization"]["type"] == "Bearer"
    assert job["authorization"]["credentials_file"]
    assert found["rule_files"] == ["alerts.yaml"]


def the_unit_starts_the_service_and_spares_its_commands() -> None:
    unit = configparser.ConfigParser(strict=True, interpolation=None)
    unit.optionxform = str
    unit.read(DEPLOY / "systemd" / "tocsin.service")
    service = unit["Service"]
    assert service["KillMode"] == "process"
    assert service["OOMPolicy"] == "continue"
    assert service["Restart"] == "always"
    # Each of these would take something away from a command, or from one that outlives a restart.
    for barred in (
        "PrivateTmp",
        "ProtectHome",
        "PrivateNetwork",
        "MemoryDenyWriteExecute",
        "SystemCallFilter",
    ):
        assert barred not in service
    _, name, *words = shlex.split(service["ExecStart"])
    COMMANDS.commands[name].make_context(name, words, resilient_parsing=False)


def the_drop_in_for_a_cluster_gives_a_replica_time_and_names_real_settings() -> None:
    path = DEPLOY / "systemd" / "cluster.conf"
    unit = configparser.ConfigParser(strict=True, interpolation=None)
    unit.optionxform = str
    unit.read(path)
    given = set(re.findall(r"TOCSIN_([A-Z_]+)=", path.read_text()))
    assert given == {"NAME", "CLUSTER", "LISTEN", "CLUSTER_SECRET"}
    assert {name.lower() for name in given} <= set(Settings.__struct_fields__)
    members = re.search(r"TOCSIN_CLUSTER=(\S+)", path.read_text())
    assert members is not None
    assert len(parse_cluster(members[1], "a")) == 3
    assert "KillMode" not in unit["Service"], "the unit's own is right"
    assert int(unit["Service"]["TimeoutStopSec"]) > GRACE_S + 2 * STOP_S


def the_readme_of_this_folder_names_what_there_is(known: dict[str, set[str]]) -> None:
    text = (DEPLOY / "README.md").read_text()
    linked = {link for link in re.findall(r"\]\(([^)]+)\)", text) if not link.startswith("../")}
    there = {str(path.relative_to(DEPLOY)) for path in DEPLOY.rglob("*") if path.is_file()}
    assert linked == there - {"README.md"}
    for name, _, labels in re.findall(r"`(tocsin_\w+)(\{([^}]*)\})?`", text):
        series = name if name in known else f"{name}_bucket"
        assert {label.strip() for label in labels.split(",") if label} <= known[series]
