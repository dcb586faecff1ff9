"""lambent.ray with Ray itself: what is refused, workers over TLS, a deployment of Ray Serve, and nodes that Ray's autoscaler brings."""
import importlib.util
import json
import os
import pathlib
import sys
import unittest
import urllib.error
import urllib.request
from unittest import mock

from harness import PREFIX, claim_ports
from ray_cluster import NEEDS_RAY, NEEDS_TIME, AutoscaledRay, RayTest, deploy_total, invoke

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples/35_ray_serve"
HAS_SERVE = all(importlib.util.find_spec(each) for each in ("fastapi", "uvicorn", "aiohttp_cors")) if importlib.util.find_spec("ray") else False


@NEEDS_RAY
@NEEDS_TIME
class Refusals(RayTest):
    @classmethod
    def setUpClass(cls):
        cls.begin(nodes=2)

    def test_two_workers_of_one_name_are_refused_and_both_go_on(self):
        from lambent.errors import LambentError
        with self.assertRaises(self.ray.exceptions.RayError) as caught:
            self.start(serve=self.serve_words(name="same"))
        self.assertIn("two workers are called 'same'", str(caught.exception))
        self.assertEqual(len(self.workers()), 2)
        # With names of their own they would be one cluster: nothing was told to them.
        (one,) = self.lambent.Cluster({}, None).status()
        self.assertEqual([each["node"] for each in one["cluster"]["members"]], ["same"])
        self.assertTrue(issubclass(LambentError, Exception))


@NEEDS_RAY
@NEEDS_TIME
class OverTls(RayTest):
    @classmethod
    def setUpClass(cls):
        cls.begin(nodes=2)
        tls = cls.tls_folder()
        with mock.patch.dict(os.environ, {"PATH": f"{PREFIX / 'bin'}:{os.environ['PATH']}"}):
            serve = cls.lambent._usual_command(str(cls.folder / "key"), str(cls.folder), "127.0.0.1:0", str(tls))
        cls.cluster = cls.start(serve=[*serve, "--gpu", "emulated:tiny"]).wait_until_up(120)

    def test_workers_that_start_makes_reach_each_other_with_certificates_and_tokens(self):
        addresses = self.own_addresses()
        self.assertEqual({each.partition("://")[0] for each in addresses.values()}, {"https"})
        self.assertEqual([[each["state"] for each in status["cluster"]["members"]] for status in self.cluster.status()], [["up"] * 2] * 2)


@NEEDS_RAY
@NEEDS_TIME
@unittest.skipUnless(HAS_SERVE, "ray[serve] is not installed: ./dev test --all installs it")
class BehindServe(RayTest):
    @classmethod
    def setUpClass(cls):
        cls.begin(nodes=1)
        cls.cluster = cls.start().wait_until_up(120)
        deploy_total(next(iter(RayTest.own_addresses(cls).values())))
        sys.path.insert(0, str(EXAMPLE))
        cls.addClassCleanup(sys.path.remove, str(EXAMPLE))

    def test_the_example_answers_what_the_function_does(self):
        from ray import serve
        spec = importlib.util.spec_from_file_location("ray_serve_example", EXAMPLE / "app.py")
        example = importlib.util.module_from_spec(spec)
        sys.modules["ray_serve_example"] = example
        spec.loader.exec_module(example)
        import ray.cloudpickle
        ray.cloudpickle.register_pickle_by_value(example)  # Ray's processes have no such module
        (port,) = claim_ports(1)
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        self.addCleanup(serve.shutdown)
        serve.run(example.app({"function": "total"}), route_prefix="/total")
        request = urllib.request.Request(f"http://127.0.0.1:{port}/total", json.dumps({"numbers": [1, 2, 3]}).encode())
        with urllib.request.urlopen(request, timeout=60) as answer:
            self.assertEqual(json.load(answer), {"sum": 6})
        request.data = json.dumps({"fail": True}).encode()
        with self.assertRaises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request, timeout=60)
        self.assertEqual(caught.exception.code, 500)


@NEEDS_RAY
@NEEDS_TIME
class KeptAfterAll(RayTest):
    """Two nodes, of which Ray takes none away: no autoscaler looks after them."""

    @classmethod
    def setUpClass(cls):
        cls.begin(nodes=2)
        cls.cluster = cls.start(scale=(1, 2), down_after=10).wait_until_up(120, nodes=2)

    def states(self):
        said = [each["cluster"] for each in self.cluster.status() if each["cluster"]]
        return [sorted(member["state"] for member in each["members"]) for each in said]

    def test_a_node_that_was_released_gets_work_again_where_what_knew_of_it_was_started_again(self):
        self.wait_for(lambda: self.states() == [["draining", "up"]])  # its agent has ended
        self.ray.kill(self.ray.get_actor("lambent-members", namespace=self.lambent.NAMESPACE), no_restart=False)
        self.wait_for(lambda: self.states() == [["up", "up"]] * 2)


@NEEDS_RAY
@NEEDS_TIME
class Autoscaled(RayTest):
    @classmethod
    def setUpClass(cls):
        cls.prepare()
        gpu = {"resources": {"CPU": 1, "GPU": 1, "object_store_memory": 80 << 20}, "node_config": {}, "min_workers": 0, "max_workers": 2}
        cls.of_ray = AutoscaledRay(cls.folder, {"gpu": gpu})
        cls.addClassCleanup(cls.of_ray.shutdown)
        cls.ray.init(address=cls.of_ray.address, namespace="test", log_to_driver=False)
        cls.addClassCleanup(cls.ray.shutdown)
        cls.cluster = cls.start(scale=(1, 1)).wait_until_up(120)

    def test_a_node_is_asked_of_the_autoscaler_joins_serves_and_is_given_back(self):
        (first,) = self.own_addresses()
        deploy_total(self.own_addresses()[first])
        self.wait_for(lambda: self.ray.cluster_resources().get("GPU", 0) == 1, seconds=150)
        self.cluster.wait_until_up(120, nodes=2)
        (late,) = set(self.own_addresses()) - {first}
        self.assertEqual(invoke(self.own_addresses()[late], "total", {"numbers": [4]}), {"sum": 4})
        # Its GPU is reserved, and its worker is told of by all.
        self.wait_for(lambda: self.ray.available_resources().get("GPU", 0) == 0)
        self.assertEqual({each["cluster"]["home"] for each in self.cluster.status()}, {first})
        self.assertEqual([len(each["cluster"]["members"]) for each in self.cluster.status()], [2, 2])
        # A second one comes, may go, has nothing to do, and is drained before Ray takes it away.
        self.start(scale=(2, 2))
        self.wait_for(lambda: self.ray.cluster_resources().get("GPU", 0) == 2, seconds=150)
        self.cluster.wait_until_up(120, nodes=3)
        self.start(scale=(1, 2), down_after=5)
        self.wait_for(lambda: self.ray.cluster_resources().get("GPU", 0) == 1, seconds=150)
        status = next(each for each in self.cluster.status() if each["cluster"])
        states = {each["node"]: each["state"] for each in status["cluster"]["members"]}
        self.assertEqual(sorted(states.values()), ["draining", "up", "up"])
        self.assertEqual((states[first], status["members_error"]), ("up", ""))
        self.assertEqual(invoke(self.own_addresses()[first], "total", {"numbers": [6]}), {"sum": 6})


if __name__ == "__main__":
    unittest.main()
