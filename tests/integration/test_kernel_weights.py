"""Constants of kernel functions that lie in volumes: what a package cannot hold, shared by functions and revisions, checked where it is
deployed and where it is loaded."""
import base64
import hashlib
import json
import struct
import time
import unittest

from harness import make_zip
from test_kernel_functions import MIB, KernelTest, bundle_files, floats, launch, tensor, unsigned


class WeightsTest(KernelTest):
    def volume(self, **files):
        name = self.id().rpartition(".")[2][:60].replace("test_", "")
        self.worker.request("PUT", f"/v1/volumes/{name}")
        for path, content in files.items():
            self.put(name, f"{path}.bin", content)
        return name

    def put(self, volume, path, content):
        self.worker.request("PUT", f"/v1/volumes/{volume}/files/{path}", content)

    @staticmethod
    def graph(file="/weights/w.bin", count=4):
        """y = x + w."""
        return {"buffers": [tensor("x", "in_out", [count]), tensor("w", "constant", [count], file=file)],
                "steps": [launch("add", {"buffer": "x", "access": "read_write"}, "w", unsigned(count), grid=(-(-count // 256),),
                                 block=(256,))]}

    def deploy(self, name, volume, graph=None, at="/weights"):
        self.create(name, graph or self.graph(), tags={"lambent:mounts": f"{volume}:{at}"})
        self.addCleanup(self.worker.delete, name)

    def sum(self, name):
        return self.outputs(self.ask(name, {"inputs": [{"name": "x", "data": [1, 2, 3, 4]}]}))["x"]["data"]

    def refused_in(self, volume, graph, at="/weights"):
        return self.refused(graph, tags={"lambent:mounts": f"{volume}:{at}"})

    def test_a_constant_is_read_where_the_function_mounts_it(self):
        volume = self.volume(w=floats(10, 20, 30, 40))
        self.deploy("adds", volume)
        self.assertEqual(self.sum("adds"), [11, 22, 33, 44])
        shown = self.worker.request("GET", "/v1/functions").json["functions"]
        self.assertEqual([each["mounts"] for each in shown if each["name"] == "adds"], [[{"volume": volume, "at": "/weights"}]])
        error = self.error_of(self.worker.request, "DELETE", f"/v1/volumes/{volume}")
        self.assertIn("is mounted by functions: adds", error.body.decode())

    def test_it_is_there_after_a_worker_that_was_killed(self):
        self.deploy("lasting", self.volume(w=floats(1, 1, 1, 1)))
        self.worker.kill()
        self.worker.start()
        self.assertEqual(self.sum("lasting"), [2, 3, 4, 5])

    def test_it_may_be_larger_than_a_package_and_functions_share_it(self):
        count = 16 * MIB  # 64 MiB of FP32, which a package of 50 cannot hold
        content = struct.pack("<f", 3.0) * count
        volume = self.volume(w=content)
        graph = self.graph(count=count)
        # The answer has what a kernel makes of its last numbers.
        graph["buffers"][0]["shape"] = [4]
        graph["steps"] = [launch("add", {"buffer": "x", "access": "read_write"}, {"buffer": "w", "offset_bytes": 4 * (count - 4)},
                                 unsigned(4), block=(32,))]
        for name in ("first", "second"):
            self.deploy(name, volume, graph)
            self.assertEqual(self.sum(name), [4, 5, 6, 7])
        # A reading may be a moment old, from before the second was loaded.
        time.sleep(2)
        self.worker.wait_for(lambda: self.device_memory_used() >= 64 * MIB, what="a reading with the weights")
        self.assertLess(self.device_memory_used(), 2 * 64 * MIB, "one copy of both")

    def device_memory_used(self):
        return max(float(line.rpartition(" ")[2]) for line in self.worker.metrics().splitlines()
                   if line.startswith("lambent_gpu_memory_bytes{") and 'kind="used"' in line)

    def test_another_revision_has_other_weights_and_a_roll_back_those_of_before(self):
        volume = self.volume(w=floats(1, 1, 1, 1), v=floats(2, 2, 2, 2))
        self.deploy("rolled", volume)
        self.assertEqual(self.sum("rolled"), [2, 3, 4, 5])
        self.worker.request("PUT", "/2015-03-31/functions/rolled/code", json.dumps({"ZipFile": self.package(self.graph("/weights/v.bin"))}))
        self.worker.wait_for(lambda: self.sum("rolled") == [3, 4, 5, 6], what="the second revision")
        self.worker.request("POST", "/v1/functions/rolled/rollback", "{}")
        self.worker.wait_for(lambda: self.sum("rolled") == [2, 3, 4, 5], what="the first one again")

    @staticmethod
    def package(graph):
        return base64.b64encode(make_zip({"graph.json": json.dumps(graph), **bundle_files()})).decode()

    def test_what_is_wrong_is_told_with_its_place_when_it_is_deployed(self):
        volume = self.volume(w=floats(1, 2, 3))
        place = "graph.json: buffers[1] ('w').file"
        for graph, at, words in (
                (self.graph("/weights/none.bin"), "/weights", f"{place}: open /weights/none.bin: "),
                (self.graph(), "/weights", f"{place}: '/weights/w.bin' has 12 bytes, FP32 [4] has 16"),
                (self.graph("/other/w.bin"), "/weights", f"{place}: '/other/w.bin' is in no volume that the function mounts"),
                (self.graph("/weights2/w.bin"), "/weights", f"{place}: '/weights2/w.bin' is in no volume that the function mounts"),
                (self.graph("/weights/../w.bin"), "/weights", "'/weights/../w.bin' is neither in the package nor in a mount")):
            with self.subTest(words):
                said = self.refused_in(volume, graph, at)
                self.assertIn(words, said)
                self.assertNotIn("/state/", said, "where volumes lie is not told")
        self.assertIn("mounts volumes only", self.refused_in("/tmp", self.graph()))
        error = self.error_of(self.create, "refused", self.graph(), None, {"lambent:mounts": "nowhere:/weights"})
        self.assertIn("volume 'nowhere' does not exist", error.body.decode())

    def test_a_file_that_went_is_told_when_the_function_starts(self):
        volume = self.volume(w=floats(1, 1, 1, 1))
        self.deploy("later", volume)
        self.worker.request("DELETE", f"/v1/volumes/{volume}/files/w.bin")
        failure = self.failure("later", {"inputs": [{"name": "x", "data": [1, 2, 3, 4]}]})
        self.assertEqual(failure["errorType"], "Runtime.InvalidEntrypoint", failure)
        self.assertIn("open /weights/w.bin: ", failure["errorMessage"])
        self.put(volume, "w.bin", floats(1, 1, 1))
        failure = self.failure("later", {"inputs": [{"name": "x", "data": [1, 2, 3, 4]}]})
        self.assertIn("'/weights/w.bin' has 12 bytes, FP32 [4] has 16", failure["errorMessage"])
        self.put(volume, "w.bin", floats(5, 5, 5, 5))
        self.assertEqual(self.sum("later"), [6, 7, 8, 9])

    def test_a_graph_that_comes_with_a_request_has_none(self):
        volume = self.volume(w=floats(1, 1, 1, 1))
        self.deploy("beside", volume)
        content = make_zip({"graph.json": json.dumps(self.graph()), **bundle_files()})
        digest = hashlib.sha256(content).hexdigest()
        error = self.error_of(self.worker.request, "PUT", f"/v1/graphs/{digest}", content)
        self.assertIn("is in no volume that the function mounts", error.body.decode())


if __name__ == "__main__":
    unittest.main()
