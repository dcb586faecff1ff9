"""A cluster whose nodes are of two builds while it is upgraded under load, one node after the other: by a stop and a start, or in place.
Nothing that was acknowledged is lost, no synchronous request fails or runs twice, and what nodes share is the same at nodes of both.

The other build is this one with another version in it. LAMBENT_OLDER_PREFIX names the build folder of an older commit to have instead."""
import base64
import itertools
import json
import pathlib
import subprocess
import threading
import unittest

from cluster_world import WITNESSED, Load, Postgres, Witness
from harness import PREFIX, HttpError, make_zip
from test_cluster import ECHO, Cluster, deploy
from test_upgrade_between_builds import OLDER_PREFIX, TwoBuilds

FUNCTIONS = "/2015-03-31/functions"


class Node(TwoBuilds):
    """As TwoBuilds. Only the worker is a file of its own, as three nodes have many programs."""

    log_level = "info"

    def install_first(self):
        self.install(PREFIX)

    def install(self, prefix):
        for path in (prefix / "bin").iterdir():
            if path.name == "lambent-worker":
                self.put(path.name, path.read_bytes())
            elif path.is_file() and path.name.startswith(("lambent", "emulated-gpu")):
                self.link(f"bin/{path.name}", path)
        for name in ("lib", "share"):
            self.link(name, prefix / name)


class Repeats(threading.Thread):
    """A long call by an SDK that gives up on the answer and sends it again."""

    def __init__(self, node, event):
        super().__init__()
        self.node, self.event, self.replies = node, event, []
        self.key = {"amz-sdk-invocation-id": f"6f1b1f0e-2f4e-4f6e-9d5a-{abs(hash(event['id'])) % 10**12:012}"}
        self.start()

    def run(self):
        self.replies.append(self.ask())

    def ask(self):
        try:
            return self.node.invoke("work", self.event, headers=self.key).json
        except (HttpError, OSError) as error:
            return error


class OfTwoBuilds:
    """What is checked with one node's catalog, and with a shared one."""

    flags = ()

    def setUp(self):
        self.witness = Witness(self)
        self.cluster = Cluster(self, flags=("--mount-allow", str(self.witness.folder), "--drain", "20", *self.flags), worker=Node)
        self.cluster.wait_until_up()
        self.cluster["a"].create_python("work", WITNESSED, tags=self.witness.tags)
        self.numbers = itertools.count(1)
        self.other = self.cluster["a"].version()

    def command(self, node, *words):
        return self.cluster[node].request("POST", "/v1/cluster/nodes/" + "/".join(words))

    def load(self, **options):
        load = Load(self.cluster.nodes, "work", **options)
        self.addCleanup(load.stop)
        load.wait_for(20)
        return load

    def check_load(self, load):
        load.stop()
        self.assertEqual(load.failed, {})
        runs = [*load.accepted, *load.answered]
        self.cluster.wait_for(lambda: all(self.witness.ended[run] > 0 for run in runs), 60)
        self.assertEqual([run for run in runs if self.witness.begun[run] > 1], [])
        accepted = [*load.accepted.values()]
        self.cluster.wait_for_outcomes("abc", accepted[:5] + accepted[-5:])

    def check_shared(self):
        """What is made at any node is the same at all, whatever their programs are."""
        shown = {each["node"]: each["version"] for each in self.cluster.status("a")["members"]}
        self.assertEqual(shown, {name: self.cluster[name].version() for name in "abc"})
        for name in "abc":
            self.assertEqual([each["problem"] for each in self.cluster.status(name)["members"]], [""] * 3)
        number = next(self.numbers)
        for name in "abc":
            function = f"echo-{name}-{number}"
            deploy(self.cluster[name], function, version=1)
            self.ran_everywhere(function, 1)
            changed = make_zip({"app.py": ECHO.replace("VERSION", "2")})
            other = "abc"[("abc".index(name) + 1) % 3]
            self.cluster[other].request("PUT", f"{FUNCTIONS}/{function}/code", json.dumps({"ZipFile": base64.b64encode(changed).decode()}))
            self.ran_everywhere(function, 2)
            published = self.cluster[name].request("POST", f"{FUNCTIONS}/{function}/versions", "{}").json["Version"]
            self.assertEqual(published, "1")
            self.ran_everywhere(f"{function}%3A1", 2)
            invocation = self.cluster[name].invoke(function, {"n": number}, "Event").headers["x-amzn-requestid"]
            self.cluster.wait_for_outcomes("abc", [invocation])
            made = self.cluster[name].request("POST", "/v1/objects", b"some bytes").json["object"]
            self.assertEqual({self.cluster[each].request("GET", f"/v1/objects/{made}").body for each in "abc"}, {b"some bytes"})
            self.cluster[other].delete(function)
            for each in "abc":
                self.cluster.wait_for(lambda each=each, function=function: self.status_of(each, function) == 404)

    def ran_everywhere(self, function, version):
        for name in "abc":
            self.cluster.wait_for(lambda name=name: self.cluster[name].invoke(function, {"n": 1}).json == {"event": {"n": 1}, "version": version})

    def status_of(self, name, function):
        try:
            return self.cluster[name].invoke(function, {}).status
        except HttpError as error:
            return error.status

    def check_all_are_this_build(self):
        versions = {self.cluster[name].version() for name in "abc"}
        self.assertEqual(len(versions), 1)
        if OLDER_PREFIX is None:
            self.assertNotEqual(versions, {self.other})

    def test_one_node_after_the_other_is_drained_stopped_and_started(self):
        load = self.load(threads=1, moves_on=True)
        for name in "bca":
            node = self.cluster[name]
            # It waits until the others have heard of it, too.
            done = subprocess.run([PREFIX / "bin/lambent", "cluster", "drain", name, "--wait", "60", "--endpoint", node.endpoint],
                                  capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(node.stop(), 0)
            node.install_this()
            node.start()
            self.cluster.wait_until_up()
            load.wait_for(20)
            self.check_shared()
        self.check_all_are_this_build()
        self.check_load(load)

    def test_one_node_after_the_other_becomes_the_other_build_in_place(self):
        load = self.load(threads=1)
        # Programs of before told nobody of it, and are taken for lost after three seconds.
        seconds = 8 if OLDER_PREFIX is None else 1
        for name in "abc":
            node, entry = self.cluster[name], self.cluster["b" if name == "a" else "a"]
            for other in "abc":  # so that the long call runs there
                self.command(other, other, "undrain" if other == name else "drain")
            self.cluster.wait_for(lambda name=name: all(
                self.cluster.states(each) == {other: "up" if other == name else "draining" for other in "abc"} for each in "abc"))
            long = Repeats(entry, {"id": f"long-{name}", "seconds": seconds})
            self.cluster.wait_for(lambda name=name: self.witness.begun[f"long-{name}"] == 1)
            for other in "abc":
                self.command(other, other, "undrain")
            self.cluster.wait_until_up()
            node.install_this()
            before = node.events("listening")
            node.replace()
            node.wait_for(lambda node=node: node.events("replacing"), 60, "the check")
            again = Repeats(entry, long.event) if seconds > 1 else None
            node.wait_for(lambda node=node, before=before: node.events("listening") > before, 60, "the new program's start")
            long.join(60)
            self.assertEqual(long.replies, [{"id": f"long-{name}"}])
            if again:
                again.join(60)
                self.assertEqual(again.replies, [{"id": f"long-{name}"}])
            self.assertEqual(self.witness.begun[f"long-{name}"], 1)
            self.cluster.wait_until_up()
            load.wait_for(20)
            self.check_shared()
        self.check_all_are_this_build()
        self.check_load(load)


class WithAHome(OfTwoBuilds, unittest.TestCase):
    pass


class WithASharedCatalog(OfTwoBuilds, unittest.TestCase):
    def setUp(self):
        self.postgres = Postgres(self)
        self.flags = ("--catalog", self.postgres.url)
        super().setUp()

    def test_no_node_is_needed_while_two_builds_share_a_catalog(self):
        for name in "ab":  # c stays of the other build
            self.assertEqual(self.cluster[name].stop(), 0)
            self.cluster[name].install_this()
            self.cluster[name].start()
        self.cluster.wait_until_up()
        accepted = {}
        for number in range(20):
            for name in "abc":
                run = f"run-{name}-{number}"
                accepted[run] = self.cluster[name].invoke("work", {"id": run, "seconds": 0.2}, "Event").headers["x-amzn-requestid"]
        # What a node of one build accepted is run by one of the other.
        lost = self.cluster.owner("work")
        self.cluster[lost].kill()
        survivors = [name for name in "abc" if name != lost]
        self.cluster.wait_for(lambda: all(self.witness.ended[run] > 0 for run in accepted), 90)
        self.cluster.wait_for_outcomes(survivors, accepted.values())
        self.assertLessEqual(max(self.witness.begun.values()), 2)
        self.cluster[lost].start()
        self.cluster.wait_until_up()
        self.check_shared()


class TheOnlyNodeWithGpus(unittest.TestCase):
    def test_requests_that_no_other_node_can_run_wait_for_the_new_program(self):
        witness = Witness(self)
        cluster = Cluster(self, names="ab", gpu={"a": "none", "b": "emulated:tiny"}, worker=Node,
                          flags=("--mount-allow", str(witness.folder), "--drain", "20"))
        cluster.wait_until_up()
        cluster["a"].create_python("work", WITNESSED, tags={**witness.tags, "lambent:gpu-memory": "64MiB"})
        load = Load({"a": cluster["a"]}, "work", threads=2)
        self.addCleanup(load.stop)
        load.wait_for(20)
        node = cluster["b"]
        node.install_this()
        before = node.events("listening")
        node.replace()
        node.wait_for(lambda: node.events("listening") > before, 60, "the new program's start")
        load.wait_for(20)
        load.stop()
        self.assertEqual(load.failed, {})
        runs = [*load.accepted, *load.answered]
        cluster.wait_for(lambda: all(witness.ended[run] > 0 for run in runs), 60)
        self.assertEqual([run for run in runs if witness.begun[run] > 1], [])


@unittest.skipIf(OLDER_PREFIX is None, "LAMBENT_OLDER_PREFIX names no build of an older commit")
class OfAnOlderCommit(unittest.TestCase):
    def test_the_older_program_refuses_a_state_of_the_newer_one_and_the_others_go_on(self):
        cluster = Cluster(self, names="ab", worker=Node)
        cluster.wait_until_up()
        deploy(cluster["a"], "echo")
        self.assertEqual(cluster["b"].stop(), 0)
        cluster["b"].install_this()
        cluster["b"].start()
        cluster.wait_until_up()
        self.assertEqual(cluster["b"].stop(), 0)
        cluster["b"].install(pathlib.Path(OLDER_PREFIX))
        with self.assertRaisesRegex(AssertionError, "schema"):
            cluster["b"].start()
        self.assertEqual(cluster["a"].invoke("echo", {}).json["version"], 1)
        cluster["b"].install_this()
        cluster["b"].start()
        cluster.wait_until_up()
        self.assertEqual(cluster["b"].invoke("echo", {}).json["version"], 1)


if __name__ == "__main__":
    unittest.main()
