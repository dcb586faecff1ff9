"""Unit tests of lambent.client and what it stands on; the worker is a script. Standard library only."""
import array
import ctypes
import http.server
import json
import os
import pathlib
import socket
import sys
import tempfile
import threading
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from lambent import app_calls, http_objects, local_objects  # noqa: E402
from lambent.client import Client, ObjectRef  # noqa: E402
from lambent.errors import (DeadlineExceeded, InvalidArgument, LambentError, NotFound, PermissionDenied,  # noqa: E402
                            Unauthenticated, Unavailable, error_of)
from lambent.tensor import Tensor, tensor_of  # noqa: E402

NAME = "00000000-0000-0001-0000-000000000002.7"


class NamesOfTheVersionBefore(unittest.TestCase):
    def test_let_go_is_release_with_a_warning(self):
        client = unittest.mock.create_autospec(Client, instance=True)
        with self.assertWarnsRegex(DeprecationWarning, "let_go is called release now"):
            Client.let_go(client, [NAME])
        client.release.assert_called_once_with([NAME])


class Tensors(unittest.TestCase):
    def test_bytes_are_raw_unless_a_type_is_named(self):
        self.assertEqual((tensor_of(b"abc").datatype, tensor_of(b"abc").shape), ("BYTES", (3,)))
        self.assertEqual(tensor_of(b"12345678", "FP32").shape, (2,))
        self.assertEqual(tensor_of(b"12345678", "FP32", (1, 2)).shape, (1, 2))
        with self.assertRaises(ValueError):
            tensor_of(b"123", "FP32")
        with self.assertRaises(ValueError):
            tensor_of(b"123", "FLOAT")

    def test_numpy_arrays_keep_type_and_shape(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("there is no numpy")
        for array in (numpy.arange(6, dtype="f4").reshape(2, 3), numpy.float64(2.5).reshape(()),
                      numpy.zeros((0, 3), "i8"), numpy.arange(6).reshape(2, 3).T):
            tensor = tensor_of(array)
            self.assertEqual(tensor.shape, array.shape)
            self.assertTrue((tensor.numpy() == array).all())
        with self.assertRaises(TypeError):
            tensor_of(numpy.zeros(2, "c8"))


    def test_other_typed_buffers_keep_type_and_shape(self):
        for letter, datatype in (("f", "FP32"), ("d", "FP64"), ("i", "INT32"), ("H", "UINT16"), ("q", "INT64"),
                                 ("l", "INT64" if array.array("l").itemsize == 8 else "INT32")):
            tensor = tensor_of(array.array(letter, [1, 2, 3]))
            self.assertEqual((tensor.datatype, tensor.shape), (datatype, (3,)))
        grid = memoryview(bytes(24)).cast("f", (2, 3))
        self.assertEqual((tensor_of(grid).datatype, tensor_of(grid).shape), ("FP32", (2, 3)))
        self.assertEqual(tensor_of((ctypes.c_int32 * 2)(5, 6)).datatype, "INT32")
        self.assertEqual((tensor_of(array.array("f")).datatype, tensor_of(array.array("f")).shape), ("FP32", (0,)))
        # What is said goes before what the buffer says, and bytes in whatever holder stay bytes.
        self.assertEqual(tensor_of(array.array("f", [1, 2]), "BYTES").shape, (8,))
        self.assertEqual(tensor_of(array.array("f", [1, 2]), shape=(1, 2)).shape, (1, 2))
        for plain in (bytearray(b"abc"), memoryview(b"abc"), array.array("B", b"abc")):
            self.assertEqual((tensor_of(plain).datatype, tensor_of(plain).shape), ("BYTES", (3,)))
        with self.assertRaises(TypeError):
            tensor_of((ctypes.c_int32.__ctype_be__ * 2)(5, 6))
        with self.assertRaises(TypeError) as caught:
            tensor_of([1, 2])
        self.assertIn("list has no type of elements", str(caught.exception))


class Wire(unittest.TestCase):
    def test_names_and_numbers_come_back(self):
        reader = local_objects._Reader(local_objects._encode_name(NAME) + local_objects._number(1 << 40))
        self.assertEqual(local_objects._decode_name(reader), NAME)
        self.assertEqual(reader.number(), 1 << 40)

    def test_what_is_no_name_is_refused_before_it_is_sent(self):
        for wrong in ("junk", "", NAME + "x", NAME.replace("-", ""), NAME.partition(".")[0], NAME + "1" * 10):
            with self.assertRaises(InvalidArgument) as caught:
                local_objects._encode_name(wrong)
            self.assertIn("'%s'" % wrong, str(caught.exception))

    def test_a_put_reads_as_the_worker_reads_it(self):
        # tests/fuzz/corpus/object_message/put, byte for byte after kind and ticket.
        message = b"\x01" + local_objects._encode_name("00000000-0000-0002-0000-000000000003.12")
        message += local_objects._encode_type(Tensor("UINT8", (2, 3), b"123456"))
        self.assertEqual(message, bytes([1, 2, 3, 12, 2, 2, 2, 3]))


    def test_received_memory_is_mapped_as_every_kernel_allows(self):
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        objects = local_objects.LocalObjects.__new__(local_objects.LocalObjects)
        objects._socket, objects._ticket = here, 0
        self.addCleanup(here.close)
        self.addCleanup(there.close)
        fd = local_objects.sealed_memory(b"123456")
        answer = b"\x01\x01\x00" + local_objects._encode_name(NAME)
        answer += local_objects._encode_type(Tensor("UINT8", (2, 3), b"123456"))
        socket.send_fds(there, [answer], [fd])
        os.close(fd)
        tensor = objects.get(NAME)
        self.assertEqual((bytes(tensor), tensor.shape), (b"123456", (2, 3)))
        # Older kernels refuse shared mappings of sealed memory; newer ones do not, so the map is asked.
        with open("/proc/self/maps", encoding="utf-8") as maps:
            modes = [line.split()[1] for line in maps if "memfd:lambent-object" in line]
        self.assertEqual(modes, ["r--p"])


    def test_a_worker_that_was_started_again_is_connected_to(self):
        with tempfile.TemporaryDirectory() as folder:
            def listen():
                listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                self.addCleanup(listener.close)
                listener.bind(folder + "/objects")
                listener.listen()
                return listener

            def serve(listener, answers):
                connection, _ = listener.accept()
                listener.close()
                os.unlink(folder + "/objects")
                with connection:
                    for number in range(answers):
                        packet, fds, _, _ = socket.recv_fds(connection, 4096, 4)
                        for each in fds:
                            os.close(each)
                        if number + 1 < answers or answers == 1:
                            connection.send(b"\x01" + packet[1:2] + b"\x00" + local_objects._encode_name(NAME))

            def served(answers):
                thread = threading.Thread(target=serve, args=(listen(), answers))
                thread.start()
                return thread

            first = served(1)
            objects = local_objects.LocalObjects(folder + "/objects")
            self.addCleanup(objects.close)
            self.assertEqual(objects.put(tensor_of(b"1")), NAME)
            first.join()
            with self.assertRaises(Unavailable):
                objects.put(tensor_of(b"nobody is there"))
            second = served(2)
            self.assertEqual(objects.put(tensor_of(b"2")), NAME)
            with self.assertRaises(Unavailable):
                objects.put(tensor_of(b"it may have come, and is not sent twice"))
            second.join()
            third = served(1)
            self.assertEqual(objects.put(tensor_of(b"3")), NAME)
            third.join()


class Script(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        status, headers, reply = self.server.answers.pop(0)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    do_GET = do_POST = do_PUT = do_DELETE = answer

    def log_message(self, *_):
        pass


class Refusals(unittest.TestCase):
    def test_an_error_says_when_the_request_may_come_again(self):
        for headers, seconds in (({"retry-after-ms": "250", "retry-after": "1"}, 0.25), ({"retry-after": "3"}, 3.0), ({}, None),
                                 ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, None)):
            self.assertEqual(http_objects.error_from(429, {"x-lambent-code": "RESOURCE_EXHAUSTED", **headers}, b"").retry_after, seconds)

    def test_what_a_proxy_says_is_no_leave_to_send_a_request_again(self):
        told = {"retry-after": "1"}
        for status, headers, body in ((503, {}, b"<html>"), (502, {}, b""), (504, {}, b""), (429, {}, b"slow down"),
                                      (503, {}, b'{"error": {"code": 503, "message": "m", "status": "UNAVAILABLE"}}'),
                                      (502, {"x-lambent-code": "UNAVAILABLE"}, b""), (503, {"x-lambent-code": "STORAGE_FULL"}, b""),
                                      (504, {}, b'{"error": {"code": "DEADLINE_EXCEEDED", "message": "m"}}')):
            self.assertIsNone(http_objects.error_from(status, {**told, **headers}, body).retry_after, (status, headers, body))
        for status, headers, body in ((503, {"x-lambent-code": "UNAVAILABLE"}, b""),
                                      (429, {}, b'{"error": {"code": "RESOURCE_EXHAUSTED", "message": "m"}}')):
            self.assertEqual(http_objects.error_from(status, {**told, **headers}, body).retry_after, 1.0)


class Endpoints(unittest.TestCase):
    def test_ports_are_the_usual_ones_unless_said(self):
        for endpoint, parts in (("https://node.example", ("https", "node.example", 443)), ("http://node.example/", ("http", "node.example", 80)),
                                ("https://node.example:8980", ("https", "node.example", 8980)), ("127.0.0.1:1", ("http", "127.0.0.1", 1)),
                                ("http://[::1]:65535", ("http", "::1", 65535)), ("https://[::1]", ("https", "::1", 443)),
                                ("unix:/run/l.sock", ("unix", "/run/l.sock", 0)), ("unix:///run/l.sock", ("unix", "/run/l.sock", 0))):
            self.assertEqual(http_objects.endpoint_parts(endpoint), parts)

    def test_what_is_no_endpoint_is_an_invalid_argument_that_says_so(self):
        for endpoint in ("", "unix:", "https://", "http://:80", "http://a:0", "http://a:65536", "http://a:b", "http://a:80:80", "http://[::1",
                         "http://::1", "http://a/path", "ftp://a", "http://a b:1", "http://a:80\r\nX: 1"):
            with self.subTest(endpoint), self.assertRaisesRegex(InvalidArgument, "is not an endpoint such as"):
                http_objects.connect(endpoint)


class Clients(unittest.TestCase):
    def setUp(self):
        self.server = http.server.HTTPServer(("127.0.0.1", 0), Script)
        self.server.seen, self.server.answers = [], []
        thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(self.server.shutdown)
        self.client = Client("http://127.0.0.1:%d" % self.server.server_port, local=False)
        self.addCleanup(self.client.close)

    def script(self, status, reply, **headers):
        body = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
        self.server.answers.append((status, {k.replace("_", "-"): v for k, v in headers.items()}, body))

    def functions(self, kind):
        self.script(200, {"Configuration": {"FunctionName": "f"}, "Tags": {"lambent:kind": kind}})

    def test_references_in_an_event_become_needs(self):
        self.functions("handler")
        self.script(201, {"object": NAME})
        self.script(202, {"invocation": "i", "objects": ["i.0"]})
        made = self.client.function("f").remote({"deep": [{"x": b"raw"}], "n": 1})
        self.assertEqual(made.id, "i.0")
        _, path, headers, body = self.server.seen[-1]
        self.assertEqual(path, "/v1/functions/f/invocations")
        self.assertEqual(headers["x-lambent-needs"], NAME)
        self.assertEqual(json.loads(body), {"deep": [{"x": {"object": NAME}}], "n": 1})

    def test_names_of_functions_are_quoted_in_every_call(self):
        self.script(200, b"1")
        self.script(202, {"invocation": "i", "objects": ["i.0"]})
        self.script(200, b"")
        self.client.invoke("a b/../c?d#e:prod")
        self.client.submit("a b/../c?d#e:prod", b"{}")
        self.client.close()  # the server has one connection at a time, and a stream has one of its own
        list(self.client.stream("a b/../c?d#e:prod"))
        for _, path, _, _ in self.server.seen:
            self.assertIn("/functions/a%20b%2F..%2Fc%3Fd%23e:prod/", path)

    def test_a_kernel_function_is_called_by_the_names_of_its_buffers(self):
        self.functions("kernel")
        self.script(201, {"object": NAME})
        self.script(202, {"invocation": "i", "objects": ["i.0", "i.1"]})
        self.script(204, b"")
        y, z = self.client.function("f").remote(x=b"1234", outputs=("y", "z"))
        self.assertEqual((y.id, z.id), ("i.0", "i.1"))
        _, _, headers, body = self.server.seen[-2]
        self.assertEqual(headers["x-lambent-outputs"], "2")
        self.assertEqual(json.loads(body), {
            "inputs": [{"name": "x", "parameters": {"object": NAME}}],
            "outputs": [{"name": "y", "parameters": {"object": True}}, {"name": "z", "parameters": {"object": True}}]})

    def test_a_kernel_function_that_is_called_answers_with_tensors(self):
        self.functions("kernel")
        self.script(201, {"object": NAME})
        self.script(202, {"invocation": "i", "objects": ["i.0"]})
        self.script(204, b"")
        self.script(200, array.array("f", [2, 4]).tobytes(), x_lambent_datatype="FP32", x_lambent_shape="[2]")
        self.script(204, b"")
        y = self.client.function("f")(x=array.array("f", [1, 2]), outputs=["y"])
        self.assertEqual((y.datatype, y.shape, y.data.cast("f").tolist()), ("FP32", (2,), [2, 4]))
        self.assertEqual(self.server.seen[1][2]["x-lambent-datatype"], "FP32")
        # What it put for the call, once that needs it, and what came of it.
        self.assertEqual([each[1] for each in self.server.seen if each[0] == "DELETE"],
                         ["/v1/objects/" + NAME, "/v1/objects/i.0"])
        self.assertEqual([each[0] for each in self.server.seen], ["GET", "POST", "POST", "DELETE", "GET", "DELETE"])

    def test_what_calls_make_lives_as_long_as_the_function_was_said_to(self):
        for ttl, said in ((90, "90.000"), (None, None)):
            self.script(202, {"invocation": "i", "objects": ["i.0"]})
            function = self.client.function("f", ttl)
            function._kind = "handler"
            function.remote({})
            self.assertEqual(self.server.seen[-1][2].get("x-lambent-ttl"), said)

    def test_a_call_leaves_the_references_that_it_was_given_and_nothing_of_its_own(self):
        self.functions("kernel")
        self.script(201, {"object": NAME})
        self.script(400, {"error": {"code": "INVALID_ARGUMENT", "message": "outputs[0].name: there is no output 'z'"}})
        self.script(404, {"error": {"code": "NOT_FOUND", "message": "it expired already"}})
        given = ObjectRef(self.client, NAME[:-1] + "8")
        with self.assertRaises(InvalidArgument):
            self.client.function("f")(x=b"1234", w=given, outputs="z")
        self.assertEqual(json.loads(self.server.seen[2][3])["outputs"], [{"name": "z", "parameters": {"object": True}}])
        self.assertEqual(self.server.seen[-1][:2], ("DELETE", "/v1/objects/" + NAME))

    def test_a_kernel_function_may_have_no_inputs_and_needs_the_names_of_its_outputs(self):
        self.functions("kernel")
        self.script(202, {"invocation": "i", "objects": ["i.0"]})
        function = self.client.function("f")
        self.assertEqual(function.remote(outputs=["y"]).id, "i.0")
        self.assertEqual(json.loads(self.server.seen[-1][3])["inputs"], [])
        with self.assertRaises(TypeError) as caught:
            function.remote(x=b"1234")
        self.assertIn("outputs", str(caught.exception))

    def test_the_kind_of_a_function_is_asked_for_once(self):
        self.functions("workflow")
        function = self.client.function("f")
        self.assertEqual((function.kind, function.kind), ("workflow", "workflow"))
        self.assertEqual([each[:2] for each in self.server.seen], [("GET", "/2015-03-31/functions/f")])
        self.script(200, {"Configuration": {"FunctionName": "g"}})
        self.assertEqual(self.client.kind_of("g"), "handler")
        self.script(404, {"Type": "User", "Message": "Function not found"}, x_amzn_errortype="ResourceNotFoundException")
        with self.assertRaises(NotFound) as caught:
            self.client.kind_of("h")
        self.assertIn("'h'", str(caught.exception))

    def test_errors_have_their_classes(self):
        self.script(404, {"error": {"code": "NOT_FOUND", "message": "no such object"}})
        with self.assertRaises(NotFound):
            self.client.get(NAME)
        self.script(500, b"not JSON at all")
        with self.assertRaises(LambentError):
            self.client.get(NAME)
        self.assertTrue(error_of("UNAVAILABLE", "").retryable)
        full = error_of("STORAGE_FULL", "no space")
        self.assertEqual((type(full).__name__, full.retryable), ("StorageFull", True))

    def test_a_token_and_a_tenant_go_with_every_request_and_objects_over_http(self):
        endpoint = self.client.endpoint
        for given, environment in (({"token": "lambent_a\n"}, {}), ({}, {"LAMBENT_TOKEN": "lambent_a"})):
            with self.subTest(given=given), unittest.mock.patch.dict(os.environ, environment), \
                    Client(endpoint, tenant="red", **given) as client:
                self.assertFalse(client.local)
                self.script(201, {"object": NAME})
                client.put(b"1")
                headers = self.server.seen[-1][2]
                self.assertEqual((headers["authorization"], headers["x-lambent-tenant"]), ("Bearer lambent_a", "red"))
        with self.assertRaises(InvalidArgument) as caught:
            Client(endpoint, token="s3cret\r\nX-Lambent-Tenant: red")
        self.assertNotIn("s3cret", str(caught.exception))

    def test_refused_credentials_have_their_classes_under_both_apis(self):
        self.script(401, {"error": {"code": "UNAUTHENTICATED", "message": "the token is not valid"}})
        with self.assertRaises(Unauthenticated):
            self.client.whoami()
        self.script(403, {"Message": "the token is not valid"}, x_amzn_errortype="UnrecognizedClientException",
                    x_lambent_code="UNAUTHENTICATED")
        with self.assertRaises(Unauthenticated):
            self.client.invoke("f")
        self.script(403, {"Message": "this needs one of deploy"}, x_amzn_errortype="AccessDeniedException",
                    x_lambent_code="PERMISSION_DENIED")
        with self.assertRaises(PermissionDenied):
            self.client.invoke("f")

    def test_a_call_that_a_proxy_cut_off_is_not_sent_again(self):
        for status in (502, 503, 504):
            self.script(status, b"<html>Bad Gateway</html>", retry_after="0")
            with self.assertRaises(LambentError):
                app_calls.call(self.client, "f", "", (), {}, 5)
        self.script(503, {"Message": "it is not ready"}, x_lambent_code="UNAVAILABLE", retry_after="0")
        self.script(429, {"Message": "too much waits"}, x_lambent_code="RESOURCE_EXHAUSTED", retry_after_ms="1")
        self.script(200, {"lambent.call": app_calls._sent(7)})
        self.assertEqual(app_calls.call(self.client, "f", "", (), {}, 5), 7)
        self.assertEqual(len(self.server.seen), 6)

    def test_a_producer_that_ran_into_a_deadline_is_not_asked_again(self):
        late = (504, {"error": {"code": "DEADLINE_EXCEEDED", "message": "the function took longer than 3 s"}})
        for _ in range(2):
            self.script(*late)
        with self.assertRaises(DeadlineExceeded) as caught:
            self.client.get(NAME)
        self.assertIn("longer than 3 s", str(caught.exception))
        self.assertEqual(len(self.server.seen), 1)

    def test_what_is_still_being_made_after_the_wait_is_asked_for_again(self):
        clock = [0.0]

        class Objects:
            waits = []

            def get(self, name, wait):
                self.waits.append(wait)
                clock[0] += wait
                if len(self.waits) == 3:
                    return "made"
                raise DeadlineExceeded("it is still being made")

        objects = Objects()
        with unittest.mock.patch.object(self.client, "_objects", objects), \
                unittest.mock.patch("time.monotonic", lambda: clock[0]):
            self.assertEqual(self.client.get(NAME, 1500), "made")
        self.assertEqual(objects.waits, [600, 600, 300])

    def test_nobody_there_is_unavailable(self):
        with self.assertRaises(Unavailable):
            Client("unix:/nonexistent/socket").put(b"x")

    def test_a_large_object_is_fetched_in_parts(self):
        self.script(400, {"error": {"code": "OUT_OF_RANGE", "message": "it failed so"}})
        # What is no object that exists is the producer's own failure.
        Script.do_HEAD = Script.answer
        self.script(200, b"", x_lambent_state="failed")
        with self.assertRaises(LambentError) as caught:
            self.client.get(NAME)
        self.assertIn("it failed so", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
