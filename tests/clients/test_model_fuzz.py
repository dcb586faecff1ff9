"""Files that are no models, or were changed on their way, by onnxruntime: its server answers or says why it does not, also through a worker
whose other models go on."""
import json
import os
import pathlib
import random
import select
import subprocess
import threading
import unittest
import urllib.error
import urllib.request

import numpy as np
import onnxruntime
import tritonclient.http as triton

import model_shapes
import onnx_mutations
from harness import PREFIX
from model_worker import WEIGHTS, ModelWorkerTest, deploy_model, lambent, matrix_model

SEED = int(os.environ.get("LAMBENT_SEED", "20261130"))
WHOLE = bool(os.environ.get("LAMBENT_WHOLE_TESTS"))
SERVER = PREFIX / "bin/lambent-model-server"
SHAPE = (2, 4)
REQUEST = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": SHAPE, "data": [0.5] * 8}]}).encode()


def net():
    """y = softmax(relu(x W + b)), and x in another shape."""
    made = model_shapes.Net()
    x = made.input("x", ["n", 4])
    y = made("Softmax", made("Relu", made("Gemm", x, made.weight(4, 3), made.weight(3))), axis=-1)
    return made.model(y=y, same=made("Reshape", x, made.constant(np.array([-1, 2, 2])))).SerializeToString()


def ask(address, path, body=None):
    """The status and what the answer's JSON says."""
    request = urllib.request.Request(address + path, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def files(count):
    """Each with how it was made. One is whole."""
    whole, chance = net(), random.Random(SEED)
    yield "whole", whole
    yield "empty", b""
    for number in range(count):
        how = chance.choice((onnx_mutations.changed, onnx_mutations.changed, onnx_mutations.cut))
        yield f"LAMBENT_SEED={SEED}, file {number}, {how.__name__}", how(whole, chance)


class ForeignModelsTest(ModelWorkerTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        deploy_model(cls.worker, cls.folder / "neighbour.onnx", matrix_model(WEIGHTS))

    def serve(self, path):
        """What the server prints first, its address, and what it says and how it ends, if it does."""
        library = next((pathlib.Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so*"))
        with open(self.folder / "said", "w+", encoding="utf-8", errors="replace") as said:
            server = subprocess.Popen([str(SERVER), str(path), "--onnxruntime", str(library), "--threads", "1", "--name", "m", "--port", "0"],
                                      stdout=subprocess.PIPE, stderr=said)
            try:
                self.assertTrue(select.select([server.stdout], [], [], 60)[0], "it neither serves nor ends")
                if server.stdout.readline():
                    return server.poll(), ""
                code = server.wait(60)
                said.seek(0)
                return code, said.read()
            finally:
                server.kill()
                server.wait()
                server.stdout.close()

    def test_a_server_serves_or_says_why_it_does_not(self):
        outcomes = []
        for what, content in files(200 if WHOLE else 40):
            path = self.folder / "foreign.bin"
            path.write_bytes(content)
            code, said = self.serve(path)
            outcomes.append(code)
            with self.subTest(what):
                self.assertIn(code, (None, 1), said)
                if code == 1:
                    self.assertRegex(said, r"(?m)^lambent-model-server: .*foreign\.bin.{10,}")
        self.assertIsNone(outcomes[0])
        self.assertIn(1, outcomes)

    def test_through_a_worker_clients_are_told_and_other_models_go_on(self):
        client = triton.InferenceServerClient(self.worker.endpoint.removeprefix("http://"))
        self.addCleanup(client.close)
        values = np.random.default_rng(1).random(SHAPE, dtype=np.float32)
        given = triton.InferInput("x", SHAPE, "FP32")
        given.set_data_from_numpy(values)
        stop, wrong, answered = threading.Event(), [], []

        def go_on():
            while not stop.is_set():
                try:
                    scores = client.infer("neighbour", [given]).as_numpy("scores")
                    answered.append(np.allclose(scores, values @ WEIGHTS, rtol=1e-5))
                except Exception as error:
                    wrong.append(error)
                stop.wait(0.05)
        neighbour = threading.Thread(target=go_on)
        neighbour.start()
        try:
            statuses = [self.through_the_worker(what, content) for what, content in files(40 if WHOLE else 8)]
        finally:
            stop.set()
            neighbour.join()
        self.assertEqual((wrong, all(answered)), ([], True))
        self.assertGreater(len(answered), 10)
        self.assertEqual(statuses[0], 200)
        self.assertIn(502, statuses)

    def through_the_worker(self, what, content):
        path = self.folder / "foreign.onnx"
        path.write_bytes(content)
        deployed = lambent(self.worker, "deploy", path)
        status, answer = ask(self.worker.endpoint, "/v2/models/foreign/infer", REQUEST)
        with self.subTest(what):
            if deployed.returncode:
                self.assertGreater(len(deployed.stderr.strip()), 20)
            if status != 200:
                self.assertGreater(len(answer["error"]), 20)
                self.assertIn(status, (400, 404, 500, 502))
        return status


if __name__ == "__main__":
    unittest.main()
