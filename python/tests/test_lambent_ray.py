"""lambent.ray over a stand-in for ray: what an agent releases, and which agent is asked. tests/clients/test_ray.py has Ray itself."""
import json
import pathlib
import sys
import types
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from lambent.client import Client, ObjectRef  # noqa: E402
from lambent.errors import FailedPrecondition, NotFound  # noqa: E402
from lambent.tensor import Tensor  # noqa: E402

NAMES = ["00000000-0000-0001-0000-00000000000%d.0" % n for n in range(4)]


class ActorError(Exception):
    pass


class TimedOut(Exception):
    pass


class StandIn(types.ModuleType):
    """One node with named actors; what calls of them return are the calls."""

    def __init__(self):
        super().__init__("ray")
        self.exceptions = types.SimpleNamespace(RayActorError=ActorError, GetTimeoutError=TimedOut)
        self.ObjectRef = type("ObjectRef", (), {})
        self.actors, self.looked_up, self.timeouts = {}, 0, []

    def get_runtime_context(self):
        return types.SimpleNamespace(get_node_id=lambda: "n1", gcs_address="here")

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
        if call.actor.dead:
            raise ActorError
        return call

    def is_initialized(self):
        return True

    def nodes(self):
        return [{"Alive": True, "NodeID": "n1", "Resources": {}}]

    def remote(self, _):
        def options(name, **_):
            made = self.actors.setdefault(name, Actor())
            return types.SimpleNamespace(remote=lambda *_: made)
        return types.SimpleNamespace(options=options)


class Actor:
    def __init__(self):
        self.dead = False

    def __getattr__(self, _):
        return types.SimpleNamespace(remote=lambda *_: types.SimpleNamespace(actor=self))


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

    def test_one_that_died_is_not_asked_again(self):
        self.start()
        handle = lambent.ray.Handle(NAMES[0])
        stand_in.kill(handle.get().actor)
        again = self.start().agents["n1"]
        with self.assertRaises(ActorError):
            handle.get()
        self.assertIs(handle.get().actor, again)

    def test_the_driver_waits_longer_than_an_agent_for_its_worker(self):
        self.start()
        self.assertGreater(stand_in.timeouts[-1], 60)


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
