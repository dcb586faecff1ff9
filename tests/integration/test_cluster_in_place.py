"""A node of a cluster that becomes another program in place, and is silent meanwhile as it announced: over TLS, where it makes no
handshake; with a request that its time to end cuts off; and as the only node with the slices of a pipeline."""
import itertools
import json
import threading
import unittest

from cluster_world import WITNESSED, Witness
from harness import HttpError, make_zip
from test_cluster import Cluster
from test_cluster_between_builds import Node
from test_pipelines import APP, pipeline, profile


class Call(threading.Thread):
    """A call in a thread of its own; its answer, or what became of it."""

    def __init__(self, node, function, event):
        super().__init__()
        self.node, self.function, self.event, self.result = node, function, event, None
        self.start()

    def run(self):
        try:
            self.result = self.node.invoke(self.function, self.event).json
        except (HttpError, OSError) as error:
            self.result = error

    def end(self):
        self.join(60)
        return self.result


class InPlace(unittest.TestCase):
    """b gives way, and a is asked."""

    def begin(self, **options):
        self.cluster = Cluster(self, names="ab", worker=Node, **options)
        self.cluster.wait_until_up()

    def begin_to_give_way(self):
        """Until the old program accepts nothing more; how often it had begun to listen."""
        node = self.cluster["b"]
        node.install_this()
        before = node.events("listening")
        node.replace()
        node.wait_for(lambda: node.events("replacing"), 60, "the check")
        self.cluster.wait_for(lambda: self.cluster.states("a")["b"] == "draining")
        return before

    def wait_until_replaced(self, before):
        """All the while the other node does not take it for lost."""
        states = set()

        def listens():
            states.add(self.cluster.states("a")["b"])
            return self.cluster["b"].events("listening") > before
        self.cluster.wait_for(listens, 60)
        self.assertLessEqual(states, {"draining", "up"})
        self.cluster.wait_until_up()


class WorkOfANodeThatGivesWay(InPlace):
    def setUp(self):
        self.witness = Witness(self)

    def begin_work(self, *flags, **options):
        """Only b has a GPU for it."""
        self.begin(gpu={"a": "none", "b": "emulated:tiny"}, flags=("--mount-allow", str(self.witness.folder), *flags), **options)
        self.cluster["a"].create_python("work", WITNESSED, tags={**self.witness.tags, "lambent:gpu-memory": "64MiB"})

    def long_call(self, seconds):
        call = Call(self.cluster["a"], "work", {"id": "long", "seconds": seconds})
        self.cluster.wait_for(lambda: self.witness.begun["long"] == 1)
        return call

    def test_over_tls_what_it_has_is_answered_and_what_comes_waits_for_its_handshake(self):
        self.begin_work("--drain", "20", over_tls=True)
        long = self.long_call(8)
        before = self.begin_to_give_way()
        self.assertTrue(self.cluster["b"].endpoint.startswith("https://"))
        again = Call(self.cluster["a"], "work", {"id": "meanwhile"})
        self.wait_until_replaced(before)
        self.assertEqual((long.end(), again.end()), ({"id": "long"}, {"id": "meanwhile"}))
        self.assertEqual((self.witness.begun["long"], self.witness.begun["meanwhile"]), (1, 1))

    def test_a_request_that_takes_longer_than_it_may_is_cut_off_and_no_other(self):
        self.begin_work("--drain", "2")
        long = self.long_call(25)
        before = self.begin_to_give_way()
        self.wait_until_replaced(before)
        error = long.end()
        self.assertIsInstance(error, HttpError)
        self.assertEqual((error.status, error.headers.get("x-lambent-code")), (503, "UNAVAILABLE"), error)
        self.assertEqual(self.cluster["a"].invoke("work", {"id": "after"}).json, {"id": "after"})
        self.assertEqual((self.witness.begun["long"], self.witness.ended["long"]), (1, 0))
        self.assertEqual(self.cluster.completed("work")["b"], 1, "of the new program")


class PipelineOfANodeThatGivesWay(InPlace):
    def test_its_requests_wait_for_the_new_program(self):
        self.begin(gpu={"a": "none", "b": "emulated:a100-80gb-mig"}, own_flags={"b": ("--pipeline-slices", "all")}, flags=("--drain", "20"))
        package = make_zip({"app.py": APP, "pipeline.json": json.dumps(pipeline()), "profile.json": json.dumps(profile(15000))})
        self.cluster["a"].create("p", package, handler="pipeline.json", timeout=30, tags={"lambent:kind": "pipeline"})
        self.assertEqual(self.cluster["a"].invoke("p", {"n": 1}).json["n"], 30)
        numbers, answers, accepted, ended = itertools.count(1), {}, {}, threading.Event()

        def call():
            while not ended.is_set():
                n = next(numbers)
                try:
                    reply = self.cluster["a"].invoke("p", {"n": n, "seconds": 0.02}, kind="Event" if n % 3 == 0 else None)
                except (HttpError, OSError) as error:
                    answers[n] = error
                    return
                if n % 3 == 0:
                    accepted[n] = reply.headers["x-amzn-requestid"]
                else:
                    answers[n] = reply.json["n"]
        callers = [threading.Thread(target=call) for _ in range(2)]
        for caller in callers:
            caller.start()
        # One that takes longer than three questions without an answer.
        long = Call(self.cluster["a"], "p", {"n": 5, "seconds": 7, "slow": "first"})
        before = self.begin_to_give_way()
        self.wait_until_replaced(before)
        reached = len(answers)
        self.cluster.wait_for(lambda: len(answers) > reached + 4)
        ended.set()
        for caller in callers:
            caller.join(60)
        self.assertEqual(long.end()["n"], 150)
        self.assertEqual(answers, {n: 30 * n for n in answers})
        for n, invocation in accepted.items():
            result = f"/v1/invocations/{invocation}"
            self.cluster.wait_for(lambda result=result: self.cluster["a"].request("GET", result).status == 200)
            self.assertEqual(self.cluster["a"].request("GET", result).json["n"], 30 * n)


if __name__ == "__main__":
    unittest.main()
