"""Answers in pieces: boto3's invoke_with_response_stream, and function URLs that stream."""
import http.client
import json
import shutil
import socket
import time
import unittest

import boto3

from harness import WorkerTest, make_zip

GENERATOR = """
import time
def handler(event, context):
    for number in range(event.get('count', 3)):
        yield f'piece {number}\\n'
        time.sleep(event.get('pause', 0))
"""

# What Lambda's runtime for Node.js does: chunks, and an error in trailers.
NODE = """#!/usr/bin/env node
const http = require('http');
const [host, port] = process.env.AWS_LAMBDA_RUNTIME_API.split(':');
const agent = new http.Agent({keepAlive: true, maxSockets: 1});
function next() {
  http.get({host, port, agent, path: '/2018-06-01/runtime/invocation/next'}, (response) => {
    let text = '';
    response.on('data', (data) => text += data);
    response.on('end', () => answer(response.headers['lambda-runtime-aws-request-id'], JSON.parse(text)));
  });
}
function answer(id, event) {
  const request = http.request({host, port, agent, method: 'POST', path: `/2018-06-01/runtime/invocation/${id}/response`,
    headers: {'Content-Type': 'application/vnd.awslambda.http-integration-response',
              'Lambda-Runtime-Function-Response-Mode': 'streaming', 'Transfer-Encoding': 'chunked',
              'Trailer': ['Lambda-Runtime-Function-Error-Type', 'Lambda-Runtime-Function-Error-Body']}},
    (response) => { response.resume(); response.on('end', next); });
  request.write(JSON.stringify({statusCode: 201, headers: {'X-Made-By': 'node', 'Content-Type': 'text/plain'}, cookies: ['a=1']}));
  request.write(Buffer.alloc(8));
  request.write('hello ');
  setTimeout(() => {
    request.write('world');
    if (event.fail || event.rawQueryString === 'fail') {
      request.addTrailers({'Lambda-Runtime-Function-Error-Type': 'Function.Oops',
        'Lambda-Runtime-Function-Error-Body': Buffer.from(JSON.stringify({errorType: 'Oops', errorMessage: 'no'})).toString('base64')});
    }
    request.end();
  }, 50);
}
next();
"""


class StreamTest(WorkerTest):
    gpu = "none"

    def setUp(self):
        self.client = boto3.client("lambda", endpoint_url=self.worker.endpoint, region_name="us-east-1",
                                   aws_access_key_id="any", aws_secret_access_key="any")

    def create(self, name, source, streams=False, **options):
        tags = {"lambent:url-invoke-mode": "response_stream"} if streams else {}
        self.worker.create_python(name, source, tags=tags, **options)

    def stream(self, name, event=None, **options):
        """([chunks], the end) and the times at which the chunks came."""
        answer = self.client.invoke_with_response_stream(FunctionName=name, Payload=json.dumps(event or {}), **options)
        self.assertEqual(answer["StatusCode"], 200)
        chunks, times, end = [], [], None
        for each in answer["EventStream"]:
            if "PayloadChunk" in each:
                chunks.append(each["PayloadChunk"]["Payload"])
                times.append(time.monotonic())
            else:
                end = each["InvokeComplete"]
        return chunks, end, times

    def test_a_generator_streams(self):
        self.create("generator", GENERATOR)
        chunks, end, times = self.stream("generator", {"pause": 0.2}, LogType="Tail")
        self.assertEqual(b"".join(chunks), b"piece 0\npiece 1\npiece 2\n")
        self.assertNotIn("ErrorCode", end)
        self.assertIn("LogResult", end)
        self.assertGreater(times[-1] - times[0], 0.3, "the first came while the others were made")

    def test_an_asynchronous_generator_streams(self):
        self.create("asynchronous", "import asyncio\nasync def handler(event, context):\n"
                    "    for n in range(3):\n        await asyncio.sleep(0.01)\n        yield bytes([n])\n")
        for _ in range(2):
            chunks, end, _ = self.stream("asynchronous")
            self.assertEqual((b"".join(chunks), end.get("ErrorCode")), (b"\0\1\2", None))

    def test_who_wants_it_whole_gets_it_whole(self):
        self.create("whole", GENERATOR)
        answer = self.client.invoke(FunctionName="whole", Payload=b"{}")
        self.assertEqual(answer["Payload"].read(), b"piece 0\npiece 1\npiece 2\n")

    def test_an_answer_that_does_not_stream_is_one_piece(self):
        self.create("plain", "def handler(e, c): return {'a': 1}")
        chunks, end, _ = self.stream("plain")
        self.assertEqual((json.loads(b"".join(chunks)), end.get("ErrorCode")), ({"a": 1}, None))

    def test_errors_come_at_the_end(self):
        self.create("halfway", "def handler(e, c):\n    yield 'half'\n    raise KeyError('gone')\n")
        chunks, end, _ = self.stream("halfway")
        self.assertEqual((chunks, end["ErrorCode"]), ([b"half"], "Unhandled"))
        self.assertEqual(json.loads(end["ErrorDetails"])["errorType"], "KeyError")
        self.create("at_once", "def handler(e, c):\n    raise KeyError('gone')\n    yield\n")
        chunks, end, _ = self.stream("at_once")
        self.assertEqual((chunks, json.loads(end["ErrorDetails"])["errorType"]), ([], "KeyError"))
        self.create("wrong", "def handler(e, c):\n    yield 'a'\n    yield 5\n")
        self.assertEqual(json.loads(self.stream("wrong")[1]["ErrorDetails"])["errorType"], "TypeError")
        self.create("dies", "import os\ndef handler(e, c):\n    yield 'half'\n    os._exit(3)\n")
        chunks, end, _ = self.stream("dies")
        self.assertEqual((chunks, end["ErrorCode"]), ([b"half"], "Unhandled"))
        self.create("endless", "import time\ndef handler(e, c):\n    while True:\n        yield 'x'\n        time.sleep(0.05)\n",
                    timeout=1)
        chunks, end, _ = self.stream("endless")
        self.assertGreater(len(chunks), 5)
        self.assertIn("Task timed out", end["ErrorDetails"])
        self.assertEqual(self.stream("halfway")[0], [b"half"], "its sandbox serves on")

    def test_refusals_are_errors_of_the_call(self):
        with self.assertRaises(self.client.exceptions.ResourceNotFoundException):
            self.client.invoke_with_response_stream(FunctionName="nobody")

    def test_large_answers_pass_with_little_memory(self):
        self.create("large", "def handler(e, c):\n    for _ in range(e['n']):\n        yield bytes(1 << 20)\n", timeout=60)
        chunks, end, _ = self.stream("large", {"n": 64})
        self.assertEqual((sum(map(len, chunks)), end.get("ErrorCode")), (64 << 20, None))
        chunks, end, _ = self.stream("large", {"n": 300})
        self.assertIn("Exceeded maximum allowed payload size", end["ErrorDetails"])

    def open(self, path, name):
        connection = http.client.HTTPConnection(*self.worker.address, timeout=60)
        connection.request("GET", f"/f/{name}{path}")
        return connection, connection.getresponse()

    def test_a_url_streams(self):
        self.create("url", "import time\ndef handler(event, context):\n"
                    "    yield {'statusCode': 207, 'headers': {'X-A': '1'}, 'cookies': ['c=1']}\n"
                    "    yield 'first'\n    time.sleep(0.5)\n    yield 'second'\n", streams=True)
        for _ in range(2):
            connection, response = self.open("/", "url")
            began = time.monotonic()
            self.assertEqual((response.status, response.getheader("X-A"), response.getheader("Set-Cookie")), (207, "1", "c=1"))
            self.assertEqual(response.read1(), b"first")
            self.assertEqual(response.read(), b"second")
            self.assertGreater(time.monotonic() - began, 0.3)
            connection.close()

    def test_a_url_that_fails_in_the_middle_is_cut_off(self):
        self.create("cut", "def handler(e, c):\n    yield 'half'\n    raise KeyError()\n", streams=True)
        _, response = self.open("/", "cut")
        self.assertEqual(response.status, 200)
        with self.assertRaises((http.client.IncompleteRead, ConnectionError)):
            response.read()
        self.create("first", "def handler(e, c):\n    raise KeyError()\n    yield\n", streams=True)
        self.assertEqual(self.open("/", "first")[1].status, 502)

    def test_the_function_stops_when_its_client_leaves(self):
        self.create("left", "import time\ndef handler(event, context):\n    try:\n        while True:\n"
                    "            yield 'x' * 1000\n            time.sleep(0.02)\n    finally:\n        print('closed early')\n",
                    streams=True)
        connection, response = self.open("/", "left")
        self.assertEqual(response.read(1), b"x")
        response.close()
        connection.close()
        log = lambda: self.worker.request("GET", "/v1/functions/left/log").body.decode()
        self.worker.wait_for(lambda: "closed early" in log(), what="the generator's end")
        self.worker.wait_for(lambda: "REPORT" in log(), what="the invocation's end")
        # Its sandbox is there for the next one.
        connection, response = self.open("/", "left")
        self.assertEqual(response.read(1), b"x")
        connection.close()

    def test_a_client_that_does_not_read_holds_the_function_back(self):
        self.create("fast", "def handler(event, context):\n    for n in range(100):\n"
                    "        yield bytes(1 << 20)\n        print('sent', n)\n", streams=True, timeout=60)
        connection = socket.create_connection(self.worker.address)
        connection.sendall(b"GET /f/fast/ HTTP/1.1\r\nHost: localhost\r\n\r\n")
        time.sleep(2)
        log = self.worker.request("GET", "/v1/functions/fast/log").body.decode()
        self.assertLess(log.count("sent"), 60, "what waits is in the buffers of sockets")
        received = 0
        while received < 100 << 20:
            got = len(connection.recv(1 << 20))
            self.assertGreater(got, 0)
            received += got
        connection.close()

    @unittest.skipUnless(shutil.which("node"), "there is no Node.js")
    def test_streams_of_node(self):
        self.worker.create("node", make_zip({"bootstrap": (NODE, 0o755)}), runtime="provided.al2023",
                           tags={"lambent:url-invoke-mode": "response_stream"}, memory=1024)
        _, response = self.open("/", "node")
        self.assertEqual((response.status, response.getheader("X-Made-By"), response.read()), (201, "node", b"hello world"))
        _, response = self.open("/?fail", "node")
        with self.assertRaises((http.client.IncompleteRead, ConnectionError)):
            response.read()
        chunks, end, _ = self.stream("node", {"fail": True})
        self.assertTrue(b"".join(chunks).endswith(b"\0\0\0\0\0\0\0\0hello world"))
        self.assertEqual(json.loads(end["ErrorDetails"])["errorType"], "Oops")


if __name__ == "__main__":
    unittest.main()
