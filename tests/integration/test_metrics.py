"""What operators look at: /metrics that promtool accepts, health, readiness."""
import shutil
import subprocess
import unittest

from harness import WorkerTest


class MetricsTest(WorkerTest):
    def test_metrics_count_what_happened_and_are_clean(self):
        self.worker.create_python("counted", "def handler(e, c):\n  if e.get('fail'): raise ValueError('x')\n  return 1")
        for _ in range(3):
            self.worker.invoke("counted")
        self.worker.invoke("counted", {"fail": True})
        text = self.worker.metrics()
        lines = [line for line in text.splitlines() if line.startswith("lambent_invocations_total{")
                 and 'function="counted"' in line]
        by_outcome = {}
        for line in lines:
            labels, _, value = line.rpartition(" ")
            self.assertIn('tenant="', labels)
            outcome = labels.partition('outcome="')[2].partition('"')[0]
            by_outcome[outcome] = by_outcome.get(outcome, 0) + float(value)
        self.assertEqual(by_outcome.get("succeeded"), 3)
        self.assertEqual(by_outcome.get("function_error"), 1)
        self.assertIn("lambent_gpu_memory_bytes{", text)
        if shutil.which("promtool"):
            check = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True)
            self.assertEqual((check.returncode, check.stderr), (0, ""), check.stdout + check.stderr)

    def test_openmetrics_is_given_to_those_who_ask_for_it(self):
        self.worker.create_python("open", "def handler(e, c): return 1")
        self.worker.invoke("open")
        reply = self.worker.request("GET", "/metrics", headers={
            "Accept": "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"})
        self.assertEqual(reply.headers["content-type"], "application/openmetrics-text; version=1.0.0; charset=utf-8")
        text = reply.body.decode()
        self.assertTrue(text.endswith("\n# EOF\n"))
        self.assertIn("# TYPE lambent_invocations counter\n", text)
        self.assertRegex(text, r'lambent_invocations_total\{function="open",[^}]*\} 1\n')
        plain = self.worker.request("GET", "/metrics", headers={"Accept": "text/plain"})
        self.assertEqual(plain.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8")

    def test_a_removed_function_leaves_no_series(self):
        self.worker.create_python("brief", "def handler(e, c): return 1")
        self.worker.invoke("brief")
        self.assertIn('function="brief"', self.worker.metrics())
        self.worker.delete("brief")
        self.assertNotIn('function="brief"', self.worker.metrics())

    def test_health_and_readiness(self):
        self.assertEqual(self.worker.request("GET", "/livez").status, 200)
        self.assertEqual(self.worker.request("GET", "/readyz").status, 200)


if __name__ == "__main__":
    unittest.main()
