"""Prometheus's rules by its own checker, and that rules and board ask only for what is exported."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import yaml

from tests.orchestrator.monitoring.prometheus import DOCKER, EXPORTED, metrics_in, named_by_ray, program

RULES = yaml.safe_load((DOCKER / "prometheus" / "rules.yml").read_text(encoding="utf-8"))
BOARD = json.loads((DOCKER / "grafana" / "permafrost.json").read_text(encoding="utf-8"))
ALL_RULES: list[dict[str, Any]] = [rule for group in RULES["groups"] for rule in group["rules"]]
ALERTS = [rule for rule in ALL_RULES if "alert" in rule]
RECORDED = {rule["record"] for rule in ALL_RULES if "record" in rule}
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]


def promtool(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program("promtool"), *map(str, words)], capture_output=True, text=True)


def test_promtool_accepts_configuration_and_rules_and_the_rules_fire_when_they_should() -> None:
    folder = DOCKER / "prometheus"
    for words in (
        ("check", "config", folder / "prometheus.yml"),
        ("check", "rules", folder / "rules.yml"),
        ("test", "rules", folder / "rules_test.yml"),
    ):
        done = promtool(*words)
        assert done.returncode == 0, done.stdout + done.stderr


def test_an_alert_waits_says_how_bad_it_is_and_what_to_do() -> None:
    for rule in ALERTS:
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert "{{ $labels.sweep }}" in rule["annotations"]["summary"]
        assert rule["annotations"]["runbook"].endswith(".")


def test_rules_and_panels_ask_only_for_what_is_exported_or_recorded() -> None:
    asked = {panel["title"]: {m for t in panel["targets"] for m in metrics_in(t["expr"])} for panel in PANELS}
    assert all(asked.values())
    assert set().union(*asked.values()) <= EXPORTED | RECORDED | named_by_ray()
    assert {metric for rule in ALL_RULES for metric in metrics_in(rule["expr"])} <= EXPORTED | RECORDED


def test_the_board_shows_every_metric_but_five() -> None:
    shown = set().union(*(metrics_in(target["expr"]) for panel in PANELS for target in panel["targets"]))
    beyond = ("trials_planned", "trials_skipped", "launches_total", "launches_ended_total", "store_flush_seconds_sum")
    assert EXPORTED - shown == {f"ray_permafrost_{name}" for name in beyond}


def test_the_board_is_provisioned_with_a_data_source_of_its_own_and_cannot_be_changed_by_a_click() -> None:
    folder = DOCKER / "grafana" / "provisioning"
    source = yaml.safe_load((folder / "datasources" / "prometheus.yml").read_text(encoding="utf-8"))["datasources"][0]
    assert BOARD["templating"]["list"][0]["current"]["value"] == source["uid"]
    provider = yaml.safe_load((folder / "dashboards" / "permafrost.yml").read_text(encoding="utf-8"))["providers"][0]
    assert not provider["allowUiUpdates"]
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(set(ids)) == len(ids)
