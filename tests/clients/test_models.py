"""Models by the Open Inference Protocol: Triton's own client (HTTP, blocking and asyncio), unmodified, and a real onnxruntime in a
real sandbox."""
import asyncio
import http.client
import json
import threading
import unittest

import ml_dtypes
import numpy as np
import onnxruntime
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from tritonclient.utils import InferenceServerException

from model_worker import (BRAINS, EVERY_TYPE, INT64, WEIGHTS, ModelWorkerTest, deploy_model, field, identity_model, lambent, large_model,
                          matrix_model, value_info)


class ModelsTest(ModelWorkerTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.said = deploy_model(cls.worker, cls.folder / "scores.onnx", matrix_model(WEIGHTS))
        deploy_model(cls.worker, cls.folder / "every type.onnx", identity_model(EVERY_TYPE))

    def client(self):
        client = triton.InferenceServerClient(self.worker.endpoint.removeprefix("http://"))
        self.addCleanup(client.close)
        return client

    @staticmethod
    def input_of(values, name="x", datatype="FP32", binary=True):
        given = triton.InferInput(name, values.shape, datatype)
        given.set_data_from_numpy(values, binary_data=binary)
        return given

    def test_deploying_a_file_tells_what_the_model_takes(self):
        self.assertIn("x FP32[-1,4] -> scores FP32[-1,3]", self.said)
        self.assertIn("/v2/models/scores", self.said)

    def test_what_shows_activity_knows_it_for_a_model(self):
        rows = {each["name"]: each for each in self.worker.request("GET", "/v1/activity/functions").json["functions"]}
        self.assertEqual((rows["scores"]["kind"], rows["scores"]["serves_model"]), ("http", True))

    def test_deploying_it_over_a_function_of_another_kind_is_told_of(self):
        folder = self.folder / "handler"
        folder.mkdir()
        (folder / "lambent.toml").write_text('name = "changing"\nruntime = "python3"\nhandler = "app.handle"\n')
        (folder / "app.py").write_text("def handle(event, context):\n    return 1\n")
        (self.folder / "changing.onnx").write_bytes(matrix_model(WEIGHTS))
        for what, kinds in ((folder, ""), (self.folder / "changing.onnx", "was of kind handler and is now of kind model"),
                            (folder, "was of kind model and is now of kind handler"), (folder, "")):
            deployed = lambent(self.worker, "deploy", what)
            self.assertEqual(deployed.returncode, 0, deployed.stderr)
            self.assertEqual("of kind" in deployed.stderr, bool(kinds))
            self.assertIn(kinds, deployed.stderr)

    def test_tritons_client_sees_the_server_and_the_model(self):
        client = self.client()
        self.assertTrue(client.is_server_live() and client.is_server_ready() and client.is_model_ready("scores"))
        self.assertEqual(client.get_server_metadata()["name"], "lambent")
        self.assertEqual(client.get_model_metadata("scores")["inputs"], [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}])
        self.assertEqual(client.get_model_config("scores")["input"][0]["data_type"], "TYPE_FP32")
        index = {each["name"]: each["state"] for each in client.get_model_repository_index()}
        self.assertEqual({name: index.get(name) for name in ("scores", "every-type")},
                         {"scores": "READY", "every-type": "READY"})
        with self.assertRaisesRegex(InferenceServerException, "there is no model 'none'"):
            client.unload_model("none")

    def test_what_a_client_unloaded_is_not_ready_until_it_is_wanted_again(self):
        client, values = self.client(), np.ones((2, 4), dtype=np.float32)

        def state():
            return next((each["state"], each["reason"]) for each in client.get_model_repository_index() if each["name"] == "scores")
        for again in (lambda: client.load_model("scores"), lambda: client.infer("scores", [self.input_of(values)])):
            self.assertEqual((state(), client.is_model_ready("scores")), (("READY", ""), True))
            client.unload_model("scores")
            self.assertFalse(client.is_model_ready("scores"))
            self.worker.wait_for(lambda: state() == ("UNAVAILABLE", "unloaded"), what="the model to leave memory")
            self.assertFalse(client.is_model_ready("scores"))
            self.assertEqual([each["state"] for each in self.worker.sandboxes() if each["function"] == "scores" and each["state"] != "stopping"], [],
                             "to ask does not load it")
            again()
        self.assertEqual((state(), client.is_model_ready("scores")), (("READY", ""), True))

    def test_a_model_at_work_is_unloaded_once_it_has_answered(self):
        def states():
            return [each["state"] for each in self.worker.sandboxes() if each["function"] == "scores" and each["state"] != "stopping"]
        body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}).encode()
        connection = http.client.HTTPConnection(self.worker.endpoint.removeprefix("http://"), timeout=30)
        self.addCleanup(connection.close)
        connection.putrequest("POST", "/v2/models/scores/infer")
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders()
        connection.send(body[:10])
        self.worker.wait_for(lambda: states() == ["busy"], what="the model at work")
        self.client().unload_model("scores")
        self.assertEqual(states(), ["busy"])
        connection.send(body[10:])
        answer = connection.getresponse()
        self.assertEqual((answer.status, "outputs" in json.loads(answer.read())), (200, True))
        self.worker.wait_for(lambda: not states(), what="the model to leave memory")

    def test_a_model_that_starts_again_is_forked_from_a_process_that_has_the_library(self):
        def forked():
            return sum(float(line.split()[-1]) for line in self.worker.metrics().splitlines() if line.startswith("lambent_sandboxes_forked_total"))
        values = np.ones((2, 4), dtype=np.float32)
        client = self.client()
        first = client.infer("scores", [self.input_of(values)]).as_numpy("scores")
        self.worker.wait_for(lambda: '"zygote_ready"' in self.worker.log() or '"zygote_failed"' in self.worker.log(), what="a zygote")
        self.assertNotIn('"zygote_failed"', self.worker.log())
        client.unload_model("scores")
        self.worker.wait_for(lambda: not any(each["function"] == "scores" for each in self.worker.sandboxes()), what="the model to leave memory")
        before, log = forked(), "/v1/functions/scores/log?offset="
        end = self.worker.request("GET", log + "0").headers["x-lambent-next-offset"]
        np.testing.assert_array_equal(client.infer("scores", [self.input_of(values)]).as_numpy("scores"), first)
        self.assertEqual(forked(), before + 1)
        # What it says at its start comes into its own log.
        self.assertIn("model scores: x FP32[-1,4]", self.worker.request("GET", log + end).body.decode())

    def test_models_that_draw_random_numbers_draw_others_at_every_start(self):
        node = field(1, field(2, "r") + field(4, "RandomUniform") + field(5, field(1, "shape") + field(8, 8) + field(20, 7)))
        node += field(1, field(1, "x") + field(1, "r") + field(2, "y") + field(4, "Add"))
        graph = node + field(2, "draws") + field(11, value_info("x", ["n"])) + field(12, value_info("y", ["n"]))
        deploy_model(self.worker, self.folder / "draws.onnx", field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 16)))
        self.worker.wait_for(lambda: '"zygote_ready"' in self.worker.log() or '"zygote_failed"' in self.worker.log(), what="a zygote")
        client, drawn = self.client(), []
        for _ in range(3):
            client.unload_model("draws")
            self.worker.wait_for(lambda: not any(each["function"] == "draws" for each in self.worker.sandboxes()), what="the model to leave memory")
            drawn.append(tuple(client.infer("draws", [self.input_of(np.zeros(8, dtype=np.float32))]).as_numpy("y")))
        self.assertEqual(len(set(drawn)), 3, drawn)

    def test_answers_are_those_of_onnxruntime_itself(self):
        client, values = self.client(), np.random.default_rng(1).random((5, 4), dtype=np.float32)
        session = onnxruntime.InferenceSession(str(self.folder / "scores.onnx"))
        expected = session.run(None, {"x": values})[0]
        for binary in (True, False):
            for options in ({}, {"request_compression_algorithm": "gzip", "response_compression_algorithm": "deflate"},
                            {"outputs": [triton.InferRequestedOutput("scores", binary_data=binary)]}):
                result = client.infer("scores", [self.input_of(values, binary=binary)], request_id="7", **options)
                np.testing.assert_allclose(result.as_numpy("scores"), expected, rtol=1e-6)
                self.assertEqual(result.get_response()["id"], "7")
        self.assertEqual(client.infer("scores", [self.input_of(values[:0])]).as_numpy("scores").shape, (0, 3))
        # 8 MB in and 6 MB out: more than an invocation's payload may have.
        large = np.ones((500_000, 4), dtype=np.float32)
        np.testing.assert_allclose(client.infer("scores", [self.input_of(large)]).as_numpy("scores"), large @ WEIGHTS)

    def test_every_type_comes_back_as_it_went(self):
        texts = np.array(["", "a", "größer"], dtype=np.object_)
        half, flags = np.array([[1.5, -2]], dtype=np.float16), np.array([True, False])
        long = np.array([-(2**62), 2**62 + 1])
        result = self.client().infer("every-type", [
            self.input_of(texts, "text", "BYTES"), self.input_of(half, "half", "FP16"),
            self.input_of(long, "long", "INT64"), self.input_of(flags, "flag", "BOOL")])
        self.assertEqual([text.decode() for text in result.as_numpy("out_text")], list(texts))
        for name, values in (("out_half", half), ("out_long", long), ("out_flag", flags)):
            np.testing.assert_array_equal(result.as_numpy(name), values)

    def test_brain_floats_and_nothing_at_all_come_back_too(self):
        deploy_model(self.worker, self.folder / "brains.onnx", identity_model(BRAINS))
        brains = np.array([1.5, -2, 2.0**100, np.inf], dtype=ml_dtypes.bfloat16)
        for values in (brains, brains[:0]):
            result = self.client().infer("brains", [self.input_of(values, "brain", "BF16")])
            self.assertEqual(result.get_output("out_brain")["datatype"], "BF16")
            np.testing.assert_array_equal(result.as_numpy("out_brain"), values)
        nothing = np.array([], dtype=np.object_)
        result = self.client().infer("every-type", [
            self.input_of(nothing, "text", "BYTES"), self.input_of(np.zeros((0, 2), np.float16), "half", "FP16"),
            self.input_of(np.zeros(2, np.int64), "long", "INT64"), self.input_of(np.zeros(0, bool), "flag", "BOOL")])
        self.assertEqual([result.as_numpy("out_" + name).shape for name in ("text", "half", "flag")], [(0,), (0, 2), (0,)])

    def deploy_with_batches(self, name, model):
        folder = self.folder / name
        folder.mkdir()
        (folder / "model.onnx").write_bytes(model)
        (folder / "lambent.toml").write_text(f'kind = "model"\nname = "{name}"\nconcurrency = 32\n'
                                             '[batch]\nsize = 16\nwait_ms = 20\nslo_ms = 5000\n')
        return lambent(self.worker, "deploy", folder)

    def test_requests_that_come_together_run_together(self):
        deployed = self.deploy_with_batches("batched", matrix_model(WEIGHTS))
        self.assertEqual(deployed.returncode, 0, deployed.stderr)
        rows = np.random.default_rng(2).random((200, 1, 4), dtype=np.float32)

        async def ask():
            async with triton_aio.InferenceServerClient(self.worker.endpoint.removeprefix("http://"), conn_limit=32) as client:
                return await asyncio.gather(*(client.infer("batched", [self.input_of(row)]) for row in rows))
        for row, result in zip(rows, asyncio.run(ask())):
            np.testing.assert_allclose(result.as_numpy("scores"), row @ WEIGHTS, rtol=1e-5)
        counted = self.client().get_inference_statistics("batched")["model_stats"][0]
        self.assertEqual(counted["inference_count"], 200)
        self.assertLess(counted["execution_count"], 200)
        self.assertEqual(sum(each["batch_size"] * each["compute_infer"]["count"] for each in counted["batch_stats"]), 200)
        with self.assertRaisesRegex(InferenceServerException, r"\[400\] input 'x'"):
            self.client().infer("batched", [self.input_of(rows[0][:, :3])])

    def test_a_model_without_an_open_first_dimension_has_no_batches(self):
        deployed = self.deploy_with_batches("fixed", identity_model([("long", INT64, [2])]))
        self.assertNotEqual(deployed.returncode, 0)
        self.assertIn("cannot be loaded", deployed.stderr)
        self.assertIn("open first dimension", lambent(self.worker, "logs", "fixed").stdout)

    def test_errors_have_the_protocols_form_and_status(self):
        client, values = self.client(), np.ones((1, 4), dtype=np.float32)
        for message, call in (
                (r"\[404\] .*nope", lambda: client.infer("nope", [self.input_of(values)])),
                (r"\[404\] .*no version 9", lambda: client.infer("scores", [self.input_of(values)], model_version="9")),
                (r"\[400\] input 'x': shape is \[1,3\], the model's is \[-1,4\]",
                 lambda: client.infer("scores", [self.input_of(values[:, :3])])),
                (r"\[400\] input 'y': the model has no such input; it has x",
                 lambda: client.infer("scores", [self.input_of(values, "y")])),
                (r"\[400\] output 'z': the model has no such output",
                 lambda: client.infer("scores", [self.input_of(values)], outputs=[triton.InferRequestedOutput("z")]))):
            with self.assertRaisesRegex(InferenceServerException, message):
                call()

    def test_asyncio_and_threads_are_served_side_by_side(self):
        values = np.ones((2, 4), dtype=np.float32)

        async def ask():
            client = triton_aio.InferenceServerClient(self.worker.endpoint.removeprefix("http://"))
            results = await asyncio.gather(*(client.infer("scores", [self.input_of(values * n)]) for n in range(20)))
            await client.close()
            return results

        for n, result in enumerate(asyncio.run(ask())):
            np.testing.assert_allclose(result.as_numpy("scores"), values * n @ WEIGHTS)
        failed = []

        def many():
            client = triton.InferenceServerClient(self.worker.endpoint.removeprefix("http://"))
            for _ in range(20):
                if not np.allclose(client.infer("scores", [self.input_of(values)]).as_numpy("scores"), values @ WEIGHTS):
                    failed.append(1)
            client.close()

        threads = [threading.Thread(target=many) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])

    def test_dashboards_for_triton_find_its_metrics(self):
        def counted(name):
            found = [line for line in self.worker.metrics().splitlines() if line.startswith(name + '{model="scores",')]
            self.assertEqual(len(found), 1, name)
            return float(found[0].rpartition(" ")[2])

        client = self.client()
        values = np.ones((2, 4), dtype=np.float32)
        client.infer("scores", [self.input_of(values)])
        before, took = counted("nv_inference_request_success"), counted("nv_inference_request_duration_us")
        client.infer("scores", [self.input_of(values)])
        self.assertEqual(counted("nv_inference_request_success"), before + 1)
        self.assertGreater(counted("nv_inference_request_duration_us"), took)
        self.assertEqual(counted("nv_inference_request_failure"), 0)

    def test_statistics_count_what_was_asked(self):
        client, values = self.client(), np.ones((3, 4), dtype=np.float32)
        before = client.get_inference_statistics("scores")["model_stats"][0]
        client.infer("scores", [self.input_of(values)])
        after = client.get_inference_statistics("scores")["model_stats"][0]
        # Of the sandbox that answers; several may serve a model.
        self.assertGreaterEqual(after["inference_count"], 3)
        self.assertEqual(after["name"], before["name"])

    def test_a_file_that_is_no_model_is_told_when_it_is_deployed(self):
        for name, content, reason in (("broken", b"no protocol buffer", "cannot be loaded"),
                                      ("cut", matrix_model(WEIGHTS)[:-40], "cannot be loaded")):
            (self.folder / f"{name}.onnx").write_bytes(content)
            deployed = lambent(self.worker, "deploy", self.folder / f"{name}.onnx")
            self.assertNotEqual(deployed.returncode, 0)
            self.assertIn(reason, deployed.stderr)
        # The others go on.
        self.client().infer("scores", [self.input_of(np.ones((1, 4), dtype=np.float32))])

    def test_a_model_that_is_too_large_for_a_package_lies_in_a_volume(self):
        weights = large_model(self.folder)
        for how in ("sent", "unchanged"):
            deployed = lambent(self.worker, "deploy", self.folder / "large.onnx")
            self.assertEqual(deployed.returncode, 0, deployed.stderr)
            self.assertRegex(deployed.stderr, rf"large-weights: \w+/large.onnx.data +36 MiB +{how}")
        x = np.ones((1, len(weights)), np.float32)
        given = triton.InferInput("x", x.shape, "FP32")
        given.set_data_from_numpy(x)
        answer = self.client().infer("large", [given]).as_numpy("y")
        np.testing.assert_allclose(answer, x @ weights, rtol=1e-3, atol=1e-2)

    def test_a_page_of_another_origin_gets_nothing(self):
        connection = http.client.HTTPConnection(*self.worker.address, timeout=20)
        self.addCleanup(connection.close)
        connection.request("POST", "/v2/models/scores/infer", "{}", {"Origin": "https://evil.example"})
        answer = connection.getresponse()
        self.assertEqual(answer.status, 403)
        self.assertIsInstance(json.loads(answer.read())["error"], str)

    def test_a_folder_with_a_manifest_is_a_model_too(self):
        folder = self.folder / "own"
        folder.mkdir()
        (folder / "weights.onnx").write_bytes(matrix_model(WEIGHTS))
        (folder / "lambent.toml").write_text('kind = "model"\nname = "own"\nmodel = "weights.onnx"\nthreads = 1\nmemory = "512M"\n')
        deployed = lambent(self.worker, "deploy", folder)
        self.assertEqual(deployed.returncode, 0, deployed.stderr)
        values = np.ones((1, 4), dtype=np.float32)
        np.testing.assert_allclose(self.client().infer("own", [self.input_of(values)]).as_numpy("scores"), values @ WEIGHTS)
        (folder / "lambent.toml").write_text('kind = "model"\nname = "own"\ncommand = ["x"]\n')
        self.assertIn("line 3: a function of kind 'model' has no command", lambent(self.worker, "deploy", folder).stderr)


if __name__ == "__main__":
    unittest.main()
