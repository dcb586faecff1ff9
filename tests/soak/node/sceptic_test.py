"""The sceptic must be able to fail: nodes that lie, lose and refuse are found out, and faults depend on the seed alone."""
import array
import contextlib
import io
import itertools
import os
import pathlib
import random
import resource
import signal
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[3]
for folder in (ROOT / "bench", ROOT / "tests/integration", pathlib.Path(os.environ["LAMBENT_PREFIX"]) / "share/lambent/python"):
    sys.path.append(str(folder))

import leftovers  # noqa: E402
import sceptic  # noqa: E402
import world  # noqa: E402
from faults import KINDS, Faults, schedule  # noqa: E402
from harness import HttpError, Reply, Worker  # noqa: E402
from load import Load  # noqa: E402
from promises import Promises  # noqa: E402


class Node:
    """Answers what it was told to."""

    def __init__(self):
        self.replies, self.outcomes = [], {}

    def invoke(self, name, event, kind=None, timeout=None):
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    def request(self, method, path):
        return self.outcomes[path.rpartition("/")[2]]


class ScepticTest(unittest.TestCase):
    def setUp(self):
        self.promises, self.node = Promises(), Node()
        self.load = Load(types.SimpleNamespace(promises=self.promises, nodes={"main": self.node}), 1, 1)
        self.enterContext(contextlib.redirect_stdout(io.StringIO()))

    def call(self, reply, groups=(), kind=None):
        self.node.replies.append(reply)
        self.load.call("main", "calm-0", {}, lambda answer: answer == 7, groups, kind)
        return self.promises.violation_count

    def test_a_right_answer_is_no_violation_and_a_wrong_one_is(self):
        self.assertEqual(self.call(Reply(200, {}, b"7")), 0)
        self.assertEqual(self.call(Reply(200, {}, b"8")), 1)
        self.assertEqual(self.promises.outcomes["calm"], {"right": 1, "wrong": 1})

    def test_a_refusal_is_excused_by_a_fault_that_concerns_it_and_by_no_other(self):
        refusals = [HttpError(503, {}, b""), ConnectionResetError(), Reply(200, {"x-amz-function-error": "Unhandled"}, b"{}")]
        for count, refusal in enumerate(refusals, 1):
            with self.promises.window("gpu", "node:sliced", "function:calm-1"):
                self.assertEqual(self.call(refusal), count)
        for refusal in refusals:
            with self.promises.window("node:main"):
                self.assertEqual(self.call(refusal), len(refusals))
        self.assertEqual(self.call(refusals[0]), len(refusals) + 1, "after the fault")

    def test_an_object_with_other_contents_is_wrong_and_not_right(self):
        client = unittest.mock.MagicMock()
        client.__enter__.return_value.get.side_effect = lambda made: array.array("f", [self.holds, 1, 2, 3]).tobytes()
        self.node.endpoint, self.node.request = "", lambda method, path: None
        self.load.stopping.set()
        for self.holds, outcomes in ((6 * 3, {"right": 1}), (6 * 3 + 1, {"right": 1, "wrong": 1})):
            self.node.replies = [Reply(200, {}, b'{"outputs": [{"parameters": {"object": "made"}}]}')] * 2
            with unittest.mock.patch("load.Client", return_value=client):
                self.load.objects(types.SimpleNamespace(randrange=lambda end: 3, expovariate=lambda rate: 0), "")
            self.assertEqual(self.promises.outcomes["objects"], outcomes)
        self.assertEqual(self.promises.violation_count, 1)

    def test_no_fault_excuses_a_wrong_answer_or_none_at_all(self):
        with self.promises.window("node:main"):
            self.assertEqual(self.call(Reply(200, {}, b"8")), 1)
            self.assertEqual(self.call(TimeoutError()), 2)

    def look(self, invocation):
        self.load.look_at_outcome(invocation, self.promises.accepted[invocation])
        return self.promises.violation_count

    def test_an_outcome_that_is_lost_or_changes_is_found(self):
        for name in ("kept", "changed", "lost", "wrong"):
            self.call(Reply(202, {"x-amzn-requestid": name}, b""), kind="Event")
            self.node.outcomes[name] = Reply(200, {"x-lambent-outcome": "succeeded"}, b"7")
            if name != "wrong":
                self.assertEqual(self.look(name), 0)
        self.node.outcomes["changed"] = Reply(200, {"x-lambent-outcome": "function_error"}, b"{}")
        self.node.outcomes["lost"] = Reply(404, {}, b"{}")
        self.node.outcomes["wrong"] = Reply(200, {"x-lambent-outcome": "succeeded"}, b"8")
        self.assertEqual([self.look(name) for name in ("kept", "changed", "lost", "wrong")], [0, 1, 2, 3])

    def test_an_id_that_is_given_twice_is_found(self):
        for expected in (0, 1):
            self.assertEqual(self.call(Reply(202, {"x-amzn-requestid": "same"}, b""), kind="Event"), expected)

    def test_another_version_than_the_acknowledged_one_is_found(self):
        for body, expected in ((b'{"version": 5}', 0), (b'{"version": 4}', 1)):
            self.node.replies.append(Reply(200, {}, body))
            self.load.look_at_version("version-0", {5}, 0)
            self.assertEqual(self.promises.violation_count, expected)
        self.node.replies.append(HttpError(404, {}, b""))
        self.load.look_at_version("version-0", {5}, 0)
        self.assertEqual(self.promises.violation_count, 2)


class AskedToEndTest(unittest.TestCase):
    """The signal that ends the sceptic strikes while a fault goes on: SystemExit out of its sleep."""

    def setUp(self):
        self.process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)  # ends with its input
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.kill)
        self.addCleanup(self.process.stdin.close)
        node = types.SimpleNamespace(process=self.process)
        self.faults = Faults(types.SimpleNamespace(promises=Promises(), nodes={"main": node}), None)

    def strike(self, kind, seen):
        """seen: called in the middle of the fault."""
        def asked_to_end(seconds):
            self.in_the_middle = seen()
            raise SystemExit(143)
        with unittest.mock.patch("faults.time.sleep", asked_to_end), self.assertRaises(SystemExit):
            getattr(self.faults, kind)(random.Random(1))
        return seen()

    def test_who_was_stopped_goes_on(self):
        def is_stopped():
            return os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WCONTINUED).si_status == signal.SIGSTOP
        self.assertFalse(self.strike("stop_worker", is_stopped))
        self.assertTrue(self.in_the_middle)

    def test_who_may_open_nothing_may_again(self):
        def limit():
            return resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE)
        before = limit()
        self.assertEqual(self.strike("starve_descriptors", limit), before)
        self.assertNotEqual(self.in_the_middle, before)

    def test_busy_processes_end(self):
        started = []

        def start(*arguments, popen=subprocess.Popen):
            started.append(popen(*arguments))
            return started[-1]
        with unittest.mock.patch("faults.subprocess.Popen", start):
            running = self.strike("starve_processors", lambda: [each for each in started if each.poll() is None])
        self.assertEqual(running, [])
        self.assertEqual(len(self.in_the_middle), 2 * os.cpu_count())


class WorldTest(unittest.TestCase):
    def test_what_was_begun_is_closed_where_the_second_node_does_not_start(self):
        closed, folders = [], []

        class Started:
            process = types.SimpleNamespace(poll=lambda: 0)

            def __init__(self, name, promises, flags, gpu, folder, environment=None):
                folders.append(folder)
                if name == "sliced":
                    raise AssertionError("the worker did not start")
                self.close = lambda: closed.append(name)

        with unittest.mock.patch("world.Node", Started), self.assertRaisesRegex(AssertionError, "did not start"):
            world.World(Promises())
        self.assertEqual(closed, ["main"])
        self.assertEqual(len(folders), 2)
        self.assertFalse(folders[0].parent.exists())
        self.assertNotIn(str(folders[0]), pathlib.Path("/proc/self/mountinfo").read_text())

    def test_a_worker_that_is_not_awaited_any_more_is_no_longer_there(self):
        started = []

        def start(*arguments, popen=subprocess.Popen, **options):
            started.append(popen(["cat"], stdin=subprocess.PIPE))
            return started[-1]

        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch("harness.subprocess.Popen", start), \
                unittest.mock.patch("harness.time", types.SimpleNamespace(monotonic=itertools.count(step=31).__next__)), \
                self.assertRaisesRegex(AssertionError, "did not start"):
            Worker(folder=folder)
        started[0].stdin.close()
        self.assertEqual(started[0].returncode, -signal.SIGKILL)


class LeftoversTest(unittest.TestCase):
    def test_more_of_anything_than_may_be_left_is_a_violation(self):
        promises = Promises()
        with contextlib.redirect_stdout(io.StringIO()):
            sceptic.judge_leaks(dict(sceptic.MOST_LEFT), promises)
            self.assertEqual(promises.violation_count, 0)
            for count, what in enumerate(sceptic.MOST_LEFT, 1):
                sceptic.judge_leaks({**sceptic.MOST_LEFT, what: sceptic.MOST_LEFT[what] + 1}, promises)
                self.assertEqual(promises.violation_count, count, what)

    def test_every_page_of_a_list_is_read(self):
        pages = {"/v1/functions": {"functions": [1, 2], "next": "b/1"}, "/v1/functions?after=b%2F1": {"functions": [3]}}
        node = types.SimpleNamespace(request=lambda method, path: types.SimpleNamespace(json=pages[path]))
        self.assertEqual(leftovers.listed(node, "/v1/functions", "functions"), [1, 2, 3])

    def test_each_count_is_compared(self):
        counts = ("processes", "fds", "rss_bytes", "shm_bytes", "device_bytes", "objects", "run_files", "code_files")
        more = {"rss_bytes": 65_000_000}
        before, after = {count: 7 for count in counts}, {count: 7 + more.get(count, 3) for count in counts}
        left = {"cgroups": ["a"], "mounts": ["b"], "ledgers": ["c"], "processes": [(1, "d")], "shm": ["/dev/shm/e"]}
        leaked = sceptic.leaks({"main": before}, {"main": after}, {"main": left})
        self.assertEqual(leaked, {"processes": 4, "fds": 3, "shm": 4, "device_bytes": 3, "rss_mb": 65.0, "objects": 3, "run_files": 3,
                                  "code_files": 3, "cgroups": 1, "mounts": 1, "ledgers": 1})
        self.assertEqual(set(leaked), set(sceptic.MOST_LEFT))

    def test_a_shared_file_that_a_node_used_is_left_over_and_anothers_is_not(self):
        node = types.SimpleNamespace(seen={}, launchers=set(), folder=pathlib.Path("/nowhere"), wait_gone=lambda pids, seconds: [])
        before = leftovers.shared_state()
        with tempfile.NamedTemporaryFile(dir="/tmp") as used, tempfile.NamedTemporaryFile(dir="/tmp") as anothers:
            process = subprocess.Popen(["cat", used.name, "-"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, pass_fds=[used.fileno()])
            try:
                node.shared_files = leftovers.shared_files_of(process.pid)
            finally:
                process.communicate()
            self.assertTrue(os.path.exists(anothers.name))
            self.assertEqual(leftovers.after_the_end(node, before), {"shm": [used.name]})
        self.assertEqual(leftovers.after_the_end(node, before), {})

    def test_what_a_sandbox_was_given_of_the_shared_memory_is_its_nodes(self):
        given = leftovers.GIVEN.findall("300 290 0:24 /lambent-0-77/a/0 /opt/lambent/channels/0 rw - tmpfs none rw\n"
                                        "301 290 8:1 /dev/shm/lambent-0-78/b /opt/x rw - ext4 /dev/sda rw\n"
                                        "302 290 8:1 /var/lambent-1 /dev/shm rw - tmpfs /lambent-2 rw\n")
        self.assertEqual(given, ["lambent-0-77", "lambent-0-78"])


class ScheduleTest(unittest.TestCase):
    def test_the_same_seed_is_the_same_schedule_and_another_is_not(self):
        self.assertEqual(schedule(7, 600), schedule(7, 600))
        self.assertNotEqual(schedule(7, 600), schedule(8, 600))
        self.assertEqual(schedule(7, 60), [each for each in schedule(7, 600) if each.at < 60])

    def test_every_kind_comes_in_ten_minutes_and_can_be_done(self):
        self.assertEqual({each.kind for each in schedule(7, 600)}, set(KINDS))
        for kind in KINDS:
            self.assertTrue(callable(getattr(Faults, kind.replace("-", "_"))))

    def test_only_some_kinds(self):
        self.assertEqual({each.kind for each in schedule(7, 600, ("flood", "garbage"))}, {"flood", "garbage"})


if __name__ == "__main__":
    unittest.main()
