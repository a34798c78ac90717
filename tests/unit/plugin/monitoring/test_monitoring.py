"""The files for Prometheus and Grafana: alert rules, dashboard, and the names that StatsD's metrics get."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from interlock.engine.admin.alerts import ALERTS, Alert

from tests.kit.metrics import ROOT, documented
from tests.kit.prometheus import MONITORING, dashboard, name_of, names_in, program, queries
from tests.unit.docs.test_links import anchors

RULES_FILE = MONITORING / "alerts.yaml"
RUNBOOKS = ROOT / "docs" / "operate" / "alerts.md"
RULES: list[dict[str, Any]] = yaml.safe_load(RULES_FILE.read_text())["groups"][0]["rules"]
NAMES = {name_of(metric, kind): metric for metric, kind in documented().items()}
TESTS = Path(__file__).with_name("alerts.yaml")


def of_dashboard() -> set[str]:
    return {name for _, query in queries() for name in names_in(query)}


def of_rules() -> set[str]:
    return {name for rule in RULES for name in names_in(rule["expr"])}


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_rules_are_valid() -> None:
    assert f"SUCCESS: {len(RULES)} rules found" in run(program("promtool"), "check", "rules", str(RULES_FILE))


def test_each_alert_fires_when_it_should_and_only_then() -> None:
    run(program("promtool"), "test", "rules", str(TESTS))


def test_each_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    cases = [
        (case["alertname"], bool(case["exp_alerts"]))
        for test in yaml.safe_load(TESTS.read_text())["tests"]
        for case in test["alert_rule_test"]
    ]
    assert {*cases} == {(rule["alert"], fires) for rule in RULES for fires in (True, False)}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_each_alert_waits_has_a_severity_and_a_runbook(rule: dict[str, Any]) -> None:
    assert re.fullmatch(r"[1-9][0-9]*m", rule["for"])
    assert rule["labels"] == {"severity": rule["labels"]["severity"]}
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert rule["annotations"].keys() == {"summary", "description", "runbook"}
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert ROOT / page == RUNBOOKS
    assert anchor == rule["alert"].lower()
    assert anchor in anchors(RUNBOOKS)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_names_only_labels_that_its_expression_keeps(rule: dict[str, Any]) -> None:
    """Another label would be empty in the text."""
    kept = [set(labels.split(", ")) for labels in re.findall(r"\bby \(([^)]+)\)", rule["expr"])]
    named = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
    assert named <= set.intersection(*kept)


def test_health_and_doctor_name_alerts_that_exist() -> None:
    assert {rule["alert"] for rule in RULES} == {*Alert}
    assert {alert for alert in ALERTS.values() if alert} <= {*Alert}


def test_the_page_has_a_section_for_each_alert_in_the_order_of_the_rules_and_no_other() -> None:
    page = RUNBOOKS.read_text()
    assert re.findall(r"^### (Interlock\w+)$", page, re.MULTILINE) == [rule["alert"] for rule in RULES]
    for rule in RULES:
        section = page.partition(f"### {rule['alert']}\n")[2].partition("\n#")[0]
        assert re.findall(r"^\*\*(.+?)\*\*", section, re.MULTILINE) == ["Means", "Look", "Do"], rule["alert"]


def test_the_table_of_the_page_says_when_each_alert_fires() -> None:
    rows = re.findall(
        r"^\| \[(Interlock\w+)\]\(#\w+\) \| (\w+) \| (\w+) \|", RUNBOOKS.read_text(), re.MULTILINE
    )
    assert rows == [(rule["alert"], rule["labels"]["severity"], rule["for"]) for rule in RULES]


def test_dashboard_and_rules_use_only_metrics_that_exist() -> None:
    assert (of_dashboard() | of_rules()) - NAMES.keys() == set()


def test_each_metric_is_on_the_dashboard_or_named_as_not_shown() -> None:
    section = RUNBOOKS.read_text().partition("## The dashboard")[2].partition("\n## ")[0]
    not_shown = set(re.findall(r"`(interlock\.[\w.]+)`", section.partition("Not shown:")[2]))
    assert {NAMES[name] for name in NAMES.keys() - of_dashboard()} == not_shown


def test_the_dashboard_says_which_alert_is_about_which_panel() -> None:
    named = {name for panel in dashboard()["panels"] for name in re.findall(r"Interlock[A-Z]\w+", str(panel))}
    assert named - {rule["alert"] for rule in RULES} == set()
    # A deliverer that is gone shows as the absence of its curves.
    assert {rule["alert"] for rule in RULES} - named == {"InterlockNoDeliverer"}


def test_the_dashboard_asks_for_the_source_of_its_data_and_has_no_address() -> None:
    text = json.dumps(dashboard())
    assert "http" not in text
    assert {
        each["datasource"]["uid"]
        for panel in dashboard()["panels"]
        for each in [panel, *panel.get("targets", ())]
        if "datasource" in each
    } == {"$datasource"}
    numbers = [panel["id"] for panel in dashboard()["panels"]]
    assert len(numbers) == len({*numbers})


def test_each_query_of_the_dashboard_is_valid(tmp_path: Path) -> None:
    rules = [{"record": f"query:{number}", "expr": query} for number, (_, query) in enumerate(queries())]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"SUCCESS: {len(rules)} rules found" in run(program("promtool"), "check", "rules", str(file))
