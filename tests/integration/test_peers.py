"""Objects of one node, wanted on another: the same calls find them, wherever they are."""
import shutil
import tempfile
import threading
import time
import unittest

from harness import HttpError, Worker

SIZE = """
from lambent import objects

def handler(event, context):
    return {"bytes": len(objects.get(event["object"]))}
"""
SLOW = """
import time
def handler(event, context):
    time.sleep(event["seconds"])
    return "made"
"""


class Peers(unittest.TestCase):
    def setUp(self):
        self.far = Worker(gpu="none")
        self.addCleanup(self.far.close)
        self.near = Worker("--peer", self.far.endpoint, gpu="none")
        self.addCleanup(self.near.close)

    def put(self, content, query=""):
        return self.far.request("POST", "/v1/objects" + query, content).json["object"]

    def status_of(self, worker, name):
        """What a worker answers that has no such object."""
        with self.assertRaises(HttpError) as caught:
            worker.request("GET", f"/v1/objects/{name}")
        return caught.exception.status

    def test_clients_get_them_with_their_type_and_once(self):
        name = self.put(bytes(range(8)) * 3, "?datatype=FP32&shape=2,3")
        for _ in range(2):
            got = self.near.request("GET", f"/v1/objects/{name}")
            self.assertEqual(got.body, bytes(range(8)) * 3)
            self.assertEqual((got.headers["x-lambent-datatype"], got.headers["x-lambent-shape"]), ("FP32", "[2,3]"))
            # It is here by now: the second time nobody is asked.
            self.far.kill()
        self.assertEqual([each["object"] for each in self.near.request("GET", "/v1/objects").json["objects"]], [name])

    def test_large_and_empty_ones_come_too(self):
        large = bytes(range(256)) * (40 << 12)  # 40 MiB, in three parts
        name = self.put(large)
        self.assertEqual(self.near.request("GET", f"/v1/objects/{name}").body, large)
        empty = self.put(b"")
        self.assertEqual(self.near.request("GET", f"/v1/objects/{empty}").body, b"")

    def test_functions_use_them_without_knowing(self):
        name = self.put(b"x" * 1000)
        self.near.create_python("size", SIZE)
        self.assertEqual(self.near.invoke("size", {"object": name}).json, {"bytes": 1000})
        other = self.put(b"y" * 10)
        needed = self.near.invoke("size", {"object": other}, headers={"X-Lambent-Needs": other})
        self.assertEqual(needed.json, {"bytes": 10})

    def test_what_is_still_being_made_there_is_waited_for(self):
        self.far.create_python("slow", SLOW)
        future = self.far.request("POST", "/v1/functions/slow/invocations", b'{"seconds": 1}').json
        name = future["outputs"][0] if "outputs" in future else future["objects"][0]
        self.assertEqual(self.near.request("GET", f"/v1/objects/{name}").body, b'"made"')

    def test_what_is_nowhere_is_not_found_and_can_come_later(self):
        name = "00000000-0000-4000-8000-000000000001.0"
        self.near.create_python("size", SIZE)
        self.assertEqual(self.status_of(self.near, name), 404)
        with self.assertRaises(HttpError) as caught:
            self.near.invoke("size", {"object": name}, headers={"X-Lambent-Needs": name})
        self.assertIn(b"no node has object", caught.exception.body)
        self.far.request("PUT", f"/v1/objects/{name}", b"late")
        self.assertEqual(self.near.request("GET", f"/v1/objects/{name}").body, b"late")

    def test_two_nodes_that_ask_each_other_do_not_ask_for_ever(self):
        other = Worker("--peer", self.near.endpoint, gpu="none")
        self.addCleanup(other.close)
        name = self.put(b"far")
        self.assertEqual(self.near.request("GET", f"/v1/objects/{name}").body, b"far")
        self.assertEqual(other.request("GET", f"/v1/objects/{name}").body, b"far")
        self.assertEqual(self.status_of(other, "00000000-0000-4000-8000-000000000002.0"), 404)

    def test_nodes_in_a_circle_that_want_the_same_at_once_do_not_wait_for_each_other(self):
        folder = tempfile.mkdtemp(prefix="lambent-peers-")
        self.addCleanup(shutil.rmtree, folder, True)
        sockets = [f"unix:{folder}/{n}" for n in range(2)]
        nodes = []
        for own in sockets:  # each names both: the other, and itself
            flags = [flag for peer in sockets for flag in ("--peer", peer)]
            nodes.append(Worker("--socket", own.removeprefix("unix:"), *flags, gpu="none"))
            self.addCleanup(nodes[-1].close)
        name, begin, statuses = "00000000-0000-4000-8000-000000000004.0", time.monotonic(), []
        threads = [threading.Thread(target=lambda node=node: statuses.append(self.status_of(node, name)))
                   for node in nodes for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(statuses, [404] * 8)
        self.assertLess(time.monotonic() - begin, 20, "they waited for each other until a time-out")

    def test_a_worker_that_waits_for_a_peer_stops_all_the_same(self):
        self.far.create_python("slow", SLOW)
        future = self.far.request("POST", "/v1/functions/slow/invocations", b'{"seconds": 25}').json
        name = future["outputs"][0] if "outputs" in future else future["objects"][0]
        with self.assertRaises(TimeoutError):
            self.near.request("GET", f"/v1/objects/{name}", timeout=2)
        self.assertEqual(self.near.stop(), 0)
        self.far.kill()

    def test_many_at_once(self):
        names = [self.put(b"%d" % n) for n in range(60)]
        wrong = []

        def get(n):
            if self.near.request("GET", f"/v1/objects/{names[n]}").body != b"%d" % n:
                wrong.append(n)
        threads = [threading.Thread(target=get, args=(n,)) for n in range(60)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_a_node_that_is_gone_is_passed_by_and_said_to_be_gone(self):
        near = Worker("--peer", "http://127.0.0.1:1", "--peer", self.far.endpoint, gpu="none")
        self.addCleanup(near.close)
        name = self.put(b"x")
        self.assertEqual(near.request("GET", f"/v1/objects/{name}").body, b"x")
        self.assertEqual(self.status_of(near, "00000000-0000-4000-8000-000000000003.0"), 503)


if __name__ == "__main__":
    unittest.main()
