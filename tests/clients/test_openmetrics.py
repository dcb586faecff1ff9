"""What /metrics says, read by the Prometheus client's own parsers."""
import unittest

from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as prometheus_families

from harness import Worker


class OpenMetricsTest(unittest.TestCase):
    def test_both_forms_have_the_same_samples(self):
        worker = Worker()
        self.addCleanup(worker.close)
        worker.create_python("counted", "def handler(e, c): return 1")
        for _ in range(3):
            worker.invoke("counted")
        reply = worker.request("GET", "/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
        families = list(openmetrics_families(reply.body.decode()))
        plain = list(prometheus_families(worker.metrics()))
        self.assertGreater(len(families), 15)
        self.assertEqual([family.name for family in families], [family.name for family in plain])
        self.assertEqual([family.documentation for family in families], [family.documentation for family in plain])
        calls = [sample for family in families for sample in family.samples
                 if sample.name == "lambent_invocations_total" and sample.labels["function"] == "counted"]
        self.assertEqual(sum(sample.value for sample in calls), 3)


if __name__ == "__main__":
    unittest.main()
