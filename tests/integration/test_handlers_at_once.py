"""Several invocations at once in one sandbox of a Python handler (`concurrency`)."""
import concurrent.futures
import json
import unittest

from harness import HttpError, WorkerTest, make_zip

HANDLER = """
import asyncio, logging, os, threading, time
logging.getLogger().setLevel("INFO")
together = threading.Barrier(4)
PROCESS = os.urandom(8).hex()

class Błąd(Exception):
    def __str__(self):
        raise RuntimeError("it says nothing")

def handler(event, context):
    what = event.get("do")
    if what == "meet":
        together.wait(20)
    elif what == "log":
        together.wait(20)
        logging.info("said by %s", context.aws_request_id)
    elif what == "raise":
        together.wait(20)
        if event["number"] == 2:
            raise ValueError("the second")
    elif what == "raise oddly":
        together.wait(20)
        if event["number"] == 2:
            raise Błąd()
    elif what == "hang":
        time.sleep(event["s"])
    elif what == "exit":
        together.wait(20)
        if event["number"] == 2:
            raise SystemExit("the process is to end")
        time.sleep(20)
    elif what == "stream":
        return pieces()
    return {"process": PROCESS, "id": context.aws_request_id, "number": event.get("number"), "trace": os.environ.get("_X_AMZN_TRACE_ID")}

def pieces():
    for word in ("a", "b", "c"):
        together.wait(20)
        yield word
"""
COROUTINE = """
import asyncio, os
PROCESS = os.urandom(8).hex()
waiting = []
loops = set()

async def handler(event, context):
    loops.add(id(asyncio.get_running_loop()))
    if event.get("do") == "hang":
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            print("cancelled", context.aws_request_id)
            raise
    mine = asyncio.get_running_loop().create_future()
    waiting.append(mine)
    if len(waiting) == 4:
        for each in waiting:
            each.set_result(None)
        waiting.clear()
    await mine
    return {"process": PROCESS, "loops": len(loops)}
"""


class HandlersAtOnceTest(WorkerTest):
    def create_shared(self, name, source=HANDLER, concurrency=4, timeout=30, **tags):
        self.worker.create(name, make_zip({"app.py": source}), timeout=timeout,
                           tags={"lambent:http-concurrency": str(concurrency), "lambent:max-concurrency": "1",
                                 **{"lambent:" + key.replace("_", "-"): str(value) for key, value in tags.items()}})

    def at_once(self, name, events):
        """The answers, or the errors, in order."""
        def ask(event):
            try:
                return self.worker.invoke(name, json.dumps(event).encode())
            except HttpError as error:
                return error

        with concurrent.futures.ThreadPoolExecutor(len(events)) as pool:
            return list(pool.map(ask, events))

    def log_of(self, name):
        return self.worker.request("GET", f"/v1/functions/{name}/log?offset=0").body.decode()

    def test_four_meet_in_one_process(self):
        self.create_shared("meet")
        answers = [answer.json for answer in self.at_once("meet", [{"do": "meet", "number": n} for n in range(4)])]
        self.assertEqual(len({answer["process"] for answer in answers}), 1)
        self.assertEqual(len({answer["id"] for answer in answers}), 4)
        self.assertEqual([answer["number"] for answer in answers], [0, 1, 2, 3], "each has its own answer")
        self.assertEqual({answer["trace"] for answer in answers}, {None}, "an environment is of all of them")
        # Again, as threads are kept; and a fifth one waits for a place.
        answers = [answer.json for answer in self.at_once("meet", [{"do": "meet", "number": n} for n in range(8)])]
        self.assertEqual(len({answer["process"] for answer in answers}), 1)

    def test_coroutines_share_a_loop(self):
        self.create_shared("coroutines", COROUTINE)
        answers = [answer.json for answer in self.at_once("coroutines", [{}] * 8)]
        self.assertEqual(len({answer["process"] for answer in answers}), 1)
        self.assertEqual({answer["loops"] for answer in answers}, {1})

    def test_a_record_of_the_log_names_its_own(self):
        self.create_shared("logs")
        answers = [answer.json for answer in self.at_once("logs", [{"do": "log"}] * 4)]
        log = self.log_of("logs")
        for answer in answers:
            line = next(line for line in log.splitlines() if line.endswith("said by " + answer["id"]))
            self.assertEqual(line.split("\t")[2], answer["id"])

    def test_one_that_raises_leaves_the_others(self):
        self.create_shared("raises")
        for what, name in (("raise", "ValueError"), ("raise oddly", "Błąd")):
            answers = self.at_once("raises", [{"do": what, "number": n} for n in range(4)])
            failed = [answer for answer in answers if answer.headers.get("x-amz-function-error")]
            self.assertEqual([answer.json["errorType"] for answer in failed], [name])
            self.assertEqual(len({answer.json["process"] for answer in answers if answer not in failed}), 1)

    def test_streams_side_by_side(self):
        self.create_shared("streams")
        self.assertEqual({answer.body for answer in self.at_once("streams", [{"do": "stream"}] * 4)}, {b"abc"})

    def test_one_that_takes_too_long_leaves_the_others_and_its_place(self):
        self.create_shared("late", timeout=3)
        before = self.at_once("late", [{"do": "meet"}] * 4)[0].json["process"]
        answers = self.at_once("late", [{"do": "hang", "s": 12}, {"do": "hang", "s": 2}])
        self.assertIn("Sandbox.Timeout", answers[0].body.decode())
        self.assertEqual(answers[1].json["process"], before)
        # The thread of the first still sleeps, and four have room all the same.
        self.worker.wait_for(lambda: self.at_once("late", [{}])[0].json["process"] == before, what="it answers again")
        answers = [answer.json for answer in self.at_once("late", [{"do": "meet"}] * 4)]
        self.assertEqual({answer["process"] for answer in answers}, {before})

    def test_a_coroutine_that_takes_too_long_is_cancelled(self):
        self.create_shared("patient", COROUTINE, concurrency=5, timeout=3)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            late = pool.submit(self.at_once, "patient", [{"do": "hang"}])
            answers = self.at_once("patient", [{}] * 4)
            self.assertEqual(len({answer.json["process"] for answer in answers}), 1)
            answer = late.result()[0]
        self.assertIn("Sandbox.Timeout", answer.body.decode())
        self.worker.wait_for(lambda: "cancelled " + answer.headers["x-amzn-requestid"] in self.log_of("patient"), what="cancelled")

    def test_one_that_is_cancelled_leaves_the_others(self):
        self.create_shared("cancelled", concurrency=5)
        gone = self.worker.invoke("cancelled", b'{"do": "hang", "s": 60}', kind="Event").headers["x-amzn-requestid"]
        self.worker.wait_for(lambda: [each["in_flight"] for each in self.worker.sandboxes() if each["function"] == "cancelled"] == [1],
                             what="it runs")
        self.assertEqual(self.worker.request("POST", f"/v1/invocations/{gone}/cancel").json["was"], "running")
        self.worker.wait_for(lambda: self.worker.request("GET", f"/v1/invocations/{gone}").body.count(b"Invocation.Cancelled") == 1, what="its outcome")
        answers = self.at_once("cancelled", [{"do": "meet"}] * 4)
        self.assertEqual(len({answer.json["process"] for answer in answers}), 1)

    def test_one_that_is_cancelled_and_goes_on_leaves_its_place(self):
        self.create_shared("leaves", concurrency=4, timeout=60)
        gone = self.worker.invoke("leaves", b'{"do": "hang", "s": 60}', kind="Event").headers["x-amzn-requestid"]
        self.worker.wait_for(lambda: [each["in_flight"] for each in self.worker.sandboxes() if each["function"] == "leaves"] == [1],
                             what="it runs")
        self.worker.request("POST", f"/v1/invocations/{gone}/cancel")
        answers = self.at_once("leaves", [{"do": "meet"}] * 4)
        self.assertEqual(len({answer.json["process"] for answer in answers}), 1)

    def test_a_coroutine_that_exits_ends_the_process(self):
        self.create_shared("exits", """
import asyncio, os, sys
PROCESS = os.urandom(8).hex()
async def handler(event, context):
    await asyncio.sleep(0)
    if event.get("do") == "exit":
        sys.exit("the process is to end")
    return PROCESS
""")
        before = self.worker.invoke("exits").json
        self.assertEqual(self.worker.invoke("exits", b'{"do": "exit"}').json["errorType"], "Runtime.ExitError")
        self.assertNotEqual(self.worker.invoke("exits").json, before)

    def test_a_process_that_ends_fails_all_that_are_in_it(self):
        self.create_shared("ends")
        answers = self.at_once("ends", [{"do": "exit", "number": n} for n in range(4)])
        self.assertEqual([answer.json["errorType"] for answer in answers], ["Runtime.ExitError"] * 4)
        self.assertIn("the process is to end", self.log_of("ends"))
        self.assertEqual(len({answer.json["process"] for answer in self.at_once("ends", [{"do": "meet"}] * 4)}), 1)

    def test_what_has_no_sense_is_refused(self):
        for concurrency, tags, words in ((0, {}, "1 to 1000"), (101, {}, "1 to 100"),
                                         (2, {"gpu_memory": "64MiB", "gpu_runtime": "shared"}, "gpu runtime .{1,2}shared")):
            with self.assertRaisesRegex(HttpError, words):
                self.create_shared("wrong", concurrency=concurrency, **tags)

    def test_another_concurrency_is_another_sandbox(self):
        self.create_shared("changes", concurrency=1)
        first = self.worker.invoke("changes").json["process"]
        self.worker.tag("changes", {"lambent:http-concurrency": "4"})
        self.assertNotEqual(self.worker.invoke("changes").json["process"], first)
        self.assertEqual(len({answer.json["process"] for answer in self.at_once("changes", [{"do": "meet"}] * 4)}), 1)


if __name__ == "__main__":
    unittest.main()
