"""A cluster whose nodes are drained, stopped and started one after the other under load, as an upgrade does it; and `lambent cluster`."""
import http.server
import itertools
import json
import subprocess
import threading
import unittest

from cluster_world import WITNESSED, Load, SlowLink, Witness
from harness import PREFIX, HttpError, make_zip
from test_cluster import Cluster


class Strange(http.server.BaseHTTPRequestHandler):
    """A node that answers what it was told to."""

    def do_GET(self):
        body = json.dumps(self.server.report).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


class StrangeNodes(unittest.TestCase):
    GOOD = {"node": "s", "version": "9.9", "takes_work": True, "slots": 4, "load": 0, "memory_free": 1 << 30,
            "gpus": [{"name": "T4", "memory_bytes": 1 << 34}], "warm": []}

    def test_a_node_that_says_what_cannot_be_gets_nothing_and_the_list_tells_why(self):
        cluster = Cluster(self, names="a")
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Strange)
        server.report = self.GOOD
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
        members = [{"node": "a", "address": cluster.addresses["a"]}, {"node": "s", "address": f"http://127.0.0.1:{server.server_port}"}]
        cluster["a"].request("PUT", "/v1/cluster/members", json.dumps({"source": "file", "members": members}))

        def strange():
            return next(member for member in cluster.status("a")["members"] if member["node"] == "s")
        cluster.wait_for(lambda: strange()["state"] == "up")
        self.assertEqual((strange()["version"], strange()["problem"]), ("9.9", ""))
        for changed, words in (({"memory_free": 1 << 35}, "free GPU memory"),                # a lie
                               ({"for_functions": [1 << 35]}, "for a function on one of its GPUs"),
                               ({"for_functions": [1, 1]}, "2 GPUs for functions, and has 1"),
                               ({"slots": "many"}, "node 's' version 9.9: upgrade this node"),          # another version's
                               ({"node": "t"}, "node 't' answers at its address")):
            server.report = {**self.GOOD, **changed}
            with self.subTest(words):
                cluster.wait_for(lambda words=words: words in strange()["problem"])
                cluster.wait_for(lambda: strange()["state"] == "lost")
                shown = subprocess.run([PREFIX / "bin/lambent", "cluster", "ls", "--endpoint", cluster["a"].endpoint], capture_output=True,
                                       text=True, timeout=60).stdout
                self.assertIn(words, shown)
        server.report = self.GOOD
        cluster.wait_for(lambda: strange()["state"] == "up")
        self.assertEqual(strange()["problem"], "")


SERVED = """
import http.server, json, os
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps(handler(event, None)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""


BY_URL = """
import base64, json
def by_url(event, context):
    body = event["body"]
    return handler(json.loads(base64.b64decode(body) if event["isBase64Encoded"] else body), context)
"""


class OlderLink(SlowLink):
    """The way to a node of a program before, which does not keep functions from saying what nodes tell each other."""

    def changed(self, data):
        return data.replace(b'"tells_not_begun"', b'"tells_otherwise"').replace(b"X-Function-Says-It!", self.word)


class WhatAFunctionSays(unittest.TestCase):
    PROGRAM = """
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(404)
        self.send_header("X-Function-Says-It!", "true")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"it")
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""

    def test_its_request_does_not_run_twice_because_of_words_between_nodes(self):
        for word in (b"X-Lambent-Not-Begun", b"X-Lambent-Not-Here"):
            cluster = Cluster(self, names="ab", told=False)
            link = OlderLink(self, cluster["b"].address[1], 0)
            link.word = word
            members = [{"node": "a", "address": cluster.addresses["a"]}, {"node": "b", "address": f"http://127.0.0.1:{link.port}"}]
            for name in "ab":
                cluster[name].request("PUT", "/v1/cluster/members", json.dumps({"source": "test", "members": members}))
                cluster.wait_for(lambda name=name, cluster=cluster: set(cluster.states(name).values()) == {"up"})
            cluster["a"].create("web", make_zip({"app.py": self.PROGRAM}), runtime="python3", handler="python3 app.py",
                                tags={"lambent:kind": "http"})
            cluster.set_drained("a", True)
            with self.subTest(word):
                with self.assertRaises(HttpError) as caught:
                    cluster["a"].request("GET", "/f/web/")
                self.assertEqual((caught.exception.status, caught.exception.body), (404, b"it"))
                self.assertEqual(cluster.completed("web"), {"a": 0, "b": 1})


# A queue of six runs is no overload here, however long they take on a busy machine.
ONE_AND_NO_BOUND = {"lambent:max-concurrency": "1", "lambent:max-queue-time": "0"}


class Upgrade(unittest.TestCase):
    def setUp(self):
        self.witness = Witness(self)
        self.cluster = Cluster(self, flags=("--mount-allow", str(self.witness.folder)))
        self.cluster.wait_until_up()
        self.cluster["a"].create_python("work", WITNESSED, tags=self.witness.tags)

    def command(self, node, *words, code=0):
        done = subprocess.run([PREFIX / "bin/lambent", "cluster", *words, "--endpoint", self.cluster[node].endpoint], capture_output=True,
                              text=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def test_a_rolling_upgrade_costs_no_request(self):
        load = Load(self.cluster.nodes, "work", threads=2, moves_on=True)
        self.addCleanup(load.stop)
        load.wait_for(30)
        for name in "abc":
            other = "b" if name == "a" else "a"
            self.command(other, "drain", name, "--wait", "60")
            self.assertEqual(self.cluster.states(other)[name], "draining")
            ran = self.cluster.completed("work")[name]
            load.wait_for(20)  # what its clients send goes to others
            self.assertEqual(self.cluster.completed("work")[name], ran)
            self.assertEqual(self.cluster[name].stop(), 0)
            load.wait_for(20)
            self.cluster[name].start()
            self.cluster.wait_until_up()
            load.wait_for(20)
        load.stop()
        self.assertEqual(load.failed, {})
        self.cluster.wait_for(lambda: all(self.witness.ended[run] > 0 for run in [*load.accepted, *load.answered]), 60)
        self.assertEqual([run for run, times in self.witness.begun.items() if times > 1], [])

    def test_what_a_node_that_stops_has_not_begun_is_run_by_another(self):
        self.cluster["a"].invoke("work", {"id": "first"})
        owner = self.cluster.owner("work")
        # More than it runs at once: some of it waits there when it stops, and no drain comes before.
        load = Load({name: self.cluster[name] for name in "abc" if name != owner}, "work", threads=6, seconds=0.2)
        self.addCleanup(load.stop)
        load.wait_for(60)
        self.assertGreater(self.cluster.completed("work")[owner], 1)
        self.assertEqual(self.cluster[owner].stop(), 0)
        load.wait_for(30)
        load.stop()
        self.assertEqual(load.failed, {})
        self.cluster[owner].start()  # which has what it accepted
        self.cluster.wait_for(lambda: all(self.witness.ended[run] > 0 for run in [*load.accepted, *load.answered]), 60)
        self.assertEqual([run for run, times in self.witness.begun.items() if times > 1], [])

    def test_so_are_requests_with_short_bodies_that_stream(self):
        self.cluster["a"].create("web", make_zip({"app.py": WITNESSED + SERVED}), runtime="python3", handler="python3 app.py",
                                 tags={"lambent:kind": "http", **ONE_AND_NO_BOUND, **self.witness.tags})
        self.check_bodies()

    def test_so_are_bodies_for_the_urls_of_handlers(self):
        self.cluster["a"].create("web", make_zip({"app.py": WITNESSED + BY_URL}), runtime="python3", handler="app.by_url",
                                 tags={**ONE_AND_NO_BOUND, **self.witness.tags})
        self.check_bodies()

    def check_bodies(self):
        """POSTs to nodes one of which stops: each is answered, by the node that is asked or by another, and runs once."""
        self.cluster["a"].request("POST", "/f/web/", json.dumps({"id": "first"}))
        owner = self.cluster.owner("web")
        done, answered, failed = threading.Event(), [], []

        def ask(name, number):
            for turn in itertools.count():
                if done.is_set():
                    return
                run = f"{name}-{number}-{turn}"
                try:
                    reply = self.cluster[name].request("POST", "/f/web/", json.dumps({"id": run, "seconds": 0.2}))
                    (answered if reply.json == {"id": run} else failed).append(run)
                except (HttpError, OSError) as error:
                    failed.append((run, error))

        def queued():
            rows = self.cluster[owner].request("GET", "/v1/functions", headers={"X-Lambent-Only-Here": "true"}).json["functions"]
            return sum(row["queued"] for row in rows if row["name"] == "web")
        # More than it runs at once, as above.
        callers = [threading.Thread(target=ask, args=(name, number)) for name in "abc" if name != owner for number in range(6)]
        for caller in callers:
            caller.start()
        try:
            self.cluster.wait_for(lambda: len(answered) > 30, 60)
            self.cluster.wait_for(lambda: queued() > 1, 60)
            self.assertEqual(self.cluster[owner].stop(), 0)
            before = len(answered)
            self.cluster.wait_for(lambda: len(answered) > before + 30, 60)
        finally:
            done.set()
            for caller in callers:
                caller.join(60)
        self.assertEqual(failed, [])
        self.assertEqual([run for run, times in self.witness.begun.items() if times > 1], [])

    def test_a_node_gets_work_again_and_who_waits_too_short_is_told(self):
        self.cluster["a"].invoke("work", {"id": "first"})
        owner = self.cluster.owner("work")
        other = next(name for name in "abc" if name != owner)
        accepted = self.cluster[other].invoke("work", {"id": "long", "seconds": 3}, "Event")
        self.assertEqual(accepted.status, 202)
        self.cluster.wait_for(lambda: self.witness.begun["long"] == 1)
        self.assertIn("still has work", self.command(other, "drain", owner, "--wait", "1", code=14))
        # All others too: then the one that is asked answers by itself.
        for name in "abc":
            self.command(name, "drain", name)
        self.assertEqual(self.cluster[other].invoke("work", {"id": "none"}).json, {"id": "none"})
        listed = self.command(other, "undrain", owner)
        self.assertIn("home", listed)
        self.cluster.wait_for(lambda: self.cluster.states(other)[owner] == "up")
        self.cluster[other].invoke("work", {"id": "again"})
        self.assertGreater(self.cluster.completed("work")[owner], 1)
        rows = json.loads(self.command(other, "ls", "--json"))["members"]
        self.assertEqual({row["node"]: row["state"] for row in rows}[owner], "up")
        self.assertTrue(all(row["version"] for row in rows))

    def test_a_repeat_joins_the_first_that_a_drained_node_still_has(self):
        self.cluster["a"].invoke("work", {"id": "first"})
        owner = self.cluster.owner("work")
        entry = next(name for name in "abc" if name != owner)
        key, answers = {"amz-sdk-invocation-id": "6f1b1f0e-2f4e-4f6e-9d5a-000000000007"}, []

        def ask():
            answers.append(self.cluster[entry].invoke("work", {"id": "long", "seconds": 4}, headers=key).json)

        callers = [threading.Thread(target=ask) for _ in range(2)]
        callers[0].start()
        self.cluster.wait_for(lambda: self.witness.begun["long"] == 1)
        self.command(entry, "drain", owner)
        self.cluster.wait_for(lambda: self.cluster.states(entry)[owner] == "draining")
        callers[1].start()
        for caller in callers:
            caller.join(30)
        self.assertEqual((answers, self.witness.begun["long"]), ([{"id": "long"}] * 2, 1))

    def test_mistakes_are_named(self):
        self.assertIn("there is no node 'd'", self.command("a", "drain", "d", code=15))
        with self.assertRaises(HttpError) as caught:
            self.cluster["a"].request("POST", "/v1/cluster/nodes/a/stop")
        self.assertEqual(caught.exception.status, 404)
        with self.assertRaises(HttpError) as caught:
            self.cluster["a"].request("GET", "/v1/cluster/nodes/a/drain")
        self.assertEqual(caught.exception.status, 405)

    def test_metrics_tell_of_the_others(self):
        for name in "abc":
            self.cluster[name].invoke("work", {"id": name})
        text = [self.cluster[name].metrics() for name in "abc"]
        self.assertTrue(all('lambent_cluster_members{state="up"} 3' in each for each in text))
        forwarded = [float(each.partition('lambent_cluster_requests_total{what="forwarded"} ')[2].split()[0]) for each in text]
        timed = [float(each.partition("lambent_cluster_forward_seconds_count ")[2].split()[0]) for each in text]
        self.assertEqual(sum(forwarded), 2)
        self.assertEqual(sum(timed), 2)


if __name__ == "__main__":
    unittest.main()
