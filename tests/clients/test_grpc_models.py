"""Models by gRPC: Triton's own client (blocking, streaming and asyncio), unmodified, through lambent-grpc to a real onnxruntime in a
real sandbox."""
import asyncio
import concurrent.futures
import contextlib
import os
import pathlib
import queue
import shutil
import signal
import ssl
import subprocess
import tempfile
import threading
import time
import unittest

import grpc
import ml_dtypes
import numpy as np
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from certificates import Authority
from harness import PREFIX, Worker, descendants
from model_worker import BRAINS, EVERY_TYPE, WEIGHTS, ModelWorkerTest, deploy_model, identity_model, matrix_model
from tenants import TokenWorker

PROGRAM = str(PREFIX / "bin/lambent-grpc")


class Front:
    """A lambent-grpc before a worker, on a port of its own."""

    def __init__(self, worker, *flags, listen="127.0.0.1:0"):
        self.process = subprocess.Popen([PROGRAM, "--listen", listen, "--worker", worker.endpoint, *map(str, flags)],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if "listening on" not in line:
            raise AssertionError(self.process.communicate(timeout=10)[1])
        self.address = line.split()[-1]

    def close(self):
        """SIGTERM; its exit status and what it wrote to its standard error."""
        self.process.send_signal(signal.SIGTERM)
        _, complaints = self.process.communicate(timeout=20)
        return self.process.returncode, complaints


def input_of(values, name="x", datatype="FP32"):
    given = triton.InferInput(name, list(values.shape), datatype)
    given.set_data_from_numpy(values)
    return given


class GrpcTest(ModelWorkerTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        deploy_model(cls.worker, cls.folder / "scores.onnx", matrix_model(WEIGHTS))
        deploy_model(cls.worker, cls.folder / "every type.onnx", identity_model(EVERY_TYPE))
        cls.front = Front(cls.worker, "--max-message-mib", 16)
        cls.addClassCleanup(cls.close_front)

    @classmethod
    def close_front(cls):
        ended = cls.front.close()
        assert ended == (0, ""), ended

    def setUp(self):
        self.client = triton.InferenceServerClient(self.front.address)
        self.addCleanup(self.client.close)

    def stub(self):
        channel = grpc.insecure_channel(self.front.address)
        self.addCleanup(channel.close)
        return service_pb2_grpc.GRPCInferenceServiceStub(channel)

    def test_the_server_and_the_model_are_described(self):
        client = self.client
        self.assertTrue(client.is_server_live() and client.is_server_ready() and client.is_model_ready("scores"))
        self.assertFalse(client.is_model_ready("nope"))
        self.assertEqual(client.get_server_metadata().name, "lambent")
        metadata = client.get_model_metadata("scores")
        self.assertEqual([(x.name, x.datatype, list(x.shape)) for x in metadata.inputs], [("x", "FP32", [-1, 4])])
        self.assertEqual([(y.name, list(y.shape)) for y in metadata.outputs], [("scores", [-1, 3])])
        config = client.get_model_config("scores").config
        self.assertEqual((config.name, config.input[0].data_type, list(config.input[0].dims)), ("scores", 11, [-1, 4]))
        index = {each.name: each.state for each in client.get_model_repository_index().models}
        self.assertEqual((index.get("scores"), index.get("every-type")), ("READY", "READY"))
        def state():
            return next(each.state for each in client.get_model_repository_index().models if each.name == "scores")
        client.load_model("scores")
        client.unload_model("scores")
        self.assertFalse(client.is_model_ready("scores"))
        self.worker.wait_for(lambda: state() == "UNAVAILABLE", what="the model to leave memory")
        self.assertFalse(client.is_model_ready("scores"))
        ready = self.stub().RepositoryIndex(service_pb2.RepositoryIndexRequest(ready=True))
        self.assertNotIn("scores", [each.name for each in ready.models])
        client.load_model("scores")
        self.assertEqual((state(), client.is_model_ready("scores")), ("READY", True))
        with self.assertRaisesRegex(InferenceServerException, "there is no model 'none'"):
            client.unload_model("none")

    def test_answers_are_the_products_and_are_counted(self):
        values = np.random.default_rng(1).random((5, 4), dtype=np.float32)
        result = self.client.infer("scores", [input_of(values)], request_id="7",
                                   outputs=[triton.InferRequestedOutput("scores")])
        np.testing.assert_allclose(result.as_numpy("scores"), values @ WEIGHTS, rtol=1e-5)
        self.assertEqual(result.get_response().id, "7")
        self.assertEqual(self.client.infer("scores", [input_of(values[:0])]).as_numpy("scores").shape, (0, 3))
        before = self.client.get_inference_statistics("scores").model_stats[0]
        self.client.infer("scores", [input_of(values)], compression_algorithm="gzip")
        after = self.client.get_inference_statistics("scores").model_stats[0]
        self.assertEqual(after.inference_count - before.inference_count, 5)
        self.assertGreater(after.inference_stats.compute_infer.ns, before.inference_stats.compute_infer.ns)

    def test_every_type_comes_back_as_it_went(self):
        texts = np.array(["", "a", "größer"], dtype=np.object_)
        half, flags, long = np.array([[1.5, -2]], dtype=np.float16), np.array([True, False]), np.array([-(2**62), 2**62 + 1])
        result = self.client.infer("every-type", [input_of(texts, "text", "BYTES"), input_of(half, "half", "FP16"),
                                                  input_of(long, "long", "INT64"), input_of(flags, "flag", "BOOL")])
        self.assertEqual([text.decode() for text in result.as_numpy("out_text")], list(texts))
        for name, values in (("out_half", half), ("out_long", long), ("out_flag", flags)):
            np.testing.assert_array_equal(result.as_numpy(name), values)

    def test_brain_floats_come_back_too(self):
        deploy_model(self.worker, self.folder / "brains.onnx", identity_model(BRAINS))
        values = np.array([1.5, -2, 2.0**100], dtype=ml_dtypes.bfloat16)
        for given in (values, values[:0]):
            np.testing.assert_array_equal(self.client.infer("brains", [input_of(given, "brain", "BF16")]).as_numpy("out_brain"), given)

    def test_typed_contents_are_taken_too(self):
        request = service_pb2.ModelInferRequest(model_name="scores")
        given = request.inputs.add(name="x", datatype="FP32", shape=[1, 4])
        given.contents.fp32_contents.extend([1, 2, 3, 4])
        answer = self.stub().ModelInfer(request)
        np.testing.assert_allclose(np.frombuffer(answer.raw_output_contents[0], np.float32), np.array([1, 2, 3, 4]) @ WEIGHTS)

    def test_a_stream_answers_in_order_and_goes_on_after_an_error(self):
        answers = queue.Queue()
        self.client.start_stream(lambda result, error: answers.put((result, error)))
        good, bad = np.ones((1, 4), dtype=np.float32), np.ones((1, 3), dtype=np.float32)
        for number, values in enumerate((good, bad, good)):
            self.client.async_stream_infer("scores", [input_of(values)], request_id=str(number))
        got = [answers.get(timeout=60) for _ in range(3)]
        self.client.stop_stream()
        self.assertEqual([error is None for _, error in got], [True, False, True])
        self.assertIn("shape is [1,3]", str(got[1][1]))
        self.assertEqual(got[2][0].get_response().id, "2")

    def test_asyncio_and_threads_ask_at_once(self):
        values = np.ones((1, 4), dtype=np.float32)

        async def ask():
            async with triton_aio.InferenceServerClient(self.front.address) as client:
                self.assertTrue(await client.is_model_ready("scores"))
                return await asyncio.gather(*(client.infer("scores", [input_of(values * i)]) for i in range(40)))
        for i, result in enumerate(asyncio.run(ask())):
            np.testing.assert_allclose(result.as_numpy("scores"), values * i @ WEIGHTS)
        failures = []

        def repeat(factor):
            for _ in range(5):
                got = self.client.infer("scores", [input_of(values * factor)]).as_numpy("scores")
                if not np.allclose(got, values * factor @ WEIGHTS):
                    failures.append(got)
        threads = [threading.Thread(target=repeat, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_errors_have_the_codes_of_grpc(self):
        values = np.ones((1, 4), dtype=np.float32)
        for message, call in (
                ("NOT_FOUND.*nope", lambda: self.client.infer("nope", [input_of(values)])),
                ("NOT_FOUND.*no version 9", lambda: self.client.infer("scores", [input_of(values)], model_version="9")),
                ("INVALID_ARGUMENT.*input 'x': shape is", lambda: self.client.infer("scores", [input_of(values[:, :3])])),
                ("INVALID_ARGUMENT.*no such input; it has x", lambda: self.client.infer("scores", [input_of(values, "y")])),
                ("INVALID_ARGUMENT.*'x'", lambda: self.client.infer("scores", [])),
                ("RESOURCE_EXHAUSTED.*larger than max", lambda: self.client.infer("scores", [
                    input_of(np.ones((2_000_000, 4), dtype=np.float32))])),
                # 12 MiB go through three programs; none does that in a millisecond.
                ("DEADLINE_EXCEEDED", lambda: self.client.infer("scores", [input_of(np.ones((786_000, 4), dtype=np.float32))],
                                                                client_timeout=0.001)),
                ("UNIMPLEMENTED.*--system-shared-memory", lambda: self.client.get_system_shared_memory_status())):
            with self.subTest(message), self.assertRaisesRegex(InferenceServerException, message):
                call()
        request = service_pb2.ModelInferRequest(model_name="scores", raw_input_contents=[b"1234", b"5678"])
        request.inputs.add(name="x", datatype="FP32", shape=[1, 4])
        with self.assertRaises(grpc.RpcError) as caught:
            self.stub().ModelInfer(request)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)

    def test_a_model_whose_program_ends_is_no_internal_error(self):
        values = np.ones((1, 4), dtype=np.float32)
        self.client.infer("scores", [input_of(values)])

        def sandboxes(*states):
            return [each for each in self.worker.sandboxes() if each["function"] == "scores" and each["state"] in states]

        # Its program stands still, so that the request is there when it ends.
        programs = [pid for each in sandboxes("idle", "busy") for pid in descendants(each["pid"])]

        def go_on():
            for pid in programs:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        self.addCleanup(go_on)
        for pid in programs:
            os.kill(pid, signal.SIGSTOP)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            asked = pool.submit(self.client.infer, "scores", [input_of(values)])
            os.kill(self.worker.wait_for(lambda: sandboxes("busy"), what="a request at work")[0]["pid"], signal.SIGKILL)
            with self.assertRaisesRegex(InferenceServerException, "UNKNOWN.*signal: 9"):
                asked.result(30)
        go_on()
        self.client.infer("scores", [input_of(values)])

    def test_our_messages_have_the_numbers_and_types_of_the_protocol(self):
        """protoc's descriptors of our files against those that Triton's client was made of."""
        from google.protobuf import descriptor_pb2, descriptor_pool
        sources = pathlib.Path(__file__).resolve().parents[2] / "src/edge/grpc_inference"
        subprocess.run(["protoc", "-I", sources, f"--descriptor_set_out={self.folder}/own.pb", "--include_imports",
                        "inference.proto"], check=True)
        own = descriptor_pb2.FileDescriptorSet.FromString((self.folder / "own.pb").read_bytes())
        pool = descriptor_pool.Default()
        fields = 0

        def check(message, path):
            nonlocal fields
            theirs = pool.FindMessageTypeByName(path)
            for field in message.field:
                known = theirs.fields_by_name[field.name]
                fields += 1
                self.assertEqual((known.number, known.type, known.is_repeated), (field.number, field.type, field.label == 3), path)
            for nested in message.nested_type:
                check(nested, f"{path}.{nested.name}")
        for file in own.file:
            for message in file.message_type:
                check(message, f"inference.{message.name}")
        self.assertGreater(fields, 100)
        known = pool.FindServiceByName("inference.GRPCInferenceService").methods_by_name
        ours = next(file for file in own.file if file.service).service[0]
        for method in ours.method:
            self.assertEqual("." + known[method.name].input_type.full_name, method.input_type)

    def test_bytes_that_are_no_message_are_refused(self):
        channel = grpc.insecure_channel(self.front.address)
        self.addCleanup(channel.close)
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer", request_serializer=bytes,
                                   response_deserializer=bytes)
        for junk in (b"\xff" * 100, b"\x0a\xff\xff\xff\xff\x0f", bytes(range(256))):
            with self.assertRaises(grpc.RpcError) as caught:
                call(junk)
            self.assertIn(caught.exception.code(), (grpc.StatusCode.INTERNAL, grpc.StatusCode.INVALID_ARGUMENT))
        self.assertTrue(self.client.is_server_live())


class TokensAndTlsTest(unittest.TestCase):
    def refusal_of(self, *arguments):
        ended = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=30)
        self.assertNotEqual(ended.returncode, 0)
        return ended.stderr

    def test_a_tenants_token_comes_as_metadata_over_tls(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-grpc-"))
        self.addCleanup(shutil.rmtree, folder, True)
        authority = Authority(folder)
        certificate, key = authority.issue("front")
        held = TokenWorker(gpu="none")
        self.addCleanup(held.close)
        for tenant in ("red", "azure"):
            held.operator.create_tenant(tenant)
        token = held.operator.create_token("red", scopes=["read"])["secret"]
        front = Front(held.worker, "--tls-certificate", certificate, "--tls-key", key)
        self.addCleanup(front.close)
        client = triton.InferenceServerClient(front.address, ssl=True, root_certificates=str(authority.certificate))
        self.addCleanup(client.close)
        self.assertTrue(client.is_server_live())
        with self.assertRaisesRegex(InferenceServerException, "UNAUTHENTICATED"):
            client.get_model_repository_index()
        headers = {"authorization": f"Bearer {token}"}
        self.assertEqual(len(client.get_model_repository_index(headers=headers).models), 0)
        with self.assertRaisesRegex(InferenceServerException, "PERMISSION_DENIED.*scopes read"):
            client.get_model_metadata("scores", headers=headers)
        plain = triton.InferenceServerClient(front.address)
        self.addCleanup(plain.close)
        with self.assertRaisesRegex(InferenceServerException, "UNAVAILABLE"):
            plain.get_server_metadata()

    def test_it_opens_nothing_to_the_network_unasked(self):
        self.assertIn("open to the network: give --tls-certificate", self.refusal_of("--listen", "0.0.0.0:0"))
        folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-grpc-"))
        self.addCleanup(shutil.rmtree, folder, True)
        certificate, key = Authority(folder).issue("front")
        worker = Worker(gpu="none")
        self.addCleanup(worker.close)
        self.assertIn("takes requests without a token", self.refusal_of(
            "--listen", "0.0.0.0:0", "--worker", worker.endpoint, "--tls-certificate", certificate, "--tls-key", key))
        self.assertIn("every caller would act as the operator", self.refusal_of("--worker", "unix:/run/lambent.sock"))
        self.assertIn("go together", self.refusal_of("--tls-certificate", certificate))

    def test_a_worker_that_is_not_there_is_unavailable(self):
        worker = Worker(gpu="none")
        front = Front(worker)
        self.addCleanup(front.close)
        worker.close()
        client = triton.InferenceServerClient(front.address)
        self.addCleanup(client.close)
        with self.assertRaisesRegex(InferenceServerException, "UNAVAILABLE"):
            client.is_server_live()

    def address_of_front(self, worker, other_than=""):
        """Where the lambent-grpc of a worker with --grpc listens."""
        file = worker.folder / "run/grpc-endpoint"
        deadline = time.monotonic() + 30
        while not file.exists() or file.read_text().strip() == other_than:
            self.assertLess(time.monotonic(), deadline, worker.log())
            time.sleep(0.02)
        return file.read_text().strip()

    def front_of(self, worker):
        children = subprocess.run(["pgrep", "-P", str(worker.process.pid), "lambent-grpc"], capture_output=True, text=True).stdout.split()
        self.assertEqual(len(children), 1, children)
        return int(children[0])

    def test_the_worker_starts_it_again_and_takes_it_along(self):
        worker = Worker("--grpc", "127.0.0.1:0", gpu="none")
        self.addCleanup(worker.close)
        address = self.address_of_front(worker)
        client = triton.InferenceServerClient(address)
        self.addCleanup(client.close)
        self.assertTrue(client.is_server_live())
        os.kill(self.front_of(worker), signal.SIGKILL)
        again = triton.InferenceServerClient(self.address_of_front(worker, other_than=address))
        self.addCleanup(again.close)
        self.assertTrue(again.is_server_ready())
        self.assertEqual(len(again.get_model_repository_index().models), 0)
        front = self.front_of(worker)
        self.assertEqual(worker.stop(), 0)
        self.assertFalse(pathlib.Path(f"/proc/{front}").exists())

    def test_the_workers_certificate_and_tokens_are_its_own(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-grpc-"))
        self.addCleanup(shutil.rmtree, folder, True)
        authority = Authority(folder)
        certificate, key = authority.issue("node")
        worker = Worker("--auth", "tokens", "--tls-certificate", str(certificate), "--tls-key", str(key), "--grpc", "0.0.0.0:0",
                        "--grpc-worker-ca", str(authority.certificate), gpu="none",
                        tls=ssl.create_default_context(cafile=str(authority.certificate)))
        self.addCleanup(worker.close)
        port = self.address_of_front(worker).rpartition(":")[2]  # open to the network: TLS and tokens
        client = triton.InferenceServerClient(f"127.0.0.1:{port}", ssl=True, root_certificates=str(authority.certificate))
        self.addCleanup(client.close)
        self.assertTrue(client.is_server_live())
        with self.assertRaisesRegex(InferenceServerException, "UNAUTHENTICATED"):
            client.get_model_repository_index()


if __name__ == "__main__":
    unittest.main()
