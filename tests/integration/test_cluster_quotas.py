"""Quotas of a tenant hold for all nodes of a cluster together, and whichever node has the work has what the others do not use."""
import concurrent.futures
import json
import threading
import time
import unittest

from cluster_world import WITNESSED, Witness
from harness import HttpError
from test_cluster import Cluster


class ClusterQuotas(unittest.TestCase):
    def begin(self, *flags, **options):
        self.witness = Witness(self)
        self.cluster = Cluster(self, policy="random", flags=("--mount-allow", str(self.witness.folder), *flags), **options)
        self.cluster.wait_until_up()

    def limit(self, **quotas):
        """The default tenant, at the home; the other nodes copy that."""
        self.cluster["a"].request("PATCH", "/v1/tenants/default", json.dumps({"quotas": quotas}))

        def is_there(name):
            listed = self.cluster[name].request("GET", "/v1/tenants").json["tenants"]
            has = next(each for each in listed if each["name"] == "default")["quotas"]
            return all(has[key] == value for key, value in quotas.items())
        for name in "abc":
            self.cluster.wait_for(lambda name=name: is_there(name))
        self.hear()

    def hear(self):
        time.sleep(2.5)  # each node asks each other one once a second

    def burst(self, names, prefix, count, seconds):
        """The most runs at once, of requests that all came in one moment; each is answered."""
        answers = []

        def ask(number):
            run = f"{prefix}-{number}"
            answers.append(self.cluster[names[number % len(names)]].invoke("work", {"id": run, "seconds": seconds}, timeout=120).json)
        threads = [threading.Thread(target=ask, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        most = 0
        while any(thread.is_alive() for thread in threads):
            begun, ended = dict(self.witness.begun), dict(self.witness.ended)
            most = max(most, sum(begun.values()) - sum(ended.values()))
            time.sleep(0.01)
        self.assertEqual(len(answers), count)
        return most

    def test_invocations_of_all_nodes_together_keep_to_the_concurrency(self):
        self.begin()
        self.cluster["a"].create_python("work", WITNESSED, tags=self.witness.tags)
        for name in "abc":
            self.cluster.wait_for(lambda name=name: self.cluster[name].request("GET", "/v1/functions").json["functions"])
        self.limit(concurrency=3)
        # A node may have one more than its part while others hear of it.
        self.assertLessEqual(self.burst("abc", "all", 24, 0.4), 5)
        # One node has all of it while the others have no work.
        for name in "bc":
            self.cluster[name].request("POST", f"/v1/cluster/nodes/{name}/drain")
        self.hear()
        self.assertEqual(self.burst("a", "one", 15, 1.0), 3)

    def test_requests_through_all_nodes_together_keep_to_the_rate(self):
        self.begin()
        self.limit(requests_per_second=40)

        def send(names, seconds):
            """Requests that were taken, of as many as can be sent, and how long that was."""
            taken, lock, end = [0], threading.Lock(), time.monotonic() + seconds

            def ask(name):
                while time.monotonic() < end:
                    try:
                        self.cluster[name].request("GET", "/v1/functions")
                    except HttpError as error:
                        self.assertEqual((error.status, "requests_per_second" in error.body.decode()), (429, True))
                        time.sleep(0.005)
                        continue
                    with lock:
                        taken[0] += 1
            begin = time.monotonic()
            with concurrent.futures.ThreadPoolExecutor(len(names)) as pool:
                list(pool.map(ask, names))  # raises what any of them did
            return taken[0], time.monotonic() - begin

        taken, elapsed = send("abc", 6)
        # Each bucket has a second's worth, which may have been that of a larger part before.
        self.assertLessEqual(taken, 40 * (elapsed + 3))
        # A part for each node, whatever comes there, would be a third of that.
        self.hear()
        send("a", 2)
        taken, elapsed = send("a", 4)
        self.assertGreater(taken, 40 * elapsed / 2)

    def test_objects_of_all_nodes_together_keep_to_their_quota(self):
        self.begin()
        self.limit(object_bytes=4 << 20)

        def put(name):
            try:
                return self.cluster[name].request("POST", "/v1/objects", bytes(3 << 20)).json["object"]
            except HttpError as error:
                return error.status
        first = put("a")
        self.assertIsInstance(first, str)
        self.hear()
        self.assertEqual([put(name) for name in "bc"], [429, 429])
        self.cluster["a"].request("DELETE", f"/v1/objects/{first}")
        self.cluster.wait_for(lambda: isinstance(put("b"), str))

    def test_gpu_time_of_all_nodes_together_keeps_to_its_quota(self):
        self.begin(gpu="emulated:tiny")
        self.cluster["a"].create_python("work", WITNESSED, tags={**self.witness.tags, "lambent:gpu-memory": "8M"})
        for name in "abc":
            self.cluster.wait_for(lambda name=name: self.cluster[name].request("GET", "/v1/functions").json["functions"])
        self.limit(gpu_seconds_per_hour=4)
        for name in "bc":
            self.cluster[name].request("POST", f"/v1/cluster/nodes/{name}/drain")
        self.hear()
        self.cluster["a"].invoke("work", {"id": "first", "seconds": 5})
        self.cluster["a"].request("POST", "/v1/cluster/nodes/a/drain")
        for name in "bc":
            self.cluster[name].request("POST", f"/v1/cluster/nodes/{name}/undrain")
        self.hear()
        # What a run takes counts when it has ended: each node runs one, and takes no more within the hour.
        refused = []
        for number, name in enumerate("bc" * 6):
            try:
                self.cluster[name].invoke("work", {"id": f"next-{number}", "seconds": 0.2})
            except HttpError as error:
                refused.append((error.status, b"gpu_time_per_hour" in error.body))
        self.assertGreaterEqual(len(refused), 10)
        self.assertEqual(set(refused), {(429, True)})
        self.assertLessEqual(sum(self.witness.begun.values()), 3)


if __name__ == "__main__":
    unittest.main()
