"""InvokeWithResponseStream in a cluster: it runs where routing says, its pieces come as they are made, and what is lost in the middle
ends as the protocol has it."""
import http.client
import json
import os
import signal
import socket
import struct
import time
import unittest
import zlib

from cluster_world import Witness
from test_cluster import Cluster

STREAMS = """
import socket, time
def tell(what, event):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as door:
        door.sendto(f"{what} {event['id']}".encode(), "/witness/door")
def handler(event, context):
    tell("begin", event)
    try:
        for number in range(event.get("count", 3)):
            yield f"piece {number}\\n"
            time.sleep(event.get("pause", 0))
        tell("end", event)
    finally:
        print("closed", event["id"])
"""
FAST = """
def handler(event, context):
    for number in range(100):
        yield bytes(1 << 20)
        print("sent", number)
"""


class Frames:
    """The frames of an event stream, as they come: (type, payload, when)."""

    def __init__(self, response):
        self.response = response

    def exactly(self, size):
        data = b""
        while len(data) < size:
            piece = self.response.read(size - len(data))
            if not piece:
                if data:
                    raise AssertionError(f"a frame is cut off after {len(data)} bytes")
                return b""
            data += piece
        return data

    def __iter__(self):
        while prelude := self.exactly(12):
            total, headers, checksum = struct.unpack(">III", prelude)
            assert zlib.crc32(prelude[:8]) == checksum
            rest = self.exactly(total - 12)
            assert zlib.crc32(prelude + rest[:-4]) == struct.unpack(">I", rest[-4:])[0]
            fields, text = {}, rest[:headers]
            while text:
                name, text = text[1:1 + text[0]], text[1 + text[0]:]
                size = struct.unpack(">H", text[1:3])[0]
                fields[name.decode()], text = text[3:3 + size].decode(), text[3 + size:]
            yield fields[":event-type"], rest[headers:-4], time.monotonic()


class StreamsOfACluster(unittest.TestCase):
    def setUp(self):
        self.witness = Witness(self)
        self.cluster = Cluster(self, flags=("--mount-allow", str(self.witness.folder)))
        self.cluster.wait_until_up()

    def deploy(self, name="stream", source=STREAMS):
        self.cluster["a"].create_python(name, source, tags=self.witness.tags, timeout=60)

    def open(self, node, event, name="stream"):
        connection = self.cluster[node].connect()
        self.addCleanup(connection.close)
        connection.request("POST", f"/2021-11-15/functions/{name}/response-streaming-invocations", json.dumps(event))
        return connection, connection.getresponse()

    def stream(self, node, event, name="stream"):
        _, response = self.open(node, event, name)
        self.assertEqual(response.status, 200, response.msg)
        return list(Frames(response))

    @staticmethod
    def streamed(frames):
        """The pieces, which a slow machine may join."""
        return b"".join(payload for kind, payload, _ in frames if kind == "PayloadChunk")

    def settle(self, name="stream"):
        """The node on which it is warm, and another one."""
        self.stream("a", {"id": "first", "count": 1}, name)
        self.cluster.wait_for(lambda: sum(self.cluster.completed(name).values()) == 1)
        owner = self.cluster.owner(name)
        time.sleep(1.2)  # until the others know
        return owner, next(each for each in "cba" if each != owner)

    def test_it_runs_where_it_is_warm_at_any_node_that_is_asked(self):
        self.deploy()
        self.settle()
        for name in "abc":
            frames = self.stream(name, {"id": f"of-{name}"})
            self.assertEqual(self.streamed(frames), b"piece 0\npiece 1\npiece 2\n")
            self.assertEqual(frames[-1][0], "InvokeComplete")
            self.assertNotIn("ErrorCode", json.loads(frames[-1][1]))
        self.cluster.wait_for(lambda: sum(self.cluster.completed("stream").values()) == 4)
        self.assertEqual(sorted(self.cluster.completed("stream").values()), [0, 0, 4])

    def test_versions_run_elsewhere_too(self):
        self.deploy()
        self.cluster["b"].request("POST", "/2015-03-31/functions/stream/versions", "{}")
        _, other = self.settle()
        frames = self.stream(other, {"id": "version"}, "stream%3A1")
        self.assertEqual(self.streamed(frames), b"piece 0\npiece 1\npiece 2\n")
        self.assertEqual(frames[-1][0], "InvokeComplete")

    def test_pieces_come_as_they_are_made(self):
        self.deploy()
        _, other = self.settle()
        frames = self.stream(other, {"id": "slow", "count": 3, "pause": 0.5})
        times = [when for _, _, when in frames]
        self.assertGreater(times[-1] - times[0], 1.0)
        self.assertGreater(times[2] - times[1], 0.2)

    def test_a_function_that_fails_says_so(self):
        self.deploy("bad", "def handler(event, context):\n    yield 'half'\n    raise KeyError('x')\n")
        for name in "abc":
            frames = self.stream(name, {"id": "bad"}, "bad")
            self.assertEqual(json.loads(frames[-1][1])["ErrorCode"], "Unhandled")

    def test_what_does_not_run_is_refused_in_the_apis_words(self):
        _, response = self.open("b", {}, "none")
        self.assertEqual((response.status, response.getheader("x-amzn-ErrorType")), (404, "ResourceNotFoundException"))

    def test_the_function_ends_when_its_client_leaves(self):
        self.deploy()
        owner, other = self.settle()
        connection, response = self.open(other, {"id": "left", "count": 10_000, "pause": 0.05})
        next(iter(Frames(response)))
        response.close()
        connection.close()

        def log():
            return self.cluster[owner].request("GET", "/v1/functions/stream/log", headers={"X-Lambent-Only-Here": "true"}).body.decode()
        self.cluster.wait_for(lambda: "closed left" in log())
        self.assertEqual(self.witness.ended["left"], 0)
        # Its sandbox is there for the next one.
        self.assertEqual(self.streamed(self.stream(other, {"id": "next"})), b"piece 0\npiece 1\npiece 2\n")

    def test_a_client_that_does_not_read_holds_the_function_back(self):
        self.deploy("fast", FAST)
        self.cluster["a"].invoke("fast", {})  # where it is warm from now on
        owner = self.cluster.owner("fast")
        time.sleep(1.2)
        other = next(each for each in "cba" if each != owner)
        connection = self.cluster[other].connect()
        connection.request("POST", "/2021-11-15/functions/fast/response-streaming-invocations", "{}")

        def sent():
            log = self.cluster[owner].request("GET", "/v1/functions/fast/log", headers={"X-Lambent-Only-Here": "true"}).body
            return log.count(b"sent") - 100  # without those of the first call
        time.sleep(3)
        self.assertLess(sent(), 60, "what waits is in the buffers of sockets")
        frames = list(Frames(connection.getresponse()))
        self.assertEqual(len(self.streamed(frames)), 100 << 20)
        connection.close()

    def test_a_node_that_is_killed_ends_the_stream_with_an_event(self):
        self.deploy()
        owner, other = self.settle()
        _, response = self.open(other, {"id": "lost", "count": 1000, "pause": 0.05})
        frames = iter(Frames(response))
        kind, payload, _ = next(frames)
        self.assertEqual((kind, payload[:8]), ("PayloadChunk", b"piece 0\n"))
        self.cluster[owner].kill()
        *_, (kind, payload, _) = frames
        self.assertEqual(kind, "InvokeComplete")
        end = json.loads(payload)
        self.assertEqual(end["ErrorCode"], "NodeLost")
        self.assertIn(f"node '{owner}' was lost", end["ErrorDetails"])
        time.sleep(1)
        self.assertEqual((self.witness.begun["lost"], self.witness.ended["lost"]), (1, 0))

    def test_a_node_that_freezes_ends_the_stream_within_seconds(self):
        self.deploy()
        owner, other = self.settle()
        _, response = self.open(other, {"id": "frozen", "count": 1000, "pause": 0.05})
        frames = iter(Frames(response))
        next(frames)
        os.kill(self.cluster[owner].process.pid, signal.SIGSTOP)
        try:
            *_, (kind, payload, _) = frames
            self.assertEqual((kind, json.loads(payload)["ErrorCode"]), ("InvokeComplete", "NodeLost"))
        finally:
            os.kill(self.cluster[owner].process.pid, signal.SIGCONT)

    def test_a_node_that_is_lost_before_the_answer_begins_is_503_and_runs_nothing_twice(self):
        source = STREAMS.replace("    try:\n", "    time.sleep(event.get('first', 0))\n    try:\n")
        self.deploy(source=source)
        owner, other = self.settle()
        connection = self.cluster[other].connect()
        self.addCleanup(connection.close)
        connection.request("POST", "/2021-11-15/functions/stream/response-streaming-invocations", json.dumps({"id": "early", "first": 30}))
        self.cluster.wait_for(lambda: self.witness.begun["early"] == 1)
        self.cluster[owner].kill()
        response = connection.getresponse()
        self.assertEqual((response.status, response.getheader("x-lambent-code")), (503, "UNAVAILABLE"))
        self.assertIn(b"NodeLost", response.read())
        time.sleep(1)
        self.assertEqual(self.witness.begun["early"], 1)

    def test_urls_that_stream_run_elsewhere_and_are_cut_off_where_a_node_is_lost(self):
        self.cluster["a"].create_python("url", STREAMS.replace("event['id']", "'url'").replace('event["id"]', "'url'")
                                        .replace("event.get(\"pause\", 0)", "0.05").replace("event.get(\"count\", 3)", "200"),
                                        tags={**self.witness.tags, "lambent:url-invoke-mode": "response_stream"}, timeout=60)
        connection = self.cluster["a"].connect()
        connection.request("GET", "/f/url/")
        self.assertEqual(connection.getresponse().read().count(b"piece"), 200)
        connection.close()
        owner = self.cluster.owner("url")
        time.sleep(1.2)
        other = next(each for each in "cba" if each != owner)
        connection = self.cluster[other].connect()
        self.addCleanup(connection.close)
        connection.request("GET", "/f/url/")
        response = connection.getresponse()
        self.assertEqual(response.read(5), b"piece")
        self.cluster.wait_for(lambda: self.witness.begun["url"] == 2)
        self.cluster[owner].kill()
        with self.assertRaises((http.client.IncompleteRead, ConnectionError, socket.timeout)):
            response.read()
        self.assertEqual(self.witness.begun["url"], 2)


if __name__ == "__main__":
    unittest.main()
