"""Objects and functions that need each other's: over HTTP, the object socket, boto3's way and inside handlers."""
import array
import contextlib
import json
import os
import sys
import threading
import unittest

from harness import PREFIX, Worker, WorkerTest

sys.path.insert(0, str(PREFIX / "share/lambent/python"))
from lambent.client import Client, ObjectRef  # noqa: E402
from lambent.errors import LambentError  # noqa: E402

ADD = """
import array
from lambent import objects

def handler(event, context):
    total = event.get("plus", 0)
    for reference in event["of"]:
        tensor = objects.get(reference)
        if tensor.datatype == "BYTES":
            import json
            total += json.loads(bytes(tensor))["sum"]
        else:
            total += sum(array.array("f", bytes(tensor)))
    if event.get("fail"):
        raise ValueError("seven is no prime")
    return {"sum": total, "object": objects.put(array.array("f", [total]).tobytes(), "FP32", (1,))["object"]}
"""
PROBE = """
from lambent import objects
from lambent.errors import LambentError

def handler(event, context):
    try:
        return {"bytes": len(objects.get(event, wait=event.get("wait", 0)))}
    except LambentError as error:
        return {"code": error.code}
"""


def large_files(folder):
    """Of 10 MiB and more; one that goes meanwhile is gone."""
    found = []
    for each in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            if each.stat().st_size >= 10 << 20:
                found.append(each)
    return found


class Objects(WorkerTest):
    gpu = "none"
    flags = ("--object-memory", "64M", "--object-disk", "256M", "--object-quota", "300M")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.worker.create_python("add", ADD, tags={"lambent:max-queue-time": "60"})
        cls.worker.create_python("probe", PROBE)

    def setUp(self):
        self.client = Client(self.worker.endpoint)
        self.addCleanup(self.client.close)

    def code_of(self, call, *arguments):
        with self.assertRaises(LambentError) as caught:
            call(*arguments)
        return caught.exception.code

    def test_an_object_goes_in_one_way_and_out_the_other(self):
        over_http = Client(self.worker.endpoint, local=False)
        self.addCleanup(over_http.close)
        self.assertTrue(self.client.local)
        self.assertFalse(over_http.local)
        numbers = array.array("f", [1.5, 2.5, 3.5, 4.5])
        for source, target in [(self.client, over_http), (over_http, self.client)]:
            reference = source.put(numbers, "FP32", (2, 2))
            tensor = target.get(reference)
            self.assertEqual((tensor.datatype, tensor.shape), ("FP32", (2, 2)))
            self.assertEqual(bytes(tensor), numbers.tobytes())
            reference_again = ObjectRef(source, reference.id)
            source.remove(reference_again)
            self.assertEqual(self.code_of(target.get, reference), "NOT_FOUND")

    def test_memory_that_is_shared_cannot_be_written(self):
        tensor = self.client.get(self.client.put(b"x" * 4096))
        self.assertTrue(tensor.data.readonly)
        self.assertEqual(bytes(self.client.get(self.client.put(b""))), b"")

    def test_large_objects_come_over_http_in_parts(self):
        data = os.urandom(1 << 20) * 65
        with Worker_with("--object-memory", "200M") as worker:
            local, far = Client(worker.endpoint), Client(worker.endpoint, local=False)
            reference = local.put(data)
            self.assertEqual(bytes(far.get(reference)), data)
            self.assertEqual(self.code_of(far.put, data), "OUT_OF_RANGE")
            local.close()
            far.close()

    def test_a_graph_of_functions_runs_through_references(self):
        add = self.client.function("add")
        x = self.client.put(array.array("f", [1, 2, 3]), "FP32")
        first = add.remote(of=[x], plus=4)
        second = add.remote(of=[x, first])
        third = add.remote({"of": [first, second, {"object": x.id}]})
        # What is referred to by hand is there, and needs no waiting for.
        self.assertEqual(third.json(30)["sum"], 10 + 16 + 6)
        made = third.json()["object"]
        self.assertEqual(array.array("f", bytes(self.client.get(made)))[0], 32)

    def test_many_that_wait_for_one_run_when_it_is_there(self):
        add = self.client.function("add")
        root = add.remote(of=[], plus=1)
        leaves = [add.remote(of=[root], plus=i) for i in range(50)]
        self.assertEqual([leaf.json(60)["sum"] for leaf in leaves], [1 + i for i in range(50)])

    def test_a_failure_is_told_to_the_end_of_the_chain(self):
        add = self.client.function("add")
        bad = add.remote(of=[], fail=True)
        after = add.remote(of=[bad])
        last = add.remote(of=[after])
        with self.assertRaises(LambentError) as caught:
            last.get(30)
        message = str(caught.exception)
        self.assertIn("function 'add' failed: needs %s: function 'add' failed: needs %s: function 'add' failed: "
                      % (after.id, bad.id), message)
        self.assertIn("seven is no prime", message)
        # Also for those that come later, and by every way in.
        self.assertIn("seven is no prime", self.error_of(
            self.worker.invoke, "add", {"of": []}, headers={"X-Lambent-Needs": bad.id}).body.decode())

    def test_lambdas_own_calls_can_wait_for_objects(self):
        import base64
        add = self.client.function("add")
        slow = add.remote(of=[], plus=5)
        reply = self.worker.invoke("add", {"of": [slow.id]}, headers={"X-Lambent-Needs": slow.id}).json
        self.assertEqual(reply["sum"], 5)
        context = base64.b64encode(json.dumps({"custom": {"lambent-needs": slow.id}}).encode()).decode()
        event = self.worker.invoke("add", {"of": [slow.id], "plus": 1}, kind="Event",
                                   headers={"X-Amz-Client-Context": context})
        path = "/v1/invocations/" + event.headers["x-amzn-requestid"]
        done = self.worker.wait_for(lambda: (lambda r: r if r.status == 200 else None)(
            self.worker.request("GET", path)), what="the event's result")
        self.assertEqual(done.json["sum"], 6)

    def test_what_is_not_known_is_refused_at_once(self):
        unknown = "00000000-0000-0000-0000-000000000001.0"
        self.assertEqual(self.error_of(self.worker.invoke, "add", headers={"X-Lambent-Needs": unknown}).status, 404)
        self.assertEqual(self.code_of(self.client.submit, "add", "{}", [unknown]), "NOT_FOUND")
        self.assertEqual(self.code_of(self.client.submit, "add", "{}", ["nonsense"]), "INVALID_ARGUMENT")
        self.assertEqual(self.code_of(self.client.submit, "nobody", "{}"), "NOT_FOUND")
        self.assertEqual(self.code_of(self.client.get, unknown), "NOT_FOUND")

    def test_handlers_wait_and_hear_errors_too(self):
        add = self.client.function("add")
        self.assertEqual(self.worker.invoke("probe", {"object": self.client.put(b"12345").id}).json, {"bytes": 5})
        self.assertEqual(self.worker.invoke("probe", {"object": "00000000-0000-0000-0000-000000000001.0"}).json,
                         {"code": "NOT_FOUND"})
        slow = add.remote(of=[], plus=1)
        answer = self.worker.invoke("probe", {"object": slow.id, "wait": 20}).json
        self.assertGreater(answer["bytes"], 0)

    def test_a_handler_makes_the_outputs_that_were_named(self):
        self.worker.create_python("two", "from lambent import objects\n"
                                  "def handler(event, context):\n"
                                  "    for i in event['make']:\n"
                                  "        objects.put(b'%d' % i, name='%s.%d' % (context.aws_request_id, i))\n"
                                  "    return 'the answer'\n")
        answer, second = self.client.submit("two", '{"make": [1]}', outputs=2)
        self.assertEqual((answer.json(30), bytes(second.get(30))), ("the answer", b"1"))
        first, missing = self.client.submit("two", '{"make": [0]}', outputs=2)
        self.assertEqual(bytes(first.get(30)), b"0")
        with self.assertRaises(LambentError) as caught:
            missing.get(30)
        self.assertIn("made fewer objects", str(caught.exception))

    def test_more_than_fits_into_memory_goes_to_disk_and_comes_back(self):
        parts = [(bytes([i]) * (10 << 20)) for i in range(12)]
        references = []
        for part in parts:
            while True:
                try:
                    references.append(self.client.put(part))
                    break
                except LambentError as error:
                    # The disk is behind: told so, one tries again.
                    self.assertTrue(error.retryable, error)
        metrics = self.worker.metrics()
        memory = float(next(line.split()[-1] for line in metrics.splitlines()
                            if line.startswith('lambent_object_bytes{place="memory"}')))
        self.assertLessEqual(memory, 96 << 20)
        for part, reference in zip(parts, references):
            self.assertEqual(bytes(self.client.get(reference)), part)
        for reference in references:
            self.client.remove(reference)
        # Small ones of other tests may lie there too.
        folder = self.worker.folder / "state/objects"
        self.worker.wait_for(lambda: not large_files(folder), what="a folder without what was removed")

    def test_a_quota_is_a_quota(self):
        big = self.client.put(b"q" * (60 << 20))
        others = []
        try:
            with self.assertRaises(LambentError) as caught:
                for _ in range(2000):
                    try:
                        others.append(self.client.put(b"q" * (30 << 20)))
                    except LambentError as error:
                        if "quota" in error.message:
                            raise
            self.assertEqual(caught.exception.code, "RESOURCE_EXHAUSTED")
        finally:
            for reference in [big, *others]:
                self.client.remove(reference)
        self.client.put(b"there is room again").remove()

    def test_a_get_waits_for_what_is_being_made(self):
        add = self.client.function("add")
        seen = []
        reference = add.remote(of=[], plus=3)

        def get():
            with Client(self.worker.endpoint) as client:
                seen.append(client.get(reference, 30))

        threads = [threading.Thread(target=get) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([json.loads(bytes(each))["sum"] for each in seen], [3] * 4)


class Worker_with:
    """A worker for a while."""

    def __init__(self, *flags):
        self.flags = flags

    def __enter__(self):
        self.worker = Worker(*self.flags, gpu="none")
        return self.worker

    def __exit__(self, *_):
        self.worker.close()


class Restart(unittest.TestCase):
    def test_objects_end_with_the_worker_and_say_so(self):
        with Worker_with() as worker:
            client = Client(worker.endpoint)
            reference = client.put(b"here today")
            self.assertTrue(client.local)
            worker.kill()
            worker.start()
            # The client of before connects again, and others know no more.
            for each in (client, Client(worker.endpoint)):
                with self.assertRaises(LambentError) as caught:
                    each.get(reference)
                self.assertEqual(caught.exception.code, "NOT_FOUND")
                self.assertIn("lost when the worker stopped", str(caught.exception))
                self.assertEqual(bytes(each.get(each.put(b"here again"))), b"here again")
                each.close()


if __name__ == "__main__":
    unittest.main()
