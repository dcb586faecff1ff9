"""What --otlp-endpoint sends, read with OpenTelemetry's own classes (opentelemetry-proto): by a collector of ours, which can be slow or away,
and behind OpenTelemetry's own Collector, where tools/dev/opentelemetry_collector.sh compiled it (./dev test --all)."""
import collections
import http.server
import json
import pathlib
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse

from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from harness import PREFIX, Worker, claim_ports, make_zip

# The headers that it got, as an instrumented FastAPI program reads them.
TELLS_HEADERS = """
import http.server, json
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.dumps({name.lower(): value for name, value in self.headers.items()}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.HTTPServer(("127.0.0.1", 8080), Handler).serve_forever()
"""
# X-Ray's form as W3C's.
TELLS_TRACE = """
import os
def handler(event, context):
    parts = dict(part.split("=") for part in os.environ["_X_AMZN_TRACE_ID"].split(";"))
    _, time, rest = parts["Root"].split("-")
    return {"traceparent": f"00-{time}{rest}-{parts['Parent']}-0{parts['Sampled']}"}
"""

COLLECTOR = pathlib.Path(__file__).resolve().parents[2] / ".cache/collector"
# What it takes at the one address goes on, decoded and encoded again, to the other.
COLLECTOR_CONFIG = """
receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:%d"}}}}
exporters: {otlp_http: {endpoint: "%s", compression: none, sending_queue: {enabled: false}}}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    traces: {receivers: [otlp], exporters: [otlp_http]}
    logs: {receivers: [otlp], exporters: [otlp_http]}
"""

KINDS = {"/v1/traces": (ExportTraceServiceRequest, ExportTraceServiceResponse),
         "/v1/logs": (ExportLogsServiceRequest, ExportLogsServiceResponse)}


class Collector(http.server.ThreadingHTTPServer):
    """Takes what a collector takes, and keeps it. `status`: what it answers with."""
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), self.Handler)
        self.requests, self.bad, self.status, self.waits = collections.defaultdict(list), [], 200, 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            time.sleep(self.server.waits)
            if self.path not in KINDS or self.headers["Content-Type"] != "application/x-protobuf":
                self.server.bad.append((self.path, self.headers["Content-Type"]))
                return self.answer(404, b"")
            request, response = KINDS[self.path]
            try:
                self.server.requests[self.path].append(request.FromString(body))
            except DecodeError as error:
                self.server.bad.append((self.path, str(error)))
            self.answer(self.server.status, response().SerializeToString())

        def answer(self, status, body):
            self.send_response(status)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    def spans(self):
        return [span for request in list(self.requests["/v1/traces"]) for of_resource in request.resource_spans
                for of_scope in of_resource.scope_spans for span in of_scope.spans]

    def records(self):
        return [record for request in list(self.requests["/v1/logs"]) for of_resource in request.resource_logs
                for of_scope in of_resource.scope_logs for record in of_scope.log_records]


def attributes_of(item):
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in item.attributes}


def until(condition, what, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(what)
        time.sleep(0.05)


class OpenTelemetryTest(unittest.TestCase):
    def setUp(self):
        self.collector = Collector()
        self.addCleanup(self.collector.server_close)
        self.addCleanup(self.collector.shutdown)

    def worker(self, *flags, **options):
        worker = Worker("--otlp-endpoint", self.collector.url, *flags, gpu="none", **options)
        self.addCleanup(worker.close)
        return worker

    def named(self, name):
        return [span for span in self.collector.spans() if span.name == name]

    def test_an_invocation_is_a_span_with_its_phases_below_it_in_the_callers_trace(self):
        worker = self.worker()
        worker.create_python("hello", "def handler(e, c): return 1")
        reply = worker.request("POST", "/2015-03-31/functions/hello/invocations", b"{}", {
            "traceparent": "00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-01"})
        worker.request("POST", "/2015-03-31/functions/hello/invocations", b"{}", {
            "traceparent": "00-6759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-00"})
        worker.invoke("hello")
        until(lambda: len(self.named("hello")) == 2, "two invocations were not exported")
        first, own = self.named("hello")
        self.assertEqual(first.trace_id.hex(), "5759e988bd862e3fe1be46a994272793")
        self.assertEqual(first.parent_span_id.hex(), "53995c3f42cd8ad8")
        about = attributes_of(first)
        self.assertEqual(about["faas.invocation_id"], reply.headers["x-amzn-requestid"])
        self.assertIs(about["faas.coldstart"], True)
        self.assertEqual(about["lambent.outcome"], "succeeded")
        below = sorted((span for span in self.collector.spans() if span.parent_span_id == first.span_id),
                       key=lambda span: span.start_time_unix_nano)
        self.assertEqual({span.name for span in below} - {"queue", "sandbox", "init", "run"}, set())
        self.assertEqual(below[-1].name, "run")
        self.assertEqual(below[-1].end_time_unix_nano, first.end_time_unix_nano)
        for earlier, later in zip(below, below[1:]):
            self.assertEqual(earlier.end_time_unix_nano, later.start_time_unix_nano)
        self.assertLess(abs(first.end_time_unix_nano / 1e9 - time.time()), 120)
        # Without a parent it is a trace of its own; the second was not sampled.
        self.assertEqual(own.trace_id.hex(), attributes_of(own)["faas.invocation_id"].replace("-", ""))
        self.assertEqual(own.parent_span_id, b"")
        self.assertNotIn("6759e988bd862e3fe1be46a994272793", [span.trace_id.hex() for span in self.collector.spans()])
        resource = self.collector.requests["/v1/traces"][0].resource_spans[0].resource
        self.assertEqual(attributes_of(resource)["service.name"], "lambent")
        self.assertEqual(self.collector.bad, [])

    def parent_of(self, carrier):
        """The span below which a program's own spans are, as OpenTelemetry's propagator reads it from what the program got."""
        return trace.get_current_span(TraceContextTextMapPropagator().extract(carrier)).get_span_context()

    def test_what_programs_record_is_below_lambents_own_span(self):
        worker = self.worker()
        worker.create("web", make_zip({"server.py": TELLS_HEADERS}), handler="python3 server.py", tags={"lambent:kind": "http"})
        worker.create_python("handler", TELLS_TRACE)
        worker.create_python("url", "def handler(e, c): return e['headers']")
        theirs = {"traceparent": "00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-01", "tracestate": "vendor=1"}
        for name in ("web", "handler", "url"):
            for headers in (theirs, {}):
                with self.subTest(name, headers=headers):
                    path = "/2015-03-31/functions/handler/invocations" if name == "handler" else f"/f/{name}/"
                    reply = worker.request("POST", path, b"{}", headers)
                    self.assertEqual(reply.status, 200, reply.body)
                    invocation = reply.headers["x-lambent-invocation-id" if name == "web" else "x-amzn-requestid"]
                    exported = lambda: [span for span in self.named(name) if attributes_of(span)["faas.invocation_id"] == invocation]
                    until(exported, f"Lambent exported no span of {name}")
                    ours, = exported()
                    parent = self.parent_of(reply.json)
                    self.assertEqual((f"{parent.trace_id:032x}", f"{parent.span_id:016x}"), (ours.trace_id.hex(), ours.span_id.hex()))
                    self.assertTrue(parent.trace_flags.sampled)
                    self.assertEqual(reply.json.get("tracestate"), headers.get("tracestate") if name != "handler" else None)
                    self.assertEqual(ours.parent_span_id.hex(), "53995c3f42cd8ad8" if headers else "")
                    if headers:
                        self.assertEqual(ours.trace_id.hex(), "5759e988bd862e3fe1be46a994272793")

    def test_what_fails_is_an_error_and_calls_of_a_workflow_lie_below_its_run(self):
        worker = self.worker()
        worker.create_python("bad", "def handler(e, c): raise ValueError('no')")
        worker.invoke("bad")
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "lambent.toml").write_text(
                'name = "twice"\nkind = "workflow"\n\n[[component]]\nname = "one"\nfunction = "good"\ninput = "$input"\n\n'
                '[[component]]\nname = "two"\nfunction = "good"\ninput = "$one"\n')
            worker.create_python("good", "def handler(e, c): return e")
            subprocess.run([str(PREFIX / "bin/lambent"), "--endpoint", worker.endpoint, "deploy", folder], check=True, capture_output=True)
        worker.invoke("twice")
        until(lambda: self.named("twice") and len(self.named("good")) == 2, "the run was not exported")
        failed, = self.named("bad")
        self.assertEqual(failed.status.code, 2)
        self.assertEqual(attributes_of(failed)["error.type"], "ValueError")
        run, = self.named("twice")
        for call in self.named("good"):
            self.assertEqual((call.trace_id, call.parent_span_id), (run.trace_id, run.span_id))
        # What functions print, and the worker's own log, as records.
        until(lambda: any("ValueError: no" in record.body.string_value and attributes_of(record).get("faas.name") == "bad"
                          for record in self.collector.records()), "no line of a function came")
        until(lambda: any(record.body.string_value == "recovered" for record in self.collector.records()), "no log record came")

    def test_a_collector_that_is_slow_or_away_costs_no_call_anything(self):
        self.collector.waits = 5
        worker = self.worker()
        worker.create_python("hello", "def handler(e, c): return 1")
        for _ in range(30):
            worker.invoke("hello")
        self.collector.status = 503
        self.collector.waits = 0
        dropped = 'lambent_otlp_dropped_total{signal="traces"}'

        def count():
            return next(float(line.rpartition(" ")[2]) for line in worker.metrics().splitlines() if line.startswith(dropped))

        until(lambda: count() > 0, "nothing was counted as dropped")
        self.collector.shutdown()
        self.collector.server_close()
        worker.invoke("hello")
        self.assertEqual(worker.stop(), 0)

    def test_without_the_flag_nothing_is_sent_and_nothing_is_counted(self):
        worker = Worker(gpu="none")
        self.addCleanup(worker.close)
        self.assertNotIn("lambent_otlp", worker.metrics())

    def test_an_address_that_is_none_is_told(self):
        done = subprocess.run([str(PREFIX / "bin/lambent-worker"), "--otlp-endpoint", "ftp://collector:4318", "--gpu", "none", "--state",
                               tempfile.mkdtemp(), "--listen", "127.0.0.1:0"], capture_output=True, text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("is no address of a collector, such as", done.stderr)


@unittest.skipUnless(COLLECTOR.exists(), "OpenTelemetry's Collector is not there: tools/dev/opentelemetry_collector.sh makes it")
class OpenTelemetryCollectorTest(unittest.TestCase):
    """OpenTelemetry's own Collector between the worker and ours: what it does not understand does not come through."""

    def start_between(self, ours):
        """The address of a Collector that sends on to `ours`."""
        port, = claim_ports(1)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        config = pathlib.Path(folder.name, "config.yaml")
        config.write_text(COLLECTOR_CONFIG % (port, ours.url))
        self.log = open(config.with_suffix(".log"), "w+", encoding="utf-8")
        self.addCleanup(self.log.close)
        process = subprocess.Popen([str(COLLECTOR), "--config", f"file:{config}"], stdout=self.log, stderr=subprocess.STDOUT)
        self.addCleanup(process.kill)
        self.addCleanup(process.wait, timeout=30)
        self.addCleanup(process.terminate)

        def listens():
            self.assertIsNone(process.poll(), config.with_suffix(".log").read_text())
            with socket.socket() as client:
                return client.connect_ex(("127.0.0.1", port)) == 0

        until(listens, "OpenTelemetry's Collector does not listen")
        return f"http://127.0.0.1:{port}"

    def test_its_spans_and_log_records_come_through_opentelemetrys_own_collector(self):
        ours = Collector()
        self.addCleanup(ours.server_close)
        self.addCleanup(ours.shutdown)
        worker = Worker("--otlp-endpoint", self.start_between(ours), gpu="none")
        self.addCleanup(worker.close)
        worker.create_python("hello", "def handler(e, c):\n    print('said so')\n    return 1")
        worker.create_python("bad", "def handler(e, c): raise ValueError('no')")
        reply = worker.request("POST", "/2015-03-31/functions/hello/invocations", b"{}", {
            "traceparent": "00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-01"})
        worker.invoke("bad")
        until(lambda: {"hello", "bad"} <= {span.name for span in ours.spans()}, "no span came through")
        span, = [span for span in ours.spans() if span.name == "hello"]
        self.assertEqual((span.trace_id.hex(), span.parent_span_id.hex()), ("5759e988bd862e3fe1be46a994272793", "53995c3f42cd8ad8"))
        self.assertEqual(attributes_of(span)["faas.invocation_id"], reply.headers["x-amzn-requestid"])
        self.assertIs(attributes_of(span)["faas.coldstart"], True)
        self.assertIn("run", {below.name for below in ours.spans() if below.parent_span_id == span.span_id})
        failed, = [span for span in ours.spans() if span.name == "bad"]
        self.assertEqual(attributes_of(failed)["error.type"], "ValueError")
        until(lambda: any(record.body.string_value == "said so" and attributes_of(record).get("faas.name") == "hello"
                          for record in ours.records()), "no line of a function came through")
        resource = ours.requests["/v1/traces"][0].resource_spans[0].resource
        self.assertEqual(attributes_of(resource)["service.name"], "lambent")
        self.assertNotRegex(worker.metrics(), r'otlp_dropped_total\{[^}]*signal="traces"[^}]*\} [1-9]')
        self.log.seek(0)
        self.assertNotRegex(self.log.read(), r"(?m)^\S+\s+(error|warn)\b")


class AccessLogTest(unittest.TestCase):
    def test_each_request_is_a_line(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "access.log")
            worker = Worker("--access-log", str(path), gpu="none")
            try:
                worker.create_python("hello", "def handler(e, c): return 'four'")
                reply = worker.request("POST", "/2015-03-31/functions/hello/invocations", b"{}", {"User-Agent": 'a "tool"'})
                worker.request("GET", "/livez")
            finally:
                worker.close()
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            asked, = [line for line in lines if line["target"].endswith("/hello/invocations")]
            self.assertEqual((asked["status"], asked["bytes"], asked["user_agent"]), (200, 6, 'a "tool"'))
            self.assertEqual(asked["invocation"], reply.headers["x-amzn-requestid"])
            self.assertGreater(asked["took_ms"], 0)
            self.assertEqual([line["status"] for line in lines if line["target"] == "/livez"], [200])

    def test_combined_lines_are_those_of_web_servers(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "access.log")
            worker = Worker("--access-log", str(path), "--access-log-format", "combined", gpu="none")
            try:
                worker.request("GET", "/livez", b"", {"User-Agent": "curl/8"})
            finally:
                worker.close()
            self.assertRegex(path.read_text(), r'(?m)^127\.0\.0\.1 - - \[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d \+0000\] '
                                               r'"GET /livez HTTP/1\.1" 200 3 "-" "curl/8"$')


if __name__ == "__main__":
    unittest.main()
