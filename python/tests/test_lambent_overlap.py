"""A stage process with two jobs in flight: what overlaps, in which order, and how it ends; in the test's own process, in stage
processes, and under lambent_runtime."""
import http.server
import json
import os
import queue
import subprocess
import sys
import threading
import unittest

from pipeline_apps import PYTHON, Folder

from lambent.pipeline import channel, stage_processes
from lambent.pipeline.overlap import Overlap
from lambent.pipeline.stage import Stage, StageError

LONG = 60  # seconds after which something that should happen did not; a test that passes waits for none

# forward of n returns when decode of n + 1 has run, if there is one; encode of n when forward of n + 1 has begun.
WAITING_APP = """
    import os, threading, time
    from lambent.pipeline import Component, Pipeline

    def note(what, n):
        open("%%s-%%d" %% (what, n), "w").close()

    def wait_for(what, n):
        for _ in range(%d00):
            if os.path.exists("%%s-%%d" %% (what, n)):
                return
            time.sleep(0.01)  # for another thread
        raise TimeoutError("no %%s of %%d" %% (what, n))

    class Wait(Component):
        def setup(self):
            self.thread = threading.get_ident()
        def forward(self, n, last):
            assert self.thread == threading.get_ident()
            note("forward", n)
            if n != last:
                wait_for("decode", n + 1)
            return {"n": n, "last": last}

    class App(Pipeline):
        def define_dag(self, n, last):
            return self.register("wait", Wait, n, last)

        def decode(self, event):
            note("decode", event["n"])
            return event

        def encode(self, outputs):
            n, last = outputs["wait"]["n"], outputs["wait"]["last"]
            if n != last:
                wait_for("forward", n + 1)
            return n
""" % LONG


class Parts:
    """A stage of which a test decides when its parts return; a job is its number."""

    def __init__(self):
        self.story, self.lock = [], threading.Condition()

    def note(self, part, job):
        with self.lock:
            self.story.append((part, job))
            self.lock.notify_all()

    def wait_for(self, part, job):
        with self.lock:
            if not self.lock.wait_for(lambda: (part, job) in self.story, LONG):
                raise TimeoutError("%s of %s, after %s" % (part, job, self.story))

    def begin(self, job):
        self.note("begin", job)
        return job

    def work(self, job):
        self.note("work", job)
        return job

    def finish(self, job):
        self.note("finish", job)
        return job


class OverlapTest(unittest.TestCase):
    def serve(self, parts, jobs, in_flight=2):
        jobs, self.answers = iter(jobs), []

        def take():
            job = next(jobs, None)
            return None if job is None else (job, lambda: parts.begin(job))
        Overlap(parts, take, lambda ticket, outcome: self.answers.append((ticket, outcome)), in_flight).serve()

    def test_the_next_begins_while_one_is_at_work_and_works_while_it_goes_out(self):
        parts = Parts()

        def work(job):
            parts.note("work", job)
            if job < 9:
                parts.wait_for("begin", job + 1)
            return job

        def finish(job):
            if job < 9:
                parts.wait_for("work", job + 1)
            return job
        parts.work, parts.finish = work, finish
        self.serve(parts, range(10))
        self.assertEqual(self.answers, [(job, job) for job in range(10)])

    def test_no_more_are_begun_than_may_be_in_flight(self):
        for in_flight in (1, 2, 3):
            parts = Parts()
            self.serve(parts, range(50), in_flight)
            begun = finished = 0
            for part, _ in parts.story:
                begun, finished = begun + (part == "begin"), finished + (part == "finish")
                self.assertLessEqual(begun - finished, in_flight)
            self.assertEqual(finished, 50)
            for part in ("begin", "work", "finish"):
                self.assertEqual([job for each, job in parts.story if each == part], list(range(50)))

    def test_what_a_part_raises_is_the_answer_to_that_job_alone(self):
        for broken in ("begin", "work", "finish"):
            parts = Parts()

            def fail(job, real=getattr(parts, broken), name=broken):
                if job == 1:
                    raise ValueError(name)
                return real(job)
            setattr(parts, broken, fail)
            self.serve(parts, range(3))
            self.assertEqual([ticket for ticket, _ in self.answers], [0, 1, 2])
            self.assertEqual(str(self.answers[1][1]), broken)
            self.assertEqual([self.answers[0][1], self.answers[2][1]], [0, 2])

    def test_who_cannot_take_or_answer_ends(self):
        class Gone(Exception):
            pass

        def gone(*_):
            raise Gone()
        for take, answer in ((gone, lambda *_: None), (lambda: (0, lambda: 0), gone)):
            with self.assertRaises(Gone):
                Overlap(Parts(), take, answer, 2).serve()


class InStageProcesses(Folder):
    def setUp(self):
        super().setUp()
        self.write(WAITING_APP)
        self.import_anew()

    def test_a_stage_process_decodes_and_encodes_while_a_component_is_at_work(self):
        with stage_processes.LocalStageProcesses("app.App", [["wait"]], self.folder) as local:
            events = [{"n": n, "last": 5} for n in range(6)]
            for event in events:
                local.submit([event])
            for n in range(6):
                answer, = local.collect()
                self.assertEqual(answer["results"], [{"value": n}])
                self.assertGreaterEqual(answer["queue_ms"], 0)

    def test_an_app_that_says_no_has_one_job_in_flight(self):
        self.write(WAITING_APP.replace("def define_dag", "overlap = False\n        def define_dag"))
        self.import_anew()
        app = stage_processes.load_app("app.App", self.folder)()
        description = {"handler": "app.App", "stage_process": 0, "components": ["wait"], "outputs": ["wait"], "in_flight": 2}
        self.assertEqual(Stage(description, app).in_flight, 1)
        app.overlap = True
        self.assertEqual(Stage(description, app).in_flight, 2)
        before = {("in_hand" if key == "in_flight" else key): value for key, value in description.items()}
        self.assertEqual(Stage(before, app).in_flight, 2, "as a worker of the version before calls it")
        app.overlap = False
        for number in (0, "2", True, 1.5):
            with self.assertRaisesRegex(StageError, "'in_flight' is"):
                Stage(dict(description, in_flight=number), app)

    def test_the_runtime_asks_for_the_next_while_one_is_at_work(self):
        description = {"handler": "app.App", "stage_process": 0, "components": ["wait"], "outputs": ["wait"], "in_flight": 2}
        with open(os.path.join(self.folder, "stage.json"), "w", encoding="utf-8") as file:
            json.dump(description, file)
        api = RuntimeApi()
        self.addCleanup(api.close)
        process = subprocess.Popen(
            [sys.executable, "-m", "lambent_runtime", "app.App"], cwd=self.folder, stderr=subprocess.PIPE,
            env=dict(os.environ, AWS_LAMBDA_RUNTIME_API=api.address, LAMBDA_TASK_ROOT=self.folder, PYTHONPATH=PYTHON,
                     LAMBENT_STAGE=os.path.join(self.folder, "stage.json")))
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        for n in range(6):
            api.jobs.put({"job": n, "requests": 1, "events": [{"n": n, "last": 5}]})
        api.jobs.put(b"no job")
        for n in range(6):
            path, answer = api.posts.get(timeout=LONG)
            self.assertEqual(path, "/2018-06-01/runtime/invocation/id-%d/response" % n)
            self.assertEqual(json.loads(answer)["results"], [{"value": n}])
        path, _ = api.posts.get(timeout=LONG)
        self.assertEqual(path, "/2018-06-01/runtime/invocation/id-6/error")
        api.jobs.put(None)
        self.assertEqual(process.wait(LONG), 24, process.stderr.read())


class BetweenStageProcesses(Folder):
    """The middle one of three stage processes, whose channels have their other ends here."""

    def test_the_next_value_is_received_and_the_last_is_sent_while_one_is_at_work(self):
        self.write("""
            from lambent.pipeline import Component, Pipeline
            class Pass(Component):
                def forward(self, n):
                    return n
            class App(Pipeline):
                def define_dag(self, n):
                    for name in ("first", "second", "third"):
                        n = self.register(name, Pass, n)
                    return n
            """)
        self.import_anew()
        paths = [os.path.join(self.folder, name) for name in ("before", "after")]
        for path in paths:
            channel.create(path, 1, 1 << 20)
        before, after = channel.SendingEnd(paths[0]), channel.ReceivingEnd(paths[1])
        stage = Stage({"handler": "app.App", "stage_process": 1, "components": ["second"], "outputs": [], "in_flight": 2,
                       "receives": [{"channel": paths[0], "value": "first"}],
                       "sends": [{"channel": paths[1], "value": "second", "to": 2}]},
                      stage_processes.load_app("app.App", self.folder)()).open()
        self.addCleanup(stage.close)
        jobs = []
        for number, value in enumerate("ab"):
            before.send(number, [value], timeout_ms=0)  # there is one slot: what begins empties it
            jobs.append(stage.begin({"job": number, "requests": 1}))
        before.send(2, ["c"], timeout_ms=0)
        stage.work(jobs[0])
        stage.finish(jobs[0])
        stage.work(jobs[1])  # and what it makes waits here while the first lies in the other channel
        self.assertEqual(after.wait(), (0, 1))
        self.assertEqual(after.take(1), ["a"])
        stage.finish(jobs[1])
        self.assertEqual((after.wait(), after.take(1)), ((1, 1), ["b"]))


class RuntimeApi:
    """Hands out jobs as they are put, to a runtime that may ask for the next before it has answered; None: it is gone."""

    def __init__(self):
        self.jobs, self.posts, given = queue.SimpleQueue(), queue.SimpleQueue(), iter(range(1000))
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                job = outer.jobs.get()
                if job is None:
                    self.close_connection = True
                    return
                body = job if isinstance(job, bytes) else json.dumps(job).encode()
                self.send_response(200)
                self.send_header("Lambda-Runtime-Aws-Request-Id", "id-%d" % next(given))
                self.send_header("Lambda-Runtime-Deadline-Ms", "99999999999999")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self):
                outer.posts.put((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(202)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = "127.0.0.1:%d" % self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self.jobs.put(None)
        self._server.shutdown()
        self._server.server_close()


if __name__ == "__main__":
    unittest.main()
