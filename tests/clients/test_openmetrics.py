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
        families, plain = self.both_forms(worker)
        self.assertGreater(len(families), 15)
        self.assertEqual([family.name for family in families], [family.name for family in plain])
        self.assertEqual([family.documentation for family in families], [family.documentation for family in plain])
        calls = [sample for family in families for sample in family.samples
                 if sample.name == "lambent_invocations_total" and sample.labels["function"] == "counted"]
        self.assertEqual(sum(sample.value for sample in calls), 3)

    def both_forms(self, worker):
        """The families of one moment in both forms: a metric whose first sample comes between two requests (a zygote that becomes ready)
        is in the later one only, so that the plain form is the same before and after.
        """
        for _ in range(100):
            before = list(prometheus_families(worker.metrics()))
            reply = worker.request("GET", "/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
            plain = list(prometheus_families(worker.metrics()))
            if [family.name for family in before] == [family.name for family in plain]:
                return list(openmetrics_families(reply.body.decode())), plain
        self.fail("the metrics of an idle worker never stay the same")


if __name__ == "__main__":
    unittest.main()
