"""Workflows through the whole worker: components in the order of their values, fan-out, conditions, failures, kernels and
handlers in one graph, calls that are made again, time-outs, and a worker that is killed in the middle."""
import array
import base64
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid

from harness import PREFIX, HttpError, Worker, WorkerTest, make_zip
import test_kernel_functions as kernels

sys.path.insert(0, str(PREFIX / "share/lambent/python"))
from lambent.client import Client  # noqa: E402
from lambent.errors import LambentError  # noqa: E402
from lambent.workflow import Workflow, item, not_  # noqa: E402

DETECT = """
def handler(event, context):
    return {"boxes": list(range(event["count"])), "count": event["count"]}
"""
# Adds, waits or fails, as it is told.
STEP = """
import time

def handler(event, context):
    time.sleep(event.get("seconds", 0))
    if event.get("fail"):
        raise ValueError(event["fail"])
    return event.get("n", 0) + 1
"""
TOTAL = """
import array
from lambent import objects

def handler(event, context):
    return sum(sum(array.array("f", bytes(objects.get(each)))) for each in event["of"])
"""
# Works on the device until somebody ends it, and says so; the second time it only says that it is the second.
WORKS = """
import lambent_cuda as cuda
from lambent import objects
from lambent.errors import LambentError

device = cuda.Device()
y = device.buffer(64)

def handler(event, context):
    try:
        return bytes(objects.get(event["begun"])).decode()
    except LambentError:
        pass
    for turn in range(1_000_000):
        y.fill(turn % 256)
        device.synchronize()
        if turn == 0:
            objects.put(b"again", name=event["begun"])
"""


def component(name, function, **more):
    return {"name": name, "function": function, **more}


class Workflows(WorkerTest):
    gpu = "none"
    flags = ("--concurrency", "8")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.worker.create_python("detect", DETECT)
        cls.worker.create_python("step", STEP)

    def create(self, name, components, output=None, timeout=30, worker=None):
        graph = {"components": components}
        if output is not None:
            graph["output"] = output
        package = make_zip({"workflow.json": json.dumps(graph)})
        return (worker or self.worker).create(name, package, runtime="provided.al2023", handler="workflow.json",
                                              timeout=timeout, tags={"lambent:kind": "workflow"})

    def ask(self, name, event, **options):
        reply = self.worker.invoke(name, event, **options)
        self.assertNotIn("x-amz-function-error", reply.headers, reply.body)
        return reply

    def failure(self, name, event, **options):
        reply = self.worker.invoke(name, event, **options)
        self.assertIn("x-amz-function-error", reply.headers, reply.body)
        return reply.json

    def assert_nothing_left(self):
        objects = self.worker.request("GET", "/v1/objects").json["objects"]
        self.assertEqual(objects, [])
        self.worker.wait_for(lambda: not any(
            each["running"] or each["queued"]
            for each in self.worker.request("GET", "/v1/functions").json["functions"]), what="rest")


class Handlers(Workflows):
    def test_values_pass_from_component_to_component(self):
        self.create("chain", [component("a", "step", input={"n": "$input.n"}),
                              component("b", "step", input={"n": "$a"}),
                              component("c", "step", input={"n": "$a"}),
                              component("d", "detect", input={"count": "$b"})],
                    {"boxes": "$d.boxes", "c": "$c", "price": "$$5"})
        reply = self.ask("chain", {"n": 1})
        self.assertEqual(reply.json, {"boxes": [0, 1, 2], "c": 3, "price": "$5"})
        self.assertIn(reply.headers["x-lambent-start"], ("cold", "warm"))
        # Where the time went is in its log.
        log = self.worker.request("GET", "/v1/functions/chain/log").body.decode()
        self.assertIn("d  at ", log)
        self.assertIn("Calls: 4", log)
        trace = self.worker.request("GET", f"/v1/invocations/{reply.headers['x-amzn-requestid']}/trace").json
        self.assertEqual((trace["function"], trace["state"], trace["calls_ended"]), ("chain", "succeeded", 4))
        calls = {each["component"]: each for each in trace["calls"]}
        self.assertEqual(set(calls), set("abcd"))
        for each in calls.values():
            self.assertIn(each["start"], ("cold", "warm"))
            self.assertLessEqual(each["at_ms"] + each["took_ms"], trace["took_ms"] + 0.1)
        self.assertGreaterEqual(calls["d"]["at_ms"], calls["b"]["at_ms"] + calls["b"]["took_ms"] - 0.1)
        self.assert_nothing_left()

    def test_a_list_that_is_known_only_then_is_fanned_out(self):
        self.create("faces", [component("detect", "detect", input={"count": "$input.count"}),
                              component("face", "step", for_each="$detect.boxes", input={"n": "$item"}),
                              component("second", "step", for_each="$face", input={"n": "$item", "seconds": 0})],
                    {"faces": "$second", "count": "$detect.count"})
        for count in (0, 1, 3, 100):
            self.assertEqual(self.ask("faces", {"count": count}).json,
                             {"faces": [i + 2 for i in range(count)], "count": count})
        failure = self.failure("faces", {"count": 1001})
        self.assertEqual(failure["errorMessage"], "component face of faces failed: for_each: the list has 1001 elements; "
                                                  "at most 1000 are taken")

    def test_components_that_need_nothing_of_each_other_run_at_once(self):
        self.worker.create_python("other", STEP)
        self.create("wide", [component("a", "step", input={"seconds": 1}), component("b", "other", input={"seconds": 1})])
        caller = threading.Thread(target=lambda: self.worker.invoke("wide", {}))
        caller.start()
        self.worker.wait_for(lambda: {"step", "other"} <= {each["function"] for each in self.worker.sandboxes()
                                                           if each["state"] == "busy"}, what="both at work")
        caller.join()

    def test_conditions_leave_components_out(self):
        self.create("maybe", [component("deep", "step", when="$input.deep", input={"n": 1}),
                              component("after", "step", input={"n": 10, "of": "$deep"}),
                              component("also", "step", when={"ref": "$deep", "op": ">", "value": 1}, input={"n": 20}),
                              component("else", "step", when={"not": "$input.deep"}, input={"n": 30})],
                    ["$deep", "$after", "$also", "$else"])
        self.assertEqual(self.ask("maybe", {"deep": True}).json, [2, 11, 21, None])
        self.assertEqual(self.ask("maybe", {"deep": False}).json, [None, 11, None, 31])
        self.assertEqual(self.ask("maybe", {}).json, [None, 11, None, 31])

    def test_a_failure_is_told_with_the_names_of_all_that_failed(self):
        self.create("inner", [component("detect", "detect", input={"count": 3}),
                              component("face", "step", for_each="$detect.boxes", input={"n": "$item", "fail": "$input.fail"}),
                              component("never", "never", input="$face")])
        self.create("outer", [component("part", "inner")])
        self.worker.create_python("never", "def handler(e, c): return e")
        failure = self.failure("outer", {"fail": "seven is no prime"})
        self.assertRegex(failure["errorMessage"],
                         r"^component part of outer failed: component face\[[012]\] of inner failed: ValueError: seven is no prime")
        self.assertEqual(failure["errorType"], "ValueError")
        self.assertEqual([each["sandboxes"] for each in self.worker.request("GET", "/v1/functions").json["functions"]
                          if each["name"] == "never"], [0], "what depends on a failure was called")
        self.assert_nothing_left()

    def test_what_is_missing_is_named(self):
        self.create("gaps", [component("a", "step", input={"n": "$input.n"}), component("b", "nobody", input="$a")])
        self.assertEqual(self.failure("gaps", {})["errorMessage"],
                         "component a of gaps failed: input.n: $input.n: there is no key 'n'")
        failure = self.failure("gaps", {"n": 1})
        self.assertIn("component b of gaps failed: NOT_FOUND: ", failure["errorMessage"])
        self.assertIn("nobody", failure["errorMessage"])
        self.assertEqual(failure["errorType"], "Workflow.CallRejected")
        self.assertEqual(self.failure("gaps", b"{")["errorMessage"], "the input: this is no JSON")
        # It may come later.
        self.worker.create_python("nobody", "def handler(e, c): return e * 2")
        self.assertEqual(self.ask("gaps", {"n": 1}).json, 4)
        self.worker.delete("nobody")

    def test_graphs_are_refused_with_their_place(self):
        for components, words in [
                ([component("a", "step", input="$b")], "workflow.json: components[0].input: '$b': there is no component 'b'"),
                ([component("a", "step", input="$b"), component("b", "step", input="$a")],
                 "'a' needs 'b' needs 'a'"),
                ([component("a", "step", inputs=1)], "did you mean 'input'?"),
                ([], "at least one component")]:
            error = self.error_of(self.create, "refused", components)
            self.assertEqual(error.status, 400)
            self.assertIn(words, error.body.decode())
        error = self.error_of(self.worker.create, "refused", make_zip({"app.py": ""}), "provided.al2023", "workflow.json",
                              tags={"lambent:kind": "workflow"})
        self.assertIn("workflow.json", error.body.decode())
        error = self.error_of(self.worker.create, "refused", make_zip({"workflow.json": "{}"}), "provided.al2023",
                              "workflow.json", tags={"lambent:kind": "workflow", "lambent:gpu-memory": "1G"})
        self.assertIn("a workflow uses no GPU itself", error.body.decode())

    def test_a_changed_graph_is_the_one_that_runs(self):
        self.create("changing", [component("a", "step", input={"n": 1})])
        self.assertEqual(self.ask("changing", {}).json, 2)
        graph = {"components": [component("a", "step", input={"n": 5})]}
        package = base64.b64encode(make_zip({"workflow.json": json.dumps(graph)})).decode()
        self.worker.request("PUT", "/2015-03-31/functions/changing/code", json.dumps({"ZipFile": package}))
        self.assertEqual(self.ask("changing", {}).json, 6)
        bad = base64.b64encode(make_zip({"workflow.json": "[]"})).decode()
        self.error_of(self.worker.request, "PUT", "/2015-03-31/functions/changing/code", json.dumps({"ZipFile": bad}))
        self.assertEqual(self.ask("changing", {}).json, 6)
        self.worker.delete("changing")
        self.assertEqual(self.error_of(self.worker.invoke, "changing", {}).status, 404)

    def test_only_idempotent_components_are_called_again_when_their_sandbox_died(self):
        self.create("fragile", [component("a", "step", input={"n": "$input.n", "seconds": 1})])
        self.create("sturdy", [component("a", "step", input={"n": "$input.n", "seconds": 1}, idempotent=True)])
        for name in ("fragile", "sturdy"):
            replies = []
            caller = threading.Thread(target=lambda: replies.append(self.worker.invoke(name, {"n": 1})))
            caller.start()
            busy = self.worker.wait_for(lambda: [each for each in self.worker.sandboxes()
                                                 if each["function"] == "step" and each["state"] == "busy"])
            os.kill(busy[0]["pid"], signal.SIGKILL)
            caller.join()
            if name == "sturdy":
                self.assertEqual(replies[0].json, 2)
                log = self.worker.request("GET", "/v1/functions/sturdy/log").body.decode()
                self.assertIn("attempt 2", log)
                self.assertIn("Runtime.ExitError", log)
            else:
                self.assertIn("component a of fragile failed: Runtime.ExitError", replies[0].json["errorMessage"])

    def test_what_the_handler_said_itself_is_no_reason_to_call_it_again(self):
        self.create("stubborn", [component("a", "step", input={"fail": "no"}, idempotent=True)])
        self.failure("stubborn", {})
        log = self.worker.request("GET", "/v1/functions/stubborn/log").body.decode()
        self.assertEqual(log.count("a  at "), 1, log)

    def test_a_time_out_ends_it_and_what_it_had_queued(self):
        self.worker.create_python("narrow", "import time\ndef handler(e, c): time.sleep(0.7); return e")
        self.create("slow", [component("all", "narrow", for_each="$input")], timeout=1)
        failure = self.failure("slow", list(range(50)))
        self.assertEqual(failure["errorType"], "Sandbox.Timeout")
        self.assertIn("Task timed out after 1.", failure["errorMessage"])
        # None of the fifty waits any more, so that the next finds no queue.
        started = time.monotonic()
        self.ask("narrow", 1)
        self.assertLess(time.monotonic() - started, 10)
        self.assert_nothing_left()

    def test_workflows_that_call_themselves_end(self):
        self.create("endless", [component("again", "endless")])
        self.assertIn("workflows call each other more than 8 deep", self.failure("endless", {})["errorMessage"])
        # With an end they may.
        self.create("countdown", [component("step", "step", input={"n": "$input.left"}),
                                  component("next", "countdown", when="$input.more[0]",
                                            input={"left": "$step", "more": "$input.more[0]"})],
                    ["$step", "$next"])
        self.assertEqual(self.ask("countdown", {"left": 1, "more": [[False]]}).json, [2, [3, None]])

    def test_it_runs_as_an_event_and_as_a_future(self):
        self.create("two", [component("a", "step", input={"n": "$input"}), component("b", "step", input={"n": "$a"})])
        event = self.worker.invoke("two", 1, kind="Event").headers["x-amzn-requestid"]
        done = self.worker.wait_for(lambda: (lambda r: r if r.status == 200 else None)(
            self.worker.request("GET", "/v1/invocations/" + event)), what="the event's result")
        self.assertEqual(done.json, 3)
        with Client(self.worker.endpoint) as client:
            self.assertEqual(client.function("two").remote(5).json(30), 7)
            self.create("bad", [component("a", "step", input={"fail": "seven"})])
            with self.assertRaises(LambentError) as caught:
                client.function("two").remote(client.function("bad").remote(1)).get(30)
            self.assertIn("component a of bad failed: ValueError: seven", str(caught.exception))
        for each in self.worker.request("GET", "/v1/objects").json["objects"]:
            self.worker.request("DELETE", "/v1/objects/" + each["object"])

    def test_a_client_that_goes_away_takes_its_workflow_along(self):
        self.create("left", [component("all", "step", for_each="$input", input={"seconds": 1})])
        with self.assertRaises(OSError):
            self.worker.invoke("left", list(range(40)), timeout=0.5)
        self.worker.wait_for(lambda: not [each for each in self.worker.request("GET", "/v1/functions").json["functions"]
                                          if each["name"] == "left" and each["running"]], what="its end")
        self.assert_nothing_left()


class CommandLine(Workflows):
    def lambent(self, *arguments):
        done = subprocess.run([str(PREFIX / "bin/lambent"), *arguments, "--endpoint", self.worker.endpoint], text=True,
                              capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_the_example_is_deployed_with_its_components_and_tells_where_the_time_went(self):
        folder = pathlib.Path(__file__).parent.parent.parent / "examples/13_workflow_hello"
        deployed = self.lambent("deploy", str(folder)).stdout
        self.assertEqual([line.split()[:2] for line in deployed.splitlines()],
                         [["created", "words"], ["created", "measure"], ["created", "hello_words"]])
        self.assertIn("unchanged measure", self.lambent("deploy", str(folder)).stdout)
        done = self.lambent("invoke", "hello_words", "--log", "-d", json.dumps({"text": "The quick fox"}))
        self.assertEqual(json.loads(done.stdout), {
            "words": ["the", "quick", "fox"],
            "lengths": [None, {"letters": 5, "number": 1}, {"letters": 3, "number": 2}]})
        for words in ("words  at ", "lengths[1]  at ", "cold", "REPORT RequestId"):
            self.assertIn(words, done.stderr)
        self.assertIn("hello_words", self.lambent("ls").stdout)
        self.assertIn("lengths[2]", self.lambent("logs", "hello_words").stdout)


    def test_what_the_builder_writes_is_deployed(self):
        flow = Workflow("built")
        detect = flow.call("detect", {"count": flow.input.count})
        steps = flow.call("step", {"n": item}, for_each=detect.boxes, when=item > 0)
        few = flow.call("step", {"n": 100}, name="few", when=detect.count < 2, after=[steps])
        flow.call("step", {"n": 7}, name="never", when=not_(detect.count))
        flow.output({"steps": steps, "few": few, "text": "$text"})
        with tempfile.TemporaryDirectory() as folder:
            flow.save(folder, timeout_s=9)
            self.lambent("deploy", folder)
        self.assertEqual(self.ask("built", {"count": 3}).json, {"steps": [None, 2, 3], "few": None, "text": "$text"})
        self.assertEqual(self.ask("built", {"count": 1}).json, {"steps": [None], "few": 101, "text": "$text"})


class Restart(Workflows):
    @classmethod
    def setUpClass(cls):
        cls.worker = Worker(gpu="none")

    def test_an_event_runs_again_from_its_start_after_kill_9(self):
        self.worker.create_python("step", STEP)
        self.create("two", [component("a", "step", input={"n": "$input", "seconds": 1}),
                            component("b", "step", input={"n": "$a", "seconds": 1})])
        event = self.worker.invoke("two", 1, kind="Event").headers["x-amzn-requestid"]
        self.worker.wait_for(lambda: any(each["function"] == "step" and each["invocations"] >= 1 and each["state"] == "busy"
                                         for each in self.worker.sandboxes()), what="the second component")
        self.worker.kill()
        self.worker.start()
        done = self.worker.wait_for(lambda: (lambda r: r if r.status == 200 else None)(
            self.worker.request("GET", "/v1/invocations/" + event)), what="the event's result")
        self.assertEqual(done.json, 3)
        self.assertEqual(self.worker.request("POST", "/2015-03-31/functions/two/invocations", "4").json, 6)

    def test_stopping_keeps_an_event_for_the_next_worker(self):
        self.worker.create_python("slow", "import time\ndef handler(e, c): time.sleep(1); return e + 1")
        self.create("slow_two", [component("a", "slow", input="$input"), component("b", "slow", input="$a")])
        event = self.worker.invoke("slow_two", 1, kind="Event").headers["x-amzn-requestid"]
        self.worker.wait_for(lambda: any(each["function"] == "slow" and each["state"] == "busy"
                                         for each in self.worker.sandboxes()), what="the first component")
        self.assertEqual(self.worker.stop(), 0)
        self.worker.start()
        done = self.worker.wait_for(lambda: (lambda r: r if r.status == 200 else None)(
            self.worker.request("GET", "/v1/invocations/" + event)), what="the event's result")
        self.assertEqual(done.json, 3)


class FewMayWait(Workflows):
    flags = ("--concurrency", "8", "--set", "queued_invocations=200")

    def test_events_that_fan_out_leave_room_for_others_and_all_get_done(self):
        self.worker.create_python("other", "def handler(e, c): return 1")
        self.create("fan", [component("each", "step", for_each="$input", input={"n": "$item"})], output="$each")
        events = [self.worker.invoke("fan", list(range(64)), kind="Event") for _ in range(20)]
        self.assertEqual({event.status for event in events}, {202})
        results = []
        for event in events:
            def result():
                self.assertEqual(self.worker.invoke("other", {}).status, 200)
                reply = self.worker.request("GET", "/v1/invocations/" + event.headers["x-amzn-requestid"])
                return reply if reply.status == 200 else None
            results.append(self.worker.wait_for(result, what="the event's result").json)
        self.assertEqual(results, [list(range(1, 65))] * 20)


class Kernels(Workflows):
    gpu = "emulated:tiny"
    flags = ("--context-memory", "16", "--concurrency", "2")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, factor in (("double", 2.0), ("triple", 3.0)):
            package = {"graph.json": json.dumps(kernels.scale_graph(factor=factor)), **kernels.bundle_files()}
            cls.worker.create(name, make_zip(package), runtime="provided.al2023", handler="graph.json",
                              tags={"lambent:kind": "kernel"})
        cls.worker.create_python("total", TOTAL)

    def test_kernels_and_handlers_hand_each_other_objects(self):
        self.create("mixed", [component("twice", "double", input={"x": "$input.x"}),
                              component("six", "triple", input={"x": "$twice.y"}),
                              component("seen", "double", input={"x": "$six.y"}, inline=True),
                              component("total", "total", input={"of": ["$twice.y", "$six.y"]})],
                    {"total": "$total", "seen": "$seen.y.data"})
        self.assertEqual(self.ask("mixed", {"x": [1, 2, 3, 4]}).json, {"total": 80, "seen": [12, 24, 36, 48]})
        self.assert_nothing_left()

    def test_objects_of_the_output_stay(self):
        self.create("kept", [component("twice", "double", input={"x": "$input.x"}),
                             component("six", "triple", input={"x": "$twice.y"})], {"y": "$six.y"})
        with Client(self.worker.endpoint) as client:
            x = client.put(array.array("f", [1, 2, 3, 4]), "FP32", (4,))
            made = self.ask("kept", {"x": {"object": x.id}}).json["y"]
            self.assertEqual((made["datatype"], made["shape"]), ("FP32", [4]))
            reply = self.worker.request("GET", "/v1/objects/" + made["object"])
            self.assertEqual(list(array.array("f", reply.body)), [6, 12, 18, 24])
            names = {each["object"] for each in self.worker.request("GET", "/v1/objects").json["objects"]}
            self.assertEqual(names, {x.id, made["object"]})
            for name in names:
                self.worker.request("DELETE", "/v1/objects/" + name)

    def exists(self, name):
        try:
            return self.worker.request("GET", "/v1/objects/" + name).status == 200
        except HttpError:
            return False

    def test_an_idempotent_handler_is_called_again_when_the_executor_that_it_shares_died(self):
        self.worker.create_python("works", WORKS, tags={"lambent:gpu-memory": "32MiB", "lambent:gpu-runtime": "shared"})
        for name, idempotent in (("sturdy", True), ("fragile", False)):
            self.create(name, [component("work", "works", idempotent=idempotent)])
            begun, replies = str(uuid.uuid4()) + ".0", []
            caller = threading.Thread(target=lambda: replies.append(self.worker.invoke(name, {"begun": begun})))
            caller.start()
            self.worker.wait_for(lambda: self.exists(begun), what="its work on the device")
            self.worker.invoke("double", {"inputs": [{"name": "x", "data": [1, 2, 3, 4]}]})  # in the same executor
            executor = next(each["pid"] for each in self.worker.sandboxes() if each["function"] == "double")
            # The handler is the first to notice, for the worker sleeps for longer than its library does between two looks.
            os.kill(self.worker.process.pid, signal.SIGSTOP)
            os.kill(executor, signal.SIGKILL)
            time.sleep(0.6)
            os.kill(self.worker.process.pid, signal.SIGCONT)
            caller.join()
            if idempotent:
                self.assertEqual(replies[0].json, "again")
            else:
                self.assertEqual(replies[0].json["errorType"], "Sandbox.Failure", replies[0].json)
            self.worker.request("DELETE", "/v1/objects/" + begun)

    def test_a_kernel_runs_for_each_element(self):
        self.create("each", [component("all", "double", for_each="$input", input={"x": "$item"}),
                             component("total", "total", input={"of": ["$all[0].y", "$all[4].y"]})])
        self.assertEqual(self.ask("each", [[i] * 4 for i in range(5)]).json, 32)
        self.assert_nothing_left()

    def test_what_a_kernel_is_not_given_is_told(self):
        self.create("wrong", [component("a", "double", input={"x": "$input"})])
        self.assertIn("component a of wrong failed: Request.Invalid: ", self.failure("wrong", [1, 2])["errorMessage"])
        self.assertIn("input 'x' is null", self.failure("wrong", None)["errorMessage"])
        self.assert_nothing_left()


def batched_graph(count, factor, sizes, wait_ms=None):
    """y = factor * x for so many rows of `count` numbers at a time; with `wait_ms` calls are put together."""
    steps = [{"batch": size, "steps": [kernels.launch("scale", "x", "y", factor, kernels.unsigned(size * count),
                                                      grid=(-(-size * count // 256),), block=(256,))]} for size in sizes]
    graph = {"buffers": [kernels.tensor("x", "input", [sizes[-1], count]), kernels.tensor("y", "output", [sizes[-1], count])],
             "steps": steps}
    return graph if wait_ms is None else {**graph, "batches": {"wait_us": 1000 * wait_ms, "slo_us": 0}}


class Batches(Workflows):
    """Calls of several runs that wait at the same time are one run of a kernel function with variants."""
    gpu = "emulated:tiny"
    flags = ("--context-memory", "16", "--concurrency", "2")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, graph in (("double", batched_graph(4, 2.0, (1, 2, 4), 2000)), ("triple", batched_graph(4, 3.0, (1, 2, 4), 2000)),
                            ("double_later", batched_graph(4, 2.0, (1, 2, 4), 10000)),
                            ("double_alone", batched_graph(4, 2.0, (1, 2, 4))), ("triple_alone", batched_graph(4, 3.0, (1, 2, 4))),
                            ("large_double", batched_graph(1 << 19, 2.0, (1, 2), 2000)),
                            ("large_triple", batched_graph(1 << 19, 3.0, (1, 2), 2000))):
            package = {"graph.json": json.dumps(graph), **kernels.bundle_files()}
            # What stays on the device lies beside what a request takes.
            memory = {"lambent:gpu-memory": "24MiB"} if name.startswith("large") else {}
            cls.worker.create(name, make_zip(package), runtime="provided.al2023", handler="graph.json",
                              tags={"lambent:kind": "kernel", **memory})

    def chain(self, name, suffix="", inline=True):
        self.create(name, [component("twice", f"double{suffix}", input={"x": "$input.x"}),
                           component("six", f"triple{suffix}", input={"x": "$twice.y"}, inline=inline)], {"y": "$six.y"})

    def at_once(self, name, events):
        replies = [None] * len(events)

        def run(number):
            replies[number] = self.worker.invoke(name, events[number])
        callers = [threading.Thread(target=run, args=(number,)) for number in range(len(events))]
        for each in callers:
            each.start()
        for each in callers:
            each.join()
        return replies

    def batched(self, function):
        return tuple(self.worker.metric(f'lambent_{what}_total{{function="{function}"') for what in ("batches", "batched_calls"))

    @staticmethod
    def rows(*values):
        return {"x": {"datatype": "FP32", "shape": [len(values), 4], "data": [value + i for value in values for i in range(4)]}}

    def test_runs_share_batches_and_each_has_the_answer_that_it_has_by_itself(self):
        self.chain("six")
        self.chain("six_alone", "_alone")
        events = [self.rows(1), self.rows(10, 20), self.rows(100)]
        expected = [self.ask("six_alone", event).json for event in events]
        self.assertEqual(expected[1]["y"]["data"], [6 * (value + i) for value in (10, 20) for i in range(4)])
        before = {function: self.batched(function) for function in ("double", "triple")}
        replies = self.at_once("six", events)
        self.assertEqual([reply.json for reply in replies], expected)
        for function in ("double", "triple"):
            batches, calls = (now - then for now, then in zip(self.batched(function), before[function]))
            self.assertGreaterEqual(batches, 1)
            self.assertGreaterEqual(calls, 2 * batches)
            self.assertEqual(self.batched(function + "_alone"), (0, 0))
        # Runs whose calls were one invocation say its id.
        traces = [self.worker.request("GET", f"/v1/invocations/{reply.headers['x-amzn-requestid']}/trace").json for reply in replies]
        first = [trace["calls"][0]["invocation"] for trace in traces]
        self.assertLess(len(set(first)), 3, first)
        self.assert_nothing_left()

    def test_a_call_that_is_wrong_leaves_the_others_of_its_batch(self):
        self.chain("some_wrong")
        wrong = {"x": {"datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3]}}
        before = self.batched("double")
        replies = self.at_once("some_wrong", [self.rows(1), wrong, self.rows(2), self.rows(3)])
        self.assertIn("x-amz-function-error", replies[1].headers)
        self.assertIn("component twice of some_wrong failed: Request.Invalid: INVALID_ARGUMENT: inputs[0].shape: [1, 3] is given",
                      replies[1].json["errorMessage"])
        for number, value in ((0, 1), (2, 2), (3, 3)):
            self.assertEqual(replies[number].json["y"]["data"], [6 * (value + i) for i in range(4)])
        self.assertGreater(self.batched("double")[0], before[0])
        self.assert_nothing_left()

    def test_requests_by_the_inference_protocol_join_the_calls_of_runs(self):
        self.create("joined", [component("twice", "double_later", input={"x": "$input.x"}, inline=True)])
        replies, before = [], self.batched("double_later")

        def infer():
            request = {"inputs": [{"name": "x", **self.rows(7)["x"]}]}
            replies.append(self.worker.request("POST", "/v2/models/double_later/infer", json.dumps(request).encode()))
        caller = threading.Thread(target=infer)
        caller.start()
        time.sleep(0.5)  # it waits for others that speak as it does, and then for those of runs
        run = self.ask("joined", self.rows(1))
        caller.join()
        self.assertEqual(run.json["y"]["data"], [2 * (1 + i) for i in range(4)])
        self.assertEqual(replies[0].json["outputs"][0]["data"], [2 * (7 + i) for i in range(4)])
        self.assertEqual(self.batched("double_later"), (before[0] + 1, before[1] + 2))
        trace = self.worker.request("GET", f"/v1/invocations/{run.headers['x-amzn-requestid']}/trace").json
        self.assertEqual(replies[0].headers["x-lambent-invocation-id"], trace["calls"][0]["invocation"])

    def test_a_run_that_ends_leaves_the_others_of_its_batch(self):
        self.chain("patient")
        self.create("hasty", [component("twice", "double", input={"x": "$input.x"})], timeout=1)
        replies = []
        callers = [threading.Thread(target=lambda: replies.append(self.worker.invoke("hasty", self.rows(1)))),
                   threading.Thread(target=lambda: replies.append(self.worker.invoke("patient", self.rows(2))))]
        for each in callers:
            each.start()
            time.sleep(0.2)
        for each in callers:
            each.join()
        self.assertEqual(replies[0].json.get("errorType"), "Sandbox.Timeout", replies[0].json)
        self.assertEqual(replies[1].json["y"]["data"], [6 * (2 + i) for i in range(4)])
        self.assert_nothing_left()

    def test_what_a_batch_hands_on_stays_on_the_device(self):
        self.create("large", [component("twice", "large_double", input={"x": "$input.x"}),
                              component("six", "large_triple", input={"x": "$twice.y"})], {"y": "$six.y"})
        kept = self.worker.metric('lambent_object_keeps_total{event="kept"')
        with Client(self.worker.endpoint) as client:
            given = [client.put(array.array("f", [value]) * (1 << 19), "FP32", (1, 1 << 19)) for value in (1, 5)]
            replies = self.at_once("large", [{"x": {"object": x.id, "datatype": "FP32", "shape": [1, 1 << 19]}} for x in given])
            for reply, value in zip(replies, (1, 5)):
                made = self.worker.request("GET", "/v1/objects/" + reply.json["y"]["object"])
                self.assertEqual(set(array.array("f", made.body)), {6.0 * value})
                self.worker.request("DELETE", "/v1/objects/" + reply.json["y"]["object"])
            for x in given:
                self.worker.request("DELETE", "/v1/objects/" + x.id)
        self.assertEqual(self.batched("large_double"), (1, 2))
        self.assertEqual(self.worker.metric('lambent_object_keeps_total{event="kept"') - kept, 2)
        self.assertEqual(self.worker.metric('lambent_object_keeps_total{event="avoided"'), 2)
        self.assert_nothing_left()
