"""Three workers as one cluster: any of them answers, one deployment is enough, and what becomes of requests when one is
killed, frozen or cut off."""
import json
import pathlib
import shutil
import signal
import tempfile
import threading
import time
import unittest

from certificates import Authority
from harness import HttpError, Worker, claim_ports, make_zip
from tenants import Caller, Operator

ECHO = """
import os, time
def handler(event, context):
    time.sleep(event.get("seconds", 0))
    return {"event": event, "version": VERSION}
"""


def tls_options(authority, name):
    """The flags of a node that shows a certificate and wants one of its clients, and the ssl.SSLContext of such a client."""
    certificate, key = authority.issue(name)
    return (("--tls-certificate", str(certificate), "--tls-key", str(key), "--tls-client-ca", str(authority.certificate),
             "--tls-client-required"), authority.context(certificate, key))


class Cluster:
    """Workers with one key, each told of all by its flags."""

    def __init__(self, test, names="abc", flags=(), key="k" * 40, told=True, policy="bounded-hash", gpu="none", own_flags=None,
                 clocks=None, worker=Worker, over_tls=False):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-cluster-"))
        test.addCleanup(shutil.rmtree, folder, True)
        (folder / "key").write_text(key)
        ports = claim_ports(len(names))
        self.addresses = {name: f"http{'s' if over_tls else ''}://127.0.0.1:{port}" for name, port in zip(names, ports)}
        authority = Authority(folder) if over_tls else None
        listed = [flag for name in names for flag in ("--cluster-node", f"{name}={self.addresses[name]}")]
        self.nodes, self.folder = {}, folder
        for name, port in zip(names, ports):
            tls_flags, context = tls_options(authority, name) if authority else ((), None)
            self.nodes[name] = worker("--cluster-key", str(folder / "key"), "--node-name", name, "--cluster-policy", policy,
                                      "--socket", str(folder / f"{name}.sock"), *(listed if told else ()), *tls_flags, *flags,
                                      *(own_flags or {}).get(name, ()), gpu=gpu[name] if isinstance(gpu, dict) else gpu,
                                      listen=f"127.0.0.1:{port}", environment=clocks[name].environment if clocks else None, tls=context)
            test.addCleanup(self.nodes[name].close)

    def __getitem__(self, name):
        return self.nodes[name]

    def status(self, name):
        return self[name].request("GET", "/v1/cluster").json

    def states(self, name):
        return {member["node"]: member["state"] for member in self.status(name)["members"]}

    def wait_for(self, what, seconds=15):
        end = time.monotonic() + seconds
        while not what():
            if time.monotonic() > end:
                raise AssertionError(f"it did not happen: {[self.status(n) for n in self.nodes if self[n].process.poll() is None]}")
            time.sleep(0.05)

    def wait_until_up(self, names=None):
        names = names or list(self.nodes)
        for name in names:
            self.wait_for(lambda name=name: all(self.states(name)[each] == "up" for each in names))

    def set_drained(self, names, drained):
        """Told to each of these nodes; until all others that run know."""
        for name in names:
            self[name].request("POST", f"/v1/cluster/nodes/{name}/{'drain' if drained else 'undrain'}")
        state = "draining" if drained else "up"
        for other in self.nodes:
            if self[other].process.poll() is None:
                self.wait_for(lambda other=other: all(self.states(other)[name] == state for name in names))

    def wait_for_outcomes(self, names, invocations, seconds=15):
        """Until each of these asynchronous invocations has its outcome at each of these nodes."""
        for name in names:
            for invocation in invocations:
                self.wait_for(lambda name=name, invocation=invocation: self[name].request(
                    "GET", f"/v1/invocations/{invocation}").status == 200, seconds)

    def operators(self):
        """Of nodes that want tokens, once they are up: each node's own, by its name."""
        operators = {name: Operator(self[name], self.folder / f"{name}.sock") for name in self.nodes}
        for name in self.nodes:
            self.wait_for(lambda name=name: {member["state"] for member in operators[name].request("GET", "/v1/cluster").json["members"]} == {"up"})
        return operators

    def completed(self, function, names=None):
        """How often it ran on each node, as the node itself says."""
        counts = {}
        for name in names or self.nodes:
            listed = self[name].request("GET", "/v1/functions", headers={"X-Lambent-Only-Here": "true"}).json["functions"]
            counts[name] = sum(each["completed"] for each in listed if each["name"] == function)
        return counts

    def owner(self, function, names=None):
        """The node on which it ran last, told by counts."""
        return max(self.completed(function, names).items(), key=lambda item: item[1])[0]


class ClassCleanup:
    """setUpClass as a test, to which Cluster adds its cleanups."""

    def __init__(self, cls):
        self.addCleanup = cls.addClassCleanup


def deploy(worker, name, version=1, **more):
    return worker.create_python(name, ECHO.replace("VERSION", str(version)), **more)


class OneClusterOfThree(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(self)
        self.cluster.wait_until_up()

    def test_every_node_knows_the_others_and_the_first_is_the_home(self):
        for name in "abc":
            status = self.cluster.status(name)
            self.assertEqual((status["self"], status["home"]), (name, "a"))
            self.assertEqual([member["node"] for member in status["members"]], ["a", "b", "c"])

    def test_a_function_that_is_deployed_at_one_is_known_at_all(self):
        deploy(self.cluster["b"], "echo")
        for name in "abc":
            reply = self.cluster[name].invoke("echo", {"from": name})
            self.assertEqual(reply.json, {"event": {"from": name}, "version": 1})
        # Wherever it was asked for, it ran where it is warm.
        self.assertEqual(sorted(self.cluster.completed("echo").values()), [0, 0, 3])

    def test_requests_of_anyone_to_an_open_url_go_where_it_is_warm_too(self):
        deploy(self.cluster["a"], "open", tags={"lambent:url-auth": "none"})
        path = "/t/default/f/open/"
        self.cluster["a"].request("GET", path)
        time.sleep(1.2)  # until the others know
        for name in "abc":
            self.assertEqual(self.cluster[name].request("GET", path).status, 200)
        self.assertEqual(sorted(self.cluster.completed("open").values()), [0, 0, 4])

    def test_a_function_without_a_sandbox_goes_where_it_ran_lately(self):
        deploy(self.cluster["a"], "echo", tags={"lambent:keep-alive": "1"})
        self.cluster["a"].invoke("echo", {})
        owner = self.cluster.owner("echo")

        def report(name):
            told = self.cluster[name].request("GET", "/v1/cluster/report").json
            return len(told["warm"]), len(told["fetched"])
        self.cluster.wait_for(lambda: report(owner) == (0, 1))
        for name in "abc":
            self.assertEqual(self.cluster[name].invoke("echo", {}).status, 200)
        self.assertEqual(self.cluster.completed("echo")[owner], 4)

    def test_each_request_runs_once(self):
        for each in range(4):
            deploy(self.cluster["a"], f"echo{each}")
        failures = []

        def ask(name):
            for number in range(20):
                try:
                    reply = self.cluster[name].invoke(f"echo{number % 4}", {"number": number})
                    if reply.json["event"] != {"number": number}:
                        failures.append(reply.json)
                except HttpError as error:
                    failures.append(error)

        threads = [threading.Thread(target=ask, args=(name,)) for name in "abc" for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        ran = [sum(self.cluster.completed(f"echo{each}").values()) for each in range(4)]
        self.assertEqual(ran, [30] * 4)
        self.assertGreater(sum(self.cluster.status(name)["requests"]["forwarded"] for name in "abc"), 0)

    def test_changes_and_removals_come_to_all(self):
        deploy(self.cluster["c"], "echo")
        self.cluster["b"].invoke("echo", {})
        zipped = make_zip({"app.py": ECHO.replace("VERSION", "2")})
        self.cluster["b"].request("PUT", "/2015-03-31/functions/echo/code", json.dumps(
            {"ZipFile": __import__("base64").b64encode(zipped).decode()}))
        for name in "abc":
            self.cluster.wait_for(lambda name=name: self.cluster[name].invoke("echo", {}).json["version"] == 2)
        self.cluster["c"].request("DELETE", "/2015-03-31/functions/echo")

        def is_gone(name):
            listed = self.cluster[name].request("GET", "/v1/functions").json["functions"]
            return listed == []
        for name in "abc":
            self.cluster.wait_for(lambda name=name: is_gone(name))

    def test_errors_of_functions_and_of_callers_are_those_of_one_node(self):
        with self.assertRaises(HttpError) as caught:
            self.cluster["b"].invoke("nothing", {})
        self.assertEqual((caught.exception.status, caught.exception.error_type), (404, "ResourceNotFoundException"))
        self.cluster["b"].create_python("bad", "def handler(event, context):\n    raise ValueError('no')\n")
        for name in "abc":
            reply = self.cluster[name].invoke("bad", {})
            self.assertEqual(reply.headers["x-amz-function-error"], "Unhandled")
            self.assertIn("no", reply.json["errorMessage"])

    def test_an_asynchronous_one_is_found_from_any_node(self):
        deploy(self.cluster["a"], "echo")
        ids = [self.cluster[name].invoke("echo", {"n": name}, headers={"X-Amz-Invocation-Type": "Event"})
               .headers["x-amzn-requestid"] for name in "abc"]
        for name in "abc":
            for each in ids:
                self.cluster.wait_for(
                    lambda name=name, each=each: self.cluster[name].request("GET", f"/v1/invocations/{each}").status == 200)
        with self.assertRaises(HttpError) as caught:
            self.cluster["b"].request("GET", "/v1/invocations/00000000-0000-4000-8000-000000000000")
        self.assertEqual(caught.exception.status, 404)

    def test_a_killed_node_costs_its_requests_and_no_others(self):
        deploy(self.cluster["a"], "slow")
        self.cluster["a"].invoke("slow", {})
        owner = self.cluster.owner("slow")
        entry = next(name for name in "abc" if name != owner)
        others = [name for name in "abc" if name != owner]
        before = self.cluster.completed("slow", others)
        outcome = []

        def ask():
            try:
                outcome.append(self.cluster[entry].invoke("slow", {"seconds": 20}))
            except HttpError as error:
                outcome.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        self.cluster.wait_for(lambda: self.cluster[owner].request("GET", "/v1/functions").json["functions"][0]["running"] == 1)
        self.cluster[owner].kill()
        thread.join(10)
        self.assertEqual(outcome[0].status, 503)
        self.assertIn(b"NodeLost", outcome[0].body)
        self.assertEqual(outcome[0].headers["x-lambent-code"], "UNAVAILABLE")
        # It was not sent again to another: a synchronous one runs at most once.
        self.assertEqual(self.cluster.completed("slow", others), before)
        for name in others:
            self.assertEqual(self.cluster[name].invoke("slow", {"after": name}).json["event"], {"after": name})
        self.cluster[owner].start()
        self.cluster.wait_until_up()

    def test_a_node_that_is_gone_between_requests_costs_none(self):
        deploy(self.cluster["a"], "echo")
        self.cluster["a"].invoke("echo", {})
        owner = self.cluster.owner("echo")
        others = [name for name in "abc" if name != owner]
        for name in others:
            self.cluster[name].invoke("echo", {})  # kept connections
        self.cluster[owner].kill()
        for name in others:
            self.assertEqual(self.cluster[name].invoke("echo", {"n": name}).json["event"], {"n": name})
        self.assertEqual(sum(self.cluster.completed("echo", others).values()), 2)
        self.assertEqual({self.cluster.states(name)[owner] for name in others}, {"lost"})

    def test_a_frozen_node_is_lost_in_time_and_comes_back(self):
        deploy(self.cluster["a"], "echo")
        self.cluster["a"].invoke("echo", {})
        owner = self.cluster.owner("echo")
        entry = next(name for name in "abc" if name != owner)
        self.cluster[owner].process.send_signal(signal.SIGSTOP)
        try:
            begin = time.monotonic()
            with self.assertRaises(HttpError) as caught:
                self.cluster[entry].invoke("echo", {})
            self.assertEqual(caught.exception.status, 503)
            self.assertLess(time.monotonic() - begin, 8)
            # At least once: the next node takes it.
            accepted = self.cluster[entry].invoke("echo", {}, headers={"X-Amz-Invocation-Type": "Event"})
            self.assertEqual(accepted.status, 202)
            self.assertEqual(self.cluster[entry].invoke("echo", {"n": 1}).json["event"], {"n": 1})
        finally:
            self.cluster[owner].process.send_signal(signal.SIGCONT)
        self.cluster.wait_until_up()

    def test_a_node_that_missed_a_deployment_does_not_say_that_there_is_none(self):
        for name in "bc":
            self.cluster[name].kill()
        deploy(self.cluster["a"], "later")
        self.cluster["a"].kill()
        self.cluster["b"].start()
        # The home has it, and cannot be asked.
        for call in (lambda: self.cluster["b"].invoke("later", {}), lambda: self.cluster["b"].invoke("later", {}, "Event"),
                     lambda: self.cluster["b"].request("GET", "/2015-03-31/functions/later"), lambda: self.cluster["b"].invoke("never", {}),
                     lambda: self.cluster["b"].request("GET", "/f/later/")):
            with self.assertRaises(HttpError) as caught:
                call()
            self.assertEqual(caught.exception.status, 503, caught.exception.body)
            self.assertGreater(int(caught.exception.headers["retry-after"]), 0)
        for name in "ac":
            self.cluster[name].start()
        self.cluster.wait_until_up()
        self.assertEqual(self.cluster["b"].invoke("later", {}).json["version"], 1)
        with self.assertRaises(HttpError) as caught:
            self.cluster["b"].invoke("never", {})
        self.assertEqual(caught.exception.status, 404)

    def test_results_that_a_lost_node_may_have_are_not_said_to_be_none(self):
        deploy(self.cluster["a"], "echo")
        accepted = self.cluster["c"].invoke("echo", {}, "Event").headers["x-amzn-requestid"]
        self.cluster.wait_for(lambda: sum(self.cluster.completed("echo").values()) == 1)
        owner = self.cluster.owner("echo")
        other = next(name for name in "abc" if name != owner)
        # It is counted before its outcome is kept.
        self.cluster.wait_for(lambda: self.cluster[owner].request("GET", f"/v1/invocations/{accepted}").status == 200)
        self.cluster[owner].kill()
        with self.assertRaises(HttpError) as caught:
            self.cluster[other].request("GET", f"/v1/invocations/{accepted}")
        self.assertEqual(caught.exception.status, 503)
        self.assertGreater(int(caught.exception.headers["retry-after"]), 0)
        self.cluster[owner].start()
        self.cluster.wait_until_up()
        self.assertEqual(self.cluster[other].request("GET", f"/v1/invocations/{accepted}").status, 200)

    def test_without_the_home_functions_run_and_are_not_changed(self):
        deploy(self.cluster["a"], "echo")
        for name in "bc":
            self.cluster.wait_for(lambda name=name: len(self.cluster[name].request("GET", "/v1/functions").json["functions"]) == 1)
        self.cluster["a"].kill()
        for name in "bc":
            self.assertEqual(self.cluster[name].invoke("echo", {}).json["version"], 1)
            with self.assertRaises(HttpError) as caught:
                deploy(self.cluster[name], "other")
            self.assertEqual(caught.exception.status, 503)
            self.assertIn(b"the catalog is at node 'a'", caught.exception.body)
        self.cluster["a"].start()
        self.cluster.wait_until_up()
        deploy(self.cluster["b"], "other")
        self.assertEqual(self.cluster["c"].invoke("other", {}).json["version"], 1)

    def test_who_says_to_be_a_node_has_to_prove_it(self):
        deploy(self.cluster["a"], "echo")
        for header in ("a default admin,deploy,invoke,read - " + "0" * 64, "a", " ", ""):
            with self.assertRaises(HttpError) as caught:
                self.cluster["b"].invoke("echo", {}, headers={"X-Lambent-Node": header})
            self.assertEqual(caught.exception.status, 403, header)

    def test_a_node_with_another_key_is_none(self):
        stranger = Cluster(self, names="d", key="x" * 40)
        members = [{"node": name, "address": address}
                   for name, address in {**self.cluster.addresses, **stranger.addresses}.items()]
        self.cluster["b"].request("PUT", "/v1/cluster/members", json.dumps({"source": "file", "members": members}))
        time.sleep(2)
        self.assertNotEqual(self.cluster.states("b")["d"], "up")
        self.assertEqual(self.cluster.states("b")["c"], "up")
        problems = {member["node"]: member["problem"] for member in self.cluster.status("b")["members"]}
        self.assertIn("--cluster-key", problems["d"])
        self.assertEqual(problems["c"], "")


class Bursts(unittest.TestCase):
    def test_a_burst_does_not_stay_at_the_node_that_it_reaches(self):
        cluster = Cluster(self, gpu="emulated:tiny")  # two slots, however many cores there are
        cluster.wait_until_up()
        deploy(cluster["a"], "burst")
        cluster["a"].invoke("burst", {})
        owner = cluster.owner("burst")
        # All come within one report of the owner, which says that it is idle.
        callers = [threading.Thread(target=cluster[owner].invoke, args=("burst", {"seconds": 0.5})) for _ in range(24)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(60)
        ran = cluster.completed("burst")
        self.assertEqual(sum(ran.values()), 25)
        self.assertLess(ran[owner] - 1, 18, ran)


class NodesWithOtherGpus(unittest.TestCase):
    def test_a_function_runs_only_where_there_are_as_many_gpus(self):
        cluster = Cluster(self, gpu={"a": "emulated:tiny-x4", "b": "emulated:tiny", "c": "emulated:tiny-x4"}, policy="random")
        cluster.wait_until_up()
        cluster["a"].create("pair", make_zip({"app.py": ECHO.replace("VERSION", "1")}),
                            tags={"lambent:gpu-memory": "64MiB", "lambent:gpu-count": "2"})
        cluster.wait_for(lambda: "pair" in [each["name"] for each in cluster["c"].request("GET", "/v1/functions").json["functions"]])
        for name in "abc" * 4:
            self.assertEqual(cluster[name].invoke("pair", {"by": name}).json["event"], {"by": name})
        self.assertEqual(cluster.completed("pair", "b")["b"], 0)
        counts = cluster.completed("pair", "ac")
        self.assertGreater(counts["a"], 0)
        # The home comes back smaller than the function that it has.
        cluster["a"].stop()
        cluster["a"].gpu = "emulated:tiny"
        cluster["a"].start()
        cluster.wait_until_up()
        for _ in range(4):
            self.assertEqual(cluster["a"].invoke("pair", {}).status, 200)
        self.assertEqual(cluster.completed("pair", "c")["c"], counts["c"] + 4)
        cluster["c"].kill()
        cluster.wait_for(lambda: cluster.states("a")["c"] == "lost")
        with self.assertRaises(HttpError) as raised:
            cluster["a"].invoke("pair", {})
        self.assertEqual(raised.exception.status, 503)
        self.assertIn("are lost or drained (c)", str(raised.exception))
        # And where no node has them.
        cluster["c"].gpu = "emulated:tiny"
        cluster["c"].start()
        cluster.wait_until_up()
        with self.assertRaises(HttpError) as raised:
            cluster["a"].invoke("pair", {})
        self.assertIn("no node of the cluster has the 2 GPUs with 64 MiB each", str(raised.exception))

    def test_functions_are_deployed_where_no_gpu_is_and_refused_where_no_node_has_it(self):
        cluster = Cluster(self, gpu={"a": "none", "b": "emulated:tiny", "c": "emulated:tiny-x4"}, policy="random")
        cluster.wait_until_up()

        def create(name, **tags):
            code = make_zip({"app.py": ECHO.replace("VERSION", "1")})
            return cluster["a"].create(name, code, tags={f"lambent:{key.replace('_', '-')}": value for key, value in tags.items()})
        # The home has no GPU, and takes them for the nodes that have some.
        create("one", gpu_memory="64MiB", min_instances="1")
        create("pair", gpu_memory="64MiB", gpu_count="2")
        cluster.wait_for(lambda: all({"one", "pair"} <= {each["name"] for each in cluster[node].request("GET", "/v1/functions").json["functions"]}
                                     for node in "abc"))
        for node in "abc" * 4:
            self.assertEqual(cluster[node].invoke("one", {"by": node}).json["event"], {"by": node})
            self.assertEqual(cluster[node].invoke("pair", {"by": node}).json["event"], {"by": node})
        ran = cluster.completed("one")
        self.assertEqual((ran["a"], ran["b"] + ran["c"]), (0, 12))
        self.assertEqual(cluster.completed("pair"), {"a": 0, "b": 0, "c": 12})
        # No node has these.
        for tags, words in (({"gpu_memory": "64GiB"}, "no other node of the cluster has what it takes"),
                            ({"gpu_memory": "64MiB", "gpu_count": "5"}, "no other node of the cluster has what it takes")):
            with self.assertRaises(HttpError) as raised:
                create("large", **tags)
            self.assertEqual((raised.exception.status, raised.exception.headers.get("x-lambent-code")), (409, "FAILED_PRECONDITION"))
            self.assertIn(words, str(raised.exception))
        # The calls of its schedules run where its GPUs are (test_cluster_calls.py).
        create("timed", gpu_memory="64MiB", schedules=json.dumps([{"name": "often", "rate": "1 hour"}]))
        self.assertEqual([row["function"] for row in cluster["a"].request("GET", "/v1/schedules").json["schedules"]], ["timed"])
        # Copies are not judged again: more instances than any node can keep are kept as far as they go.
        create("crowd", gpu_memory="64MiB", min_instances="500")
        cluster.wait_for(lambda: all("crowd" in {each["name"] for each in cluster[node].request("GET", "/v1/functions").json["functions"]}
                                     for node in "abc"))
        cluster["a"].request("DELETE", "/2015-03-31/functions/crowd")
        # A change while the only node with its GPUs is lost is taken; calls say what is missing.
        cluster["c"].kill()
        cluster.wait_for(lambda: cluster.states("a")["c"] == "lost")
        cluster["a"].request("PUT", "/2015-03-31/functions/pair/configuration", json.dumps({"Description": "changed"}))
        with self.assertRaises(HttpError) as raised:
            cluster["a"].invoke("pair", {})
        self.assertEqual(raised.exception.status, 503)
        cluster["c"].start()
        cluster.wait_until_up()
        self.assertEqual(cluster["b"].invoke("pair", {"again": 1}).json["event"], {"again": 1})


    def test_a_gpu_that_is_drained_gets_no_work_and_what_only_it_can_run_waits_for_it(self):
        cluster = Cluster(self, gpu={"a": "none", "b": "emulated:tiny", "c": "emulated:tiny"}, policy="random")
        cluster.wait_until_up()
        cluster["a"].create("one", make_zip({"app.py": ECHO.replace("VERSION", "1")}), tags={"lambent:gpu-memory": "64MiB"})
        cluster.wait_for(lambda: all("one" in [each["name"] for each in cluster[node].request("GET", "/v1/functions").json["functions"]]
                                     for node in "abc"))

        def all_know(node):
            """That its only GPU is drained, of whose slots one is left."""
            slots = [next(each["slots"] for each in cluster.status(name)["members"] if each["node"] == node) for name in "abc"]
            return slots == [1] * 3
        self.assertFalse(all_know("b"))
        cluster["b"].request("POST", "/v1/devices/0/drain")
        cluster.wait_for(lambda: all_know("b"))
        for turn in range(12):
            self.assertEqual(cluster["abc"[turn % 3]].invoke("one", {"n": turn}).json["event"], {"n": turn})
        self.assertEqual(cluster.completed("one"), {"a": 0, "b": 0, "c": 12})
        # It has not become too large for any node: it is deployed, and waits.
        cluster["c"].request("POST", "/v1/devices/0/drain")
        cluster.wait_for(lambda: all_know("c"))
        cluster["a"].request("PUT", "/2015-03-31/functions/one/configuration", json.dumps({"Description": "changed"}))
        answers = []
        caller = threading.Thread(target=lambda: answers.append(cluster["a"].invoke("one", {"n": "later"}).json["event"]))
        caller.start()
        cluster.wait_for(lambda: sum(each["queued"] for node in "bc" for each in
                                     cluster[node].request("GET", "/v1/functions", headers={"X-Lambent-Only-Here": "true"}).json["functions"]) == 1)
        for node in "bc":
            cluster[node].request("POST", "/v1/devices/0/undrain")
        caller.join(30)
        self.assertEqual(answers, [{"n": "later"}])


class Members(unittest.TestCase):
    def test_they_are_told_with_leases_and_stay_while_they_answer(self):
        cluster = Cluster(self, told=False)
        members = [{"node": name, "address": address, "gpus": [{"name": "T4", "memory_bytes": 1 << 34}]}
                   for name, address in cluster.addresses.items()]
        told = json.dumps({"source": "ray", "home": "b", "lease_seconds": 1, "members": members})
        for name in "abc":
            self.assertEqual(len(cluster.status(name)["members"]), 1)
            cluster[name].request("PUT", "/v1/cluster/members", told)
        cluster.wait_until_up()
        self.assertEqual(cluster.status("a")["home"], "b")
        time.sleep(2)  # who told is gone
        self.assertEqual(set(cluster.states("a").values()), {"up"})
        cluster["c"].kill()
        cluster.wait_for(lambda: list(cluster.states("a")) == ["a", "b"])

    def test_a_node_that_does_not_hear_from_the_home_takes_no_changes(self):
        cluster = Cluster(self, names="ab", told=False)

        def tell(lease, *to):
            told = json.dumps({"source": "ray", "home": "a", "members": [
                {"node": name, "address": address} for name, address in cluster.addresses.items()], **lease})
            for name in to:
                cluster[name].request("PUT", "/v1/cluster/members", told)

        def refused(why):
            for change in (lambda: deploy(cluster["b"], "other"), lambda: cluster["b"].delete("echo")):
                with self.assertRaises(HttpError) as caught:
                    change()
                self.assertEqual((caught.exception.status, caught.exception.headers["x-lambent-code"]), (503, "UNAVAILABLE"))
                self.assertIn(why, caught.exception.body)
            self.assertEqual(cluster["b"].invoke("echo", {}).json["version"], 1)
        deploy(cluster["b"], "alone")  # it is in no cluster yet
        tell({"lease_seconds": 1}, "a", "b")
        cluster.wait_until_up()
        deploy(cluster["a"], "echo")
        cluster.wait_for(lambda: cluster["b"].invoke("echo", {}).json["version"] == 1)
        # Who told is gone, and then the home: it is forgotten, as if there were no other.
        cluster["a"].kill()
        cluster.wait_for(lambda: list(cluster.states("b")) == ["b"])
        refused(b"the catalog is at node 'a'")
        # Nor does it take any that was started again, and was told nothing yet.
        self.assertEqual(cluster["b"].stop(), 0)
        cluster["b"].start()
        refused(b"was not told yet who else is in its cluster")
        cluster["a"].start()
        tell({}, "a", "b")
        cluster.wait_until_up()
        deploy(cluster["b"], "other")
        self.assertEqual(cluster["a"].invoke("other", {}).json["version"], 1)
        self.assertEqual(cluster["b"].invoke("alone", {}).json["version"], 1)

    def test_a_node_that_was_told_of_no_members_yet_does_not_say_that_there_is_no_function(self):
        cluster = Cluster(self, names="ab", told=False)
        # Alone, and never told of others, it knows all that there is.
        with self.assertRaises(HttpError) as caught:
            cluster["b"].invoke("early", {})
        self.assertEqual(caught.exception.status, 404)
        told = json.dumps({"source": "ray", "home": "a", "members": [
            {"node": name, "address": address} for name, address in cluster.addresses.items()]})
        for name in "ab":
            cluster[name].request("PUT", "/v1/cluster/members", told)
        cluster.wait_until_up()
        deploy(cluster["a"], "early")
        cluster.wait_for(lambda: cluster["b"].request("GET", "/v1/functions").json["functions"])
        cluster["b"].kill()
        deploy(cluster["a"], "later")
        cluster["b"].start()
        self.assertEqual(cluster["b"].invoke("early", {}).json["version"], 1)
        with self.assertRaises(HttpError) as caught:
            cluster["b"].invoke("later", {})
        self.assertEqual((caught.exception.status, caught.exception.headers["retry-after"]), (503, "1"))
        cluster["b"].request("PUT", "/v1/cluster/members", told)
        self.assertEqual(cluster["b"].invoke("later", {}).json["version"], 1)

    def test_mistakes_are_named(self):
        cluster = Cluster(self, names="a")
        at = cluster.addresses["a"]
        for body, word in (("{", "JSON"), ("[]", "object"), ({"members": []}, "source"), ({"source": "x"}, "members"),
                           ({"source": "self", "members": []}, "self"),
                           ({"source": "x", "members": [{"node": "a b", "address": at}]}, "name"),
                           ({"source": "x", "members": [{"node": "b", "address": "ftp://x"}]}, "node 'b'"),
                           ({"source": "x", "members": [{"node": "b", "address": "unix:/x"}]}, "Unix"),
                           ({"source": "x", "members": [{"node": "b", "address": "http://1:1"}] * 2}, "twice"),
                           ({"source": "x", "home": "c", "members": []}, "home"),
                           ({"source": "x", "lease_seconds": 0, "members": []}, "lease_seconds"),
                           ({"source": "x", "members": [{"node": "b", "address": at, "gpus": 1}]}, "gpus")):
            with self.subTest(body=body), self.assertRaises(HttpError) as caught:
                cluster["a"].request("PUT", "/v1/cluster/members", body if isinstance(body, str) else json.dumps(body))
            self.assertEqual(caught.exception.status, 400)
            self.assertIn(word, caught.exception.json["error"]["message"])

    def test_a_worker_without_a_key_says_so(self):
        worker = Worker(gpu="none")
        self.addCleanup(worker.close)
        with self.assertRaises(HttpError) as caught:
            worker.request("GET", "/v1/cluster")
        self.assertIn("--cluster-key", caught.exception.json["error"]["message"])


class Tenants(unittest.TestCase):
    def test_a_request_is_its_tenants_on_every_node_and_tokens_are_one_nodes(self):
        cluster = Cluster(self, names="ab", flags=("--auth", "tokens"))
        operators = cluster.operators()
        operators["a"].create_tenant("team", concurrency=3)
        token = operators["a"].create_token("team")
        team = Caller(cluster["a"], token["secret"])
        names = [f"echo{each}" for each in range(6)]
        for name in names:
            deploy(team, name)
            self.assertEqual(team.invoke(name, {"n": name}).json["event"], {"n": name})
        # Some of them belong to the other node, where the tenant came with its functions.
        self.assertGreater(operators["a"].request("GET", "/v1/cluster").json["requests"]["forwarded"], 0)
        there = {tenant["name"]: tenant for tenant in operators["b"].request("GET", "/v1/tenants").json["tenants"]}
        self.assertEqual(there["team"]["quotas"]["concurrency"], 3)
        self.assertEqual(operators["b"].request("GET", "/v1/functions").json["functions"], [])  # the default tenant's
        cluster.wait_for(lambda: len(Caller(operators["b"], tenant="team").request("GET", "/v1/functions").json["functions"]) == 6)
        for caller, status in ((Caller(cluster["b"], token["secret"]), 403), (Caller(cluster["b"]), 403)):
            with self.assertRaises(HttpError) as caught:
                caller.invoke("echo0", {})
            self.assertEqual(caught.exception.status, status)
        with self.assertRaises(HttpError) as caught:
            team.request("PUT", "/v1/cluster/members", "{}")
        self.assertEqual(caught.exception.status, 403)


class OverTls(unittest.TestCase):
    def test_nodes_that_show_each_other_certificates_forward_over_tls(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-cluster-"))
        self.addCleanup(shutil.rmtree, folder, True)
        (folder / "key").write_text("k" * 40)
        authority = Authority(folder)
        nodes = {}
        for name in "ab":
            flags, context = tls_options(authority, name)
            nodes[name] = Worker("--cluster-key", str(folder / "key"), "--node-name", name, *flags, gpu="none", tls=context)
            self.addCleanup(nodes[name].close)
        members = [{"node": name, "address": node.endpoint} for name, node in nodes.items()]
        for node in nodes.values():
            node.request("PUT", "/v1/cluster/members", json.dumps({"source": "test", "members": members}))

        def are_up(node):
            return [member["state"] for member in node.request("GET", "/v1/cluster").json["members"]] == ["up", "up"]
        for node in nodes.values():
            node.wait_for(lambda node=node: are_up(node))
        large = "x" * 2_000_000  # both ways, over many records
        for each in range(6):
            deploy(nodes["b"], f"echo{each}")
            for node in nodes.values():
                self.assertEqual(node.invoke(f"echo{each}", {"n": large}).json["event"], {"n": large})
        # Six deployments went to the home, and of two requests for a function one was asked for elsewhere.
        forwarded = [node.request("GET", "/v1/cluster").json["requests"]["forwarded"] for node in nodes.values()]
        self.assertGreaterEqual(sum(forwarded), 12)
        for node in nodes.values():
            listed = node.request("GET", "/v1/functions").json["functions"]
            self.assertEqual(sum(each["completed"] for each in listed), 12)


class Streams(unittest.TestCase):
    def test_requests_to_http_functions_stream_through_another_node(self):
        cluster = Cluster(self, names="ab")
        cluster.wait_until_up()
        program = """
import http.server, os, time
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        size = int(self.headers["Content-Length"])
        total = 0
        while total < size:
            total += len(self.rfile.read(min(65536, size - total)))
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("X-Saw-Authorization", self.headers.get("Authorization", "none"))
        self.end_headers()
        for piece in (str(total).encode(), b" bytes"):
            self.wfile.write(b"%x\\r\\n%s\\r\\n" % (len(piece), piece))
        self.wfile.write(b"0\\r\\n\\r\\n")
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""
        cluster["b"].create("web", make_zip({"app.py": program}), runtime="python3", handler="python3 app.py",
                            tags={"lambent:kind": "http"})
        for name in "ab":
            reply = cluster[name].request("POST", "/f/web/count", b"x" * 3_000_000, headers={"Authorization": "Basic abc"})
            self.assertEqual((reply.status, reply.body), (200, b"3000000 bytes"))
            self.assertEqual(reply.headers["x-saw-authorization"], "Basic abc")
        self.assertEqual(sorted(cluster.completed("web").values()), [0, 2])


if __name__ == "__main__":
    unittest.main()
