"""lambent.ray over a stand-in for ray: what an agent releases, and which agent is asked. tests/clients/test_ray.py has Ray itself."""
import gc
import json
import pathlib
import sys
import tempfile
import types
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from lambent.client import Client, ObjectRef  # noqa: E402
from lambent.errors import FailedPrecondition, LambentError, NotFound  # noqa: E402
from lambent.tensor import Tensor  # noqa: E402

NAMES = ["00000000-0000-0001-0000-00000000000%d.0" % n for n in range(4)]


class RayError(Exception):
    pass


class ActorError(RayError):
    pass


class Unavailable(ActorError):
    pass


class TimedOut(RayError):
    pass


def node_of(name, machine="m1", ip="10.0.0.1"):
    return {"Alive": True, "NodeID": name, "Resources": {}, "NodeManagerHostname": machine, "NodeManagerAddress": ip}


class StandIn(types.ModuleType):
    """One node with named actors; what calls of them return are the calls."""

    def __init__(self):
        super().__init__("ray")
        self.exceptions = types.SimpleNamespace(RayError=RayError, RayActorError=ActorError, GetTimeoutError=TimedOut, ActorUnavailableError=Unavailable)
        self.ObjectRef = type("ObjectRef", (), {})
        self.actors, self.looked_up, self.timeouts, self.unavailable, self.waits = {}, 0, [], 0, []
        self.alive, self.here = [node_of("n1")], "n1"
        self.util = types.SimpleNamespace(list_named_actors=lambda all_namespaces: [
            {"name": name, "namespace": lambent.ray.NAMESPACE} for name in self.actors])

    def get_runtime_context(self):
        return types.SimpleNamespace(get_node_id=lambda: self.here, gcs_address="here", current_actor=None)

    def get_actor(self, name, namespace):
        self.looked_up += 1
        if name not in self.actors:
            raise ValueError(name)
        return self.actors[name]

    def kill(self, actor):
        actor.dead = True
        self.actors = {name: each for name, each in self.actors.items() if each is not actor}

    def get(self, call, timeout=None):
        self.timeouts.append(timeout)
        if self.unavailable:
            self.unavailable -= 1
            raise Unavailable
        if call.actor.dead:
            raise ActorError
        return call

    def wait(self, calls, num_returns=1, timeout=None):
        self.waits.append((len(calls), num_returns, timeout))
        done = [each for each in calls if not each.actor.begins]
        return done, [each for each in calls if each.actor.begins]

    def is_initialized(self):
        return True

    def nodes(self):
        return self.alive

    def remote(self, _):
        def options(name, **_):
            made = self.actors.setdefault(name, Actor())
            return types.SimpleNamespace(remote=lambda *_: made)
        return types.SimpleNamespace(options=options)


class Actor:
    def __init__(self):
        self.dead, self.begins, self.calls = False, False, []

    def __getattr__(self, name):
        def remote(*arguments):
            self.calls.append((name, *arguments))
            return types.SimpleNamespace(actor=self)
        return types.SimpleNamespace(remote=remote)


stand_in = StandIn()
strategies = types.ModuleType("ray.util.scheduling_strategies")
strategies.NodeAffinitySchedulingStrategy = lambda *_, **__: None
with mock.patch.dict(sys.modules, {"ray": stand_in, "ray.util": types.ModuleType("ray.util"),
                                   "ray.util.scheduling_strategies": strategies}):
    import lambent.ray


class AgentsOfThisNode(unittest.TestCase):
    def setUp(self):
        stand_in.__init__()
        lambent.ray._agents.clear()
        self.now = 100.0
        clock = mock.patch.object(lambent.ray.time, "monotonic", lambda: self.now)
        clock.start()
        self.addCleanup(clock.stop)

    def start(self):
        return lambent.ray.start(serve=[], timeout=60)

    def asked(self):
        return lambent.ray.function("f").remote({}).actor

    def test_the_one_of_a_second_start_is_asked_after_a_stop(self):
        first = self.start()
        self.assertIs(self.asked(), first.agents["n1"])
        first.stop()
        second = self.start()
        self.assertIs(self.asked(), second.agents["n1"])
        second.stop()
        with self.assertRaisesRegex(FailedPrecondition, "there is no agent"):
            self.asked()

    def test_one_that_another_driver_started_is_asked_soon(self):
        self.start()
        before = self.asked()
        self.asked()
        self.assertEqual(stand_in.looked_up, 1)
        stand_in.kill(before)
        again = self.start().agents["n1"]
        self.now += lambent.ray._PERIOD + 0.1
        self.assertIs(self.asked(), again)

    def test_where_only_nodes_with_gpus_have_one_the_others_ask_theirs(self):
        stand_in.alive = [{**node_of("n1"), "Resources": {"GPU": 2.0}}, node_of("n2")]
        cluster = lambent.ray.start(serve=[], timeout=60, gpus_only=True)
        self.assertEqual(list(cluster.agents), ["n1"])
        stand_in.here = "n2"
        self.assertIs(self.asked(), cluster.agents["n1"])

    def test_one_that_died_is_not_asked_again(self):
        self.start()
        handle = lambent.ray.Handle(NAMES[0])
        stand_in.kill(handle.get().actor)
        again = self.start().agents["n1"]
        with self.assertRaises(ActorError):
            handle.get()
        self.assertIs(handle.get().actor, again)

    def test_one_that_cannot_be_reached_for_a_moment_is_asked_again(self):
        self.start()
        handle = lambent.ray.Handle(NAMES[0])
        with mock.patch.object(lambent.ray.time, "sleep", lambda seconds: setattr(self, "now", self.now + seconds)):
            stand_in.unavailable = 3
            self.assertFalse(handle.get().actor.dead)
            stand_in.unavailable = 10000
            with self.assertRaises(Unavailable):
                handle.get()

    def test_the_driver_waits_longer_than_an_agent_for_its_worker(self):
        self.start()
        self.assertGreater(stand_in.timeouts[-1], 60)


class Autoscaler:
    """Stands in for Ray's: `asked` has the bundles of each request."""

    def __init__(self, test):
        self.asked = []
        sdk = types.SimpleNamespace(request_resources=lambda bundles: self.asked.append(bundles))
        patch = mock.patch.dict(sys.modules, {"ray.autoscaler": types.ModuleType("ray.autoscaler"), "ray.autoscaler.sdk": sdk})
        patch.start()
        test.addCleanup(patch.stop)


class Stops(unittest.TestCase):
    def setUp(self):
        stand_in.__init__()
        self.autoscaler = Autoscaler(self)

    def test_what_the_autoscaler_was_asked_for_is_taken_back(self):
        cluster = lambent.ray.start(serve=[], scale=(1, 2))
        members = stand_in.actors["lambent-members"]
        cluster.stop()
        self.assertEqual(members.calls[-1], ("end_scaling",))  # before it ends
        self.assertTrue(members.dead)
        self.assertEqual(self.autoscaler.asked, [])

    def test_by_the_driver_where_the_actor_that_asked_is_gone(self):
        for scale, asked in (((1, 2), [[]]), (None, [])):
            stand_in.__init__()
            self.autoscaler.asked.clear()
            cluster = lambent.ray.start(serve=[], scale=scale)
            stand_in.actors["lambent-members"].dead = True
            cluster.stop()
            self.assertEqual(self.autoscaler.asked, asked)
            self.assertEqual(stand_in.actors, {})


class Starts(unittest.TestCase):
    """What start() refuses before anything is started."""

    def setUp(self):
        stand_in.__init__()
        found = mock.patch.object(lambent.ray.shutil, "which", lambda _: "/usr/bin/lambent")
        found.start()
        self.addCleanup(found.stop)

    def words(self, **options):
        return lambent.ray._usual_command("/key", "/state", options.get("listen"), options.get("tls"))

    def test_workers_of_one_machine_stay_on_loopback(self):
        words = self.words()
        self.assertEqual(words[words.index("--listen") + 1], "127.0.0.1:{port}")
        self.assertNotIn("--auth", words)

    def test_workers_of_several_machines_need_tls(self):
        stand_in.alive.append(node_of("n2", "m2", "10.0.0.2"))
        with self.assertRaisesRegex(FailedPrecondition, "2 machines .10.0.0.1, 10.0.0.2.*give `tls`"):
            lambent.ray.start("/key")
        self.assertEqual(stand_in.actors, {})
        words = self.words(tls="/tls")
        self.assertEqual(words[words.index("--listen") + 1], "{ip}:{port}")
        self.assertEqual(words[words.index("--auth") + 1], "tokens")
        self.assertEqual(words[words.index("--peer-ca") + 1], "/tls/ca.crt")
        self.assertIn("0.0.0.0:9000", self.words(tls="/tls", listen="0.0.0.0:9000"))


    def test_nodes_that_an_autoscaler_brings_need_tls(self):
        with self.assertRaisesRegex(FailedPrecondition, "with `scale` .*give `tls`.*or `serve`"):
            lambent.ray.start("/key", scale=(1, 2))
        self.assertEqual(stand_in.actors, {})
        lambent.ray.start("/key", scale=(1, 2), tls="/tls")
        lambent.ray.start("/key", scale=(1, 2), serve=["lambent"])

    def test_a_scale_from_none_is_refused(self):
        with self.assertRaisesRegex(ValueError, "one node has to stay"):
            lambent.ray.start("/key", scale=(0, 2), tls="/tls")
        self.assertEqual(stand_in.actors, {})


class Members(unittest.TestCase):
    """What the members' actor says, whose agents are the nodes of Ray n1, n2 and so on."""

    def setUp(self):
        stand_in.__init__()
        stand_in.alive = [node_of("n1"), node_of("n2"), node_of("n3")]
        self.now = 100.0
        clock = mock.patch.object(lambent.ray.time, "monotonic", lambda: self.now)
        clock.start()
        self.addCleanup(clock.stop)
        self.members = lambent.ray._Members.__new__(lambent.ray._Members)
        self.members._known, self.members._left, self.members._home, self.members._errors = {}, {}, None, {}
        self.members._options, self.members._released = {"stamp": 1.0}, set()

    def member(self, name, port=1):
        return {"node": name, "address": "http://%s:%d" % (name, port), "gpus": []}

    def tell(self, node_id, name, up=(), home=None, port=1):
        view = [dict(self.member(each), state="up", home=each == home) for each in up]
        told = self.members.tell(node_id, self.member(name, port), view)
        return told["home"], sorted(each["node"] for each in told["members"])

    def test_the_first_is_the_home_and_stays_it_after_its_node_of_ray(self):
        self.assertEqual(self.tell("n1", "a"), ("a", ["a"]))
        self.assertEqual(self.tell("n2", "b"), ("a", ["a", "b"]))
        del stand_in.alive[0]
        # Its worker goes on. One that comes later is told of it.
        self.assertEqual(self.tell("n3", "c"), ("a", ["a", "b", "c"]))
        self.now += 1000
        self.assertEqual(self.tell("n3", "c"), ("a", ["a", "b", "c"]))
        # Ray is started again on that machine, and the worker has another port.
        stand_in.alive.append(node_of("n4"))
        self.assertEqual(self.tell("n4", "a", port=2), ("a", ["a", "b", "c"]))
        self.assertIn(self.member("a", 2), self.members.tell("n2", self.member("b"), [])["members"])

    def test_any_other_stays_as_long_as_workers_hear_from_it(self):
        self.tell("n1", "a")
        self.tell("n2", "b")
        del stand_in.alive[1]
        for _ in range(10):
            self.now += 30
            self.assertEqual(self.tell("n1", "a", up=["a", "b"])[1], ["a", "b"])
        self.assertEqual(self.tell("n3", "c", up=["c"])[1], ["a", "b", "c"])
        self.now += lambent.ray._FORGOTTEN + 1
        self.assertEqual(self.tell("n1", "a", up=["a"])[1], ["a", "c"])

    def test_one_that_lost_its_memory_learns_the_home_from_a_worker(self):
        self.assertEqual(self.tell("n2", "b", up=["a", "b"], home="a"), ("a", ["a", "b"]))

    def test_two_workers_of_one_name_are_refused(self):
        self.tell("n1", "a")
        with self.assertRaisesRegex(LambentError, "two workers are called 'a', those at http://a:1 and http://a:2.*--node-name"):
            self.tell("n2", "a", port=2)
        # One worker for two nodes of Ray is none of that.
        self.assertEqual(self.tell("n2", "a"), ("a", ["a"]))
        self.assertEqual(self.tell("n3", "c"), ("a", ["a", "c"]))


class Autoscaling(unittest.TestCase):
    """What is asked of Ray's autoscaler, whose nodes with GPUs are n1 and n2."""

    def setUp(self):
        stand_in.__init__()
        stand_in.alive = [{**node_of("n1"), "Resources": {"GPU": 2}}, {**node_of("n2"), "Resources": {"GPU": 2}}, node_of("n3")]
        self.begun, self.asked = [], Autoscaler(self).asked
        patch = mock.patch.object(lambent.ray.threading, "Thread", lambda target, args=(), daemon=False: types.SimpleNamespace(
            start=lambda: self.begun.append((target.__name__, args))))
        patch.start()
        self.addCleanup(patch.stop)
        self.options = {"reserve_gpus": True, "gpus_only": True, "scale": None, "down_after": 60, "timeout": 1, "stamp": 1.0}
        self.members = lambent.ray._Members(self.options)
        self.begun.clear()
        self.members._known = {each: {"node": "w" + each} for each in ("n1", "n2", "n3")}
        self.members._view = [{"node": "wn" + str(each), "slots": 2, "load": each, "home": each == 1} for each in (1, 2, 3)]

    def scale(self, wanted):
        scaling = lambent.ray.Scaling(1, 9)
        with mock.patch.object(scaling, "wanted", lambda nodes, now: self.assertEqual([each["node"] for each in nodes], self.seen) or wanted):
            self.members._scale(scaling)

    def test_more_are_bundles_of_all_gpus_of_a_node_and_said_once(self):
        self.seen = ["wn1", "wn2"]
        self.scale(3)
        self.scale(3)
        self.assertEqual(self.asked, [[{"GPU": 2}] * 3])

    def test_one_that_is_spare_is_drained_and_kept_if_it_is_needed_after_all(self):
        self.seen = ["wn1", "wn2"]
        self.scale(1)
        self.assertEqual((self.begun, self.asked), ([("_release", ("n2",))], [[{"GPU": 2}]]))
        self.seen = ["wn1"]
        self.scale(2)
        self.assertEqual(list(stand_in.actors), ["lambent-agent-n2"])  # it had ended already
        self.assertEqual(self.members._released, set())

    def test_what_was_asked_is_taken_back_where_scaling_ends(self):
        for end in (self.members.end_scaling, lambda: self.members.keep(self.options)):
            self.members.keep({**self.options, "scale": (1, 9)})
            self.seen = ["wn1", "wn2"]
            self.scale(3)
            self.asked.clear()
            end()
            self.assertEqual(self.asked, [[]])
            end()  # nothing more is asked, as others may have asked since
            self.members._look()
            self.assertEqual(self.asked, [[]])

    def test_it_is_tried_again_where_taking_back_failed(self):
        self.members.keep({**self.options, "scale": (1, 9)})
        self.seen = ["wn1", "wn2"]
        self.scale(3)
        with mock.patch.object(lambent.ray, "_ask_autoscaler", side_effect=OSError("no GCS")):
            with self.assertRaises(OSError):
                self.members.end_scaling()
            self.members._look()
        self.members._look()
        self.members._look()
        self.assertEqual(self.asked, [[{"GPU": 2}] * 3, []])

    def test_the_last_error_of_a_look_is_told_until_one_succeeds(self):
        def told():
            member = {"node": "wn1", "address": "http://1:1", "gpus": []}
            return self.members.tell("n1", member, [])["error"]
        self.members._known = {}
        self.members.keep({**self.options, "scale": (3, 9)})
        with mock.patch.object(lambent.ray, "_ask_autoscaler", side_effect=OSError("no GCS")):
            self.members._look()
        self.assertEqual(told(), "nodes of Ray: OSError: no GCS")
        self.members._view = []
        self.members._known = {}
        self.members._look()
        self.assertEqual(told(), "")

    def test_one_that_cannot_be_released_is_counted_again_and_gets_work(self):
        self.members._released.add("n2")
        agent = stand_in.actors["lambent-agent-n2"] = Actor()
        stand_in.unavailable = 2  # for the drain, and once for what undoes it
        self.members._release("n2")
        self.assertEqual(agent.calls, [("drain", True), ("drain", False), ("drain", False)])
        self.assertEqual((self.members._released, agent.dead), (set(), False))
        self.assertIn("release of node n2: Unavailable", self.members._errors["release"])
        self.members._released.add("n2")
        self.members._release("n2")
        self.assertEqual((self.members._released, agent.dead, self.members._errors), ({"n2"}, True, {}))

    def test_one_whose_agent_is_gone_gets_another_where_it_cannot_be_released(self):
        self.members._released.add("n2")
        self.members._release("n2")
        self.assertEqual((list(stand_in.actors), self.members._released), (["lambent-agent-n2"], set()))
        self.members._released.add("n9")  # whose node is gone too
        self.members._release("n9")
        self.assertEqual(self.members._released, set())


    def test_where_scaling_ends_nodes_on_their_way_out_get_work_again(self):
        self.members.keep({**self.options, "scale": (1, 9)})
        agent = stand_in.actors["lambent-agent-n2"] = Actor()
        self.members._released.add("n2")
        self.members.end_scaling()
        self.assertEqual((agent.calls, self.members._released), ([("drain", False)], set()))
        # What drains it ends with that, and the agent stays.
        self.members._release("n2")
        self.assertFalse(agent.dead)

    def test_nodes_on_their_way_out_are_waited_for_together_and_less_than_a_lease(self):
        self.members.keep({**self.options, "scale": (1, 9)})
        agents = {each: stand_in.actors.setdefault("lambent-agent-" + each, Actor()) for each in ("n1", "n2")}
        agents["n1"].begins = True  # it is not done before the members' actor answers it
        agents["n2"].dead = True
        self.members._released.update(("n1", "n2", "n9"))  # of which the last is gone
        self.members._errors["release"] = "of before"
        stand_in.waits.clear()
        stand_in.timeouts.clear()
        self.members.end_scaling()
        (count, wanted, timeout), = stand_in.waits
        self.assertEqual((count, wanted), (2, 2))
        self.assertLess(timeout, lambent.ray.LEASE - lambent.ray._PERIOD)
        self.assertEqual(len(stand_in.timeouts), 1)  # only the one that is done is asked what came of it
        self.assertEqual([agent.calls for agent in agents.values()], [[("drain", False)]] * 2)
        self.assertIn("which was to be released: ", self.members._errors["release"])
        self.assertEqual(self.members._released, set())

    def test_an_error_of_a_release_is_told_until_nothing_is_released_any_more(self):
        self.members.keep({**self.options, "scale": (1, 9)})
        self.members._errors["release"] = "of before"
        self.members.end_scaling()
        self.assertEqual(self.members._errors, {})

    def test_what_a_driver_says_last_holds_though_its_clock_is_behind(self):
        member = {"node": "wn2", "address": "http://2:1", "gpus": []}
        before = {**self.options, "serve": ["before"], "stamp": 50.0}
        self.members.keep(before)
        last = {**self.options, "serve": ["last"], "stamp": 7.0}
        self.members.keep(last)
        # An agent that still has those of before changes nothing, and is told the last.
        told = self.members.tell("n2", member, [], before)["options"]
        self.assertEqual(told["serve"], ["last"])
        self.assertGreater(told["stamp"], 50.0)
        # Nor does one of them change the last where this actor is started again, with the options that it was made with.
        again = lambent.ray._Members(before)
        again._known = {}
        again.tell("n2", member, [], told)
        self.assertEqual(again.tell("n1", {**member, "node": "wn1"}, [], before)["options"], told)

    def test_one_that_was_started_again_keeps_the_last_options_and_undrains_what_it_released(self):
        agent = stand_in.actors["lambent-agent-n2"] = Actor()
        member = {"node": "wn2", "address": "http://2:1", "gpus": []}
        last = {**self.options, "scale": (1, 9), "serve": ["last"], "stamp": 5.0}
        told = self.members.tell("n2", member, [], last, True)
        self.assertEqual((told["options"], self.members._options), (last, last))
        self.assertEqual(self.members._scaling.most, 9)
        self.assertEqual(agent.calls, [("drain", False)])
        # An agent that was told of older ones brings none back, and one that it releases is left alone.
        self.members._released.add("n2")
        self.assertEqual(self.members.tell("n2", member, [], self.options, True)["options"], last)
        self.assertEqual(agent.calls, [("drain", False)])

    def test_an_agent_that_does_not_start_is_told_of_and_tried_again(self):
        now = 1000.0
        with mock.patch.object(lambent.ray.time, "monotonic", lambda: now):
            self.members._look()
            first = stand_in.actors["lambent-agent-n1"]
            first.begins = True
            self.members._look()
            self.assertEqual(self.members.failed(), {})  # it may yet start
            first.begins = False
            stand_in.kill(first)  # its start fails: Ray has no actor of that name any more
            self.members._look()
            self.assertEqual(list(self.members.failed()), ["n1"])
            self.assertNotIn("lambent-agent-n1", stand_in.actors)
            now += lambent.ray._AGAIN
            self.members._look()
            self.assertIn("lambent-agent-n1", stand_in.actors)
            self.members._look()
            self.assertEqual(self.members.failed(), {})
            # Nor is one told of whose node is gone.
            self.members._failed["n1"] = "it did not start"
            del stand_in.alive[0]
            self.members._look()
            self.assertEqual(self.members.failed(), {})


class Places(unittest.TestCase):
    def setUp(self):
        stand_in.__init__()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def place(self, node_id, timeout=5):
        made = lambent.ray._Place(self.folder, node_id, timeout)
        self.addCleanup(made._file.close)
        return made

    def test_each_node_of_ray_on_a_machine_has_one_and_who_comes_after_takes_it(self):
        stand_in.alive = [node_of("n1", "gpu 1.example"), node_of("n2", "gpu 1.example"), node_of("n3", "other", "10.0.0.2")]
        first = self.place("n1")
        self.assertRegex(first.name, "^gpu-1-[0-9a-f]{8}$")
        self.assertEqual(first.fields(), {"node": first.name, "ip": "10.0.0.1", "port": "8980"})
        self.assertEqual(self.place("n2").fields(), {"node": first.name + "-2", "ip": "10.0.0.1", "port": "8981"})
        first._file.close()  # its agent ends
        stand_in.alive[0] = node_of("n9", "gpu 1.example")
        self.assertEqual(self.place("n9").name, first.name)

    def test_two_hosts_never_have_one_name_and_a_short_host_keeps_its_own(self):
        self.assertEqual(lambent.ray._name_of("gpu-1"), "gpu-1")
        self.assertEqual(lambent.ray._name_of("a" * 40), "a" * 40)
        hosts = ["gpu-1", "gpu-1.east", "gpu-1.west", "gpu 1", "a" * 40, "a" * 40 + "b", "a" * 40 + "c", "a" * 40 + ".b", ".b", ".c"]
        names = [lambent.ray._name_of(host) for host in hosts]
        self.assertEqual(len(set(names)), len(hosts), names)
        for name in names:  # of a node, with "ray-" before it and its place behind it
            self.assertRegex("ray-" + name + "-999", "^[A-Za-z0-9_.-]{1,64}$")
            self.assertLessEqual(len(name), 40)

    def test_none_is_taken_while_the_agent_before_lives(self):
        held = self.place("n1")
        stand_in.alive = [node_of("n2")]
        with self.assertRaisesRegex(LambentError, "hold all places"):
            self.place("n2", timeout=0)
        held._file.close()
        self.assertEqual(self.place("n2").name, "m1")


class Worker:
    """Stands in for a worker: whether it is drained, and what it was asked."""

    def __init__(self, test):
        self.drained, self.fails = False, False
        patch = mock.patch.object(lambent.ray, "_request", self.request)
        patch.start()
        test.addCleanup(patch.stop)

    def request(self, endpoint, method, path, body=None, timeout=5.0):
        if method == "POST":
            if self.fails:
                raise OSError("no worker")
            self.drained = path.endswith("/drain")
        return {"self": "w", "home": "w", "members": [{"self": True, "node": "w", "load": 0, "gpus": [], "state": "up", "home": True}]}


class Releases(unittest.TestCase):
    """A worker that was drained so that Ray may take its node away gets work again from any agent that comes after."""

    def setUp(self):
        stand_in.__init__()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.worker = folder.name, Worker(self)
        for name in ("_own_address", "_tell", "_check_reach"):
            patch = mock.patch.object(lambent.ray._Agent, name, lambda *_: "http://127.0.0.1:1")
            patch.start()
            self.addCleanup(patch.stop)
        for patch in (mock.patch.object(lambent.ray.threading, "Thread", mock.Mock()), mock.patch.object(lambent.ray, "_RETRY", 1e-3),
                      mock.patch.object(lambent.ray, "_PERIOD", 1e-3)):
            patch.start()
            self.addCleanup(patch.stop)

    def agent(self, node_id="n1"):
        options = {"state": self.folder, "socket": self.folder + "/{node}.sock", "serve": [], "timeout": 1, "address": {}}
        made = lambent.ray._Agent(node_id, options, None)
        self.addCleanup(made._place._file.close)
        return made

    def end(self, agent):
        agent._place._file.close()

    def test_where_what_knew_of_the_release_was_started_again(self):
        agent = self.agent()
        agent.drain(True)
        self.assertTrue(self.worker.drained)
        self.end(agent)
        again = self.agent()
        self.assertEqual((self.worker.drained, again._drained), (False, False))
        # Once: what an operator drains later stays drained.
        self.end(again)
        self.worker.drained = True
        self.agent()
        self.assertTrue(self.worker.drained)

    def test_where_ray_has_another_node_on_the_machine_later(self):
        agent = self.agent()
        agent.drain(True)
        self.end(agent)
        stand_in.alive = [node_of("n7")]
        self.agent("n7")
        self.assertFalse(self.worker.drained)

    def test_what_an_operator_drained_stays_so(self):
        self.worker.drained = True
        self.end(self.agent())
        self.assertTrue(self.worker.drained)

    def test_it_is_tried_again_where_the_worker_does_not_answer(self):
        agent = self.agent()
        agent.drain(True)
        self.end(agent)
        self.worker.fails = True
        with self.assertRaises(OSError):
            self.agent()
        gc.collect()  # which ends what that one held
        self.worker.fails = False
        self.agent()
        self.assertFalse(self.worker.drained)


class AnswersOfWorkflows(unittest.TestCase):
    def opened(self, answer, given=(), handles=False, missing=()):
        """What becomes of an answer, and the names of what was released."""
        def get(name):
            if name in missing:
                raise NotFound(name)
            return Tensor("BYTES", (2,), name[-3:-1].encode())

        client = mock.create_autospec(Client, instance=True)
        client.kind_of.return_value, client.get.side_effect = "workflow", get
        released = []
        client.release.side_effect = released.extend
        agent = lambent.ray._Agent.__new__(lambent.ray._Agent)
        agent._kinds = {}
        try:
            return agent._opened(client, "flow", answer, handles, set(given)), released
        except NotFound as error:
            return error, released

    def refs(self, *numbers):
        return {ObjectRef(None, NAMES[n]) for n in numbers}

    def test_what_it_made_is_released_and_what_it_was_given_stays(self):
        answer = {"a": {"object": NAMES[0]}, "b": [{"object": NAMES[1]}, {"object": "no name"}, {"object": [1]}, 5]}
        opened, released = self.opened(answer, given=[NAMES[1]])
        self.assertEqual(opened, {"a": b"0.", "b": [b"1.", {"object": "no name"}, {"object": [1]}, 5]})
        self.assertEqual(set(released), self.refs(0))
        self.assertEqual(json.dumps(answer).count("object"), 4, "the answer itself is left as it was")

    def test_all_of_it_is_released_where_some_cannot_be_got(self):
        opened, released = self.opened([{"object": name} for name in NAMES], given=[NAMES[3]], missing=[NAMES[1]])
        self.assertIsInstance(opened, NotFound)
        self.assertEqual(set(released), self.refs(0, 1, 2))

    def test_handles_stay(self):
        opened, released = self.opened([{"object": NAMES[0]}], handles=True)
        self.assertEqual((opened, released), ([lambent.ray.Handle(NAMES[0])], []))


if __name__ == "__main__":
    unittest.main()
