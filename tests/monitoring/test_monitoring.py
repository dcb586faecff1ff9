"""Holds what share/monitoring gives to Prometheus and Grafana: the rules fire as their cases say, and every metric and label that a rule
or a panel names is one of the worker's."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MONITORING = ROOT / "share" / "monitoring"
sys.path.insert(0, str(ROOT / "tests" / "docs"))
import reference_pages  # noqa: E402

# What Prometheus adds to every series, and what functions of a query make of histograms.
LABELS_OF_PROMETHEUS = {"instance", "job", "le"}


def metrics_of_worker():
    """{name of a series: its labels}."""
    found = {}
    for name, kind, _ in reference_pages.families():
        labels = set(filter(None, reference_pages.LABELS.get(name, "").split(", ")))
        names = [f"{name}_{part}" for part in ("bucket", "sum", "count")] if kind == "histogram" else [name]
        found.update({series: labels | LABELS_OF_PROMETHEUS for series in names})
    return found


def unknown_in(expression):
    """What an expression of PromQL names that no worker has."""
    series = metrics_of_worker()
    named = re.findall(r"\b(lambent_\w+)(?:\{([^}]*)\})?", expression)
    wrong = [name for name, _ in named if name not in series]
    for name, selector in named:
        wrong += [f"{name}: {label}" for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector) if label not in series.get(name, {label})]
    of_all = set().union(*(series.get(name, set()) for name, _ in named)) if named else set()
    for labels in re.findall(r"\bby \(([^)]*)\)", expression):
        wrong += [f"by {label}" for label in re.split(r",\s*", labels) if label not in of_all]
    return wrong


class Monitoring(unittest.TestCase):
    def test_unknown_metrics_and_labels_are_noticed(self):
        self.assertEqual(unknown_in('lambent_queued_invocations{instance="a"}'), [])
        self.assertEqual(unknown_in("lambent_gone_total"), ["lambent_gone_total"])
        self.assertEqual(unknown_in('lambent_invocations_total{funktion="f"}'), ["lambent_invocations_total: funktion"])
        self.assertEqual(unknown_in("sum by (start, reason) (lambent_invocations_total)"), ["by reason"])

    def test_rules_name_what_a_worker_has(self):
        expressions = re.findall(r"expr: (?:>\n)?((?:.+\n)(?: {10,}.+\n)*)", (MONITORING / "alerts.yml").read_text())
        self.assertEqual(len(expressions), 11)
        for expression in expressions:
            with self.subTest(expression):
                self.assertEqual(unknown_in(expression), [])

    @unittest.skipUnless(shutil.which("promtool"), "promtool is not installed (Debian's prometheus; ./dev test installs it)")
    def test_rules_fire_as_their_cases_say(self):
        done = subprocess.run(["promtool", "test", "rules", "alerts_test.yml"], cwd=MONITORING, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_every_rule_has_a_case(self):
        rules = re.findall(r"alert: (\w+)", (MONITORING / "alerts.yml").read_text())
        cases = (MONITORING / "alerts_test.yml").read_text()
        fired = set(re.findall(r"alertname: (\w+)\n\s+exp_alerts", cases))
        self.assertEqual(sorted(fired), sorted(rules))

    def test_the_dashboard_of_grafana_names_what_a_worker_has(self):
        board = json.loads((MONITORING / "grafana-dashboard.json").read_text())
        panels = board["panels"]
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
        for panel in panels:
            place = panel["gridPos"]
            with self.subTest(panel["title"]):
                self.assertLessEqual(place["x"] + place["w"], 24)
                self.assertTrue(panel["targets"])
                for target in panel["targets"]:
                    self.assertEqual(unknown_in(target["expr"]), [])


if __name__ == "__main__":
    unittest.main()
