"""Requests to a model that are wrong, or sent in an unusual way, as bytes of HTTP to a running worker: each gets an error of the Open Inference
Protocol's own form that names what is wrong, and the model goes on."""
import gzip
import http.client
import json
import struct
import unittest
import zlib

import numpy as np

from model_worker import WEIGHTS, ModelWorkerTest, deploy_model, matrix_model

VALUES = [1.0, 2.0, 3.0, 4.0]
ANSWER = (np.array(VALUES, np.float32) @ WEIGHTS).tolist()


def request(*inputs, **more):
    return json.dumps({"inputs": list(inputs), **more}).encode()


def x(**fields):
    return {"name": "x", "datatype": "FP32", "shape": [1, 4], **fields}


PLAIN = request(x(data=VALUES))
RAW = struct.pack("4f", *VALUES)
BINARY = request(x(parameters={"binary_data_size": 16}))
LENGTH = "Inference-Header-Content-Length"


class ModelRequestsTest(ModelWorkerTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        deploy_model(cls.worker, cls.folder / "scores.onnx", matrix_model(WEIGHTS))

    def ask(self, body, headers=(), chunks=None):
        """(status, the answer's JSON). chunks: of a body of unknown length, each so many bytes."""
        connection = http.client.HTTPConnection(*self.worker.address, timeout=60)
        try:
            sent = (body[at:at + chunks] for at in range(0, len(body), chunks)) if chunks else body
            connection.request("POST", "/v2/models/scores/infer", sent, dict(headers), encode_chunked=bool(chunks))
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def assert_answered(self, answer):
        self.assertEqual(answer[0], 200, answer[1])
        np.testing.assert_allclose(answer[1]["outputs"][0]["data"], ANSWER)

    def test_bodies_come_whole_in_chunks_and_compressed(self):
        self.assert_answered(self.ask(PLAIN))
        self.assert_answered(self.ask(PLAIN, {"Transfer-Encoding": "chunked"}, chunks=7))
        self.assert_answered(self.ask(gzip.compress(PLAIN), {"Content-Encoding": "gzip"}))
        self.assert_answered(self.ask(zlib.compress(PLAIN), {"Content-Encoding": "deflate", "Transfer-Encoding": "chunked"}, chunks=9))
        self.assert_answered(self.ask(BINARY + RAW, {LENGTH: str(len(BINARY))}))
        self.assert_answered(self.ask(BINARY + RAW, {LENGTH: str(len(BINARY)), "Transfer-Encoding": "chunked"}, chunks=11))
        # Of a compressed body the header counts what comes out.
        self.assert_answered(self.ask(gzip.compress(BINARY + RAW), {LENGTH: str(len(BINARY)), "Content-Encoding": "gzip"}))

    def test_what_is_wrong_is_named(self):
        n = len(BINARY)
        whole = gzip.compress(PLAIN)
        for words, body, headers in (
                ("the body has", BINARY + RAW, {LENGTH: str(n + 17)}),
                ("Inference-Header-Content-Length is a number", BINARY + RAW, {LENGTH: "-1"}),
                ("Inference-Header-Content-Length is a number", BINARY + RAW, {LENGTH: "9" * 30}),
                ("JSON", BINARY + RAW, {LENGTH: str(n - 1)}),
                ("JSON", BINARY + RAW, {}),
                ("input 'x'.*12 bytes are left", BINARY + RAW[:12], {LENGTH: str(n)}),
                ("4 bytes behind the JSON", BINARY + RAW + b"more", {LENGTH: str(n)}),
                ("input 'x' is missing", request(), {}),
                ("input 'x': it is there twice", request(x(data=VALUES), x(data=VALUES)), {}),
                ("no such input", request(x(data=VALUES), {**x(data=VALUES), "name": "w"}), {}),
                ("output 'scores' is there twice", request(x(data=VALUES), outputs=[{"name": "scores"}, {"name": "scores"}]), {}),
                ("no such output", request(x(data=VALUES), outputs=[{"name": "w"}]), {}),
                ("shape is", request({**x(data=[]), "shape": [2**62, 4]}), {}),
                ("shape is", request({**x(data=[]), "shape": [2**63 - 1, 2**63 - 1]}), {}),
                ("whole number", request({**x(data=VALUES), "shape": [-1, 4]}), {}),
                ("no FP32", request(x(data=[1, "2", 3, 4])), {}),
                ("not compressed as", whole[:-9], {"Content-Encoding": "gzip"}),
                ("not compressed as", PLAIN, {"Content-Encoding": "gzip"}),
                ("br", PLAIN, {"Content-Encoding": "br"}),
                ("nested", b"[" * 5000, {})):
            with self.subTest(words, headers=headers):
                status, answer = self.ask(body, headers)
                self.assertTrue(400 <= status < 500, (status, answer))
                self.assertEqual(list(answer), ["error"])
                self.assertRegex(answer["error"], words)
        self.assert_answered(self.ask(PLAIN))

    def test_a_small_body_that_becomes_a_huge_one_is_refused(self):
        sandbox = [each["id"] for each in self.worker.sandboxes() if each["function"] == "scores"]
        status, answer = self.ask(gzip.compress(b" " * (400 << 20), 1), {"Content-Encoding": "gzip"})
        self.assertEqual((status, answer), (400, {"error": "the body is more than 256 MiB once it is decompressed"}))
        self.assert_answered(self.ask(PLAIN))
        # By the same process: it is not ended, and neither are other requests in it.
        self.assertEqual([each["id"] for each in self.worker.sandboxes() if each["function"] == "scores"], sandbox)


if __name__ == "__main__":
    unittest.main()
