"""lambent.ray with Ray itself, the short test: what ordinary tasks make goes to a function and on, the home's node of Ray ends, and
nodes come later. tests/clients/test_ray.py and test_ray_nodes.py have the rest."""
import unittest

from ray_cluster import NEEDS_RAY, SIZES, RayTest, deploy_total, invoke


@NEEDS_RAY
class NodesThatGoAndCome(RayTest):
    @classmethod
    def setUpClass(cls):
        cls.begin(nodes=2)
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
        head = cls.of_ray.head_node.node_id

        @cls.ray.remote(num_gpus=1, scheduling_strategy=NodeAffinitySchedulingStrategy(head, soft=False))
        def hold():
            import time
            time.sleep(8)

        # So that the other node's worker is there first, and the home: Ray has to keep its head.
        holds = hold.remote()
        cls.cluster = cls.start()
        cls.ray.get(holds)
        cls.cluster.wait_until_up(120)

    def home(self):
        return {status["cluster"]["home"] for status in self.cluster.status()}

    def members_options(self, members):
        try:
            return self.ray.get(members.options.remote(), timeout=10)
        except self.ray.exceptions.RayError:  # it is being started again
            return {"serve": None}

    def test_a_functions_result_goes_on_to_a_task_and_the_homes_node_of_ray_may_end(self):
        addresses = self.own_addresses()
        (home,) = self.home()
        deploy_total(addresses[home])

        @self.ray.remote(num_cpus=0.1)
        def numbers(count):
            return {"numbers": list(range(count))}

        @self.ray.remote(num_cpus=0.1)
        def double(answer):
            return 2 * answer["sum"]

        total = self.lambent.function("total")
        self.assertEqual(self.ray.get(double.remote(total.remote(numbers.remote(5))), timeout=60), 20)
        with self.assertRaises(self.ray.exceptions.RayTaskError):
            self.ray.get(double.remote(total.remote({"fail": True})), timeout=60)

        before = self.workers()
        (ended,) = self.of_ray.worker_nodes
        self.assertIn("error", next(each for each in self.cluster.status() if each["node_id"] == ended.node_id))
        self.assertEqual(next(each["cluster"]["self"] for each in self.cluster.status() if each["node_id"] == ended.node_id), home)
        self.of_ray.remove_node(ended, allow_graceful=False)
        self.wait_for(lambda: len(self.cluster.status()) == 1)
        # Its worker goes on, and is a member and the home for all that come.
        self.assertEqual(self.workers(), before)
        self.assertEqual(invoke(addresses[home], "total", {"numbers": [1]}), {"sum": 1})
        # One that comes in its place finds it; no second worker is started on the machine.
        self.of_ray.add_node(**SIZES)
        self.cluster.wait_until_up(120, nodes=2)
        self.assertEqual(self.workers(), before)
        self.assertEqual((self.home(), self.own_addresses()), ({home}, addresses))
        # And one more has a worker of its own, which knows what was deployed before.
        self.of_ray.add_node(**SIZES)
        self.cluster.wait_until_up(120, nodes=3)
        self.assertEqual(len(self.workers()), 3)
        self.assertEqual(self.home(), {home})
        (late,) = set(self.own_addresses()) - set(addresses)
        self.assertEqual(invoke(self.own_addresses()[late], "total", {"numbers": [2, 3]}), {"sum": 5})
        # What start() said last holds also where the actor that starts agents is itself started again; and an agent whose worker does
        # not start says why. The others go on.
        self.start(serve=["/bin/false"], timeout=3)
        members = self.ray.get_actor("lambent-members", namespace=self.lambent.NAMESPACE)
        self.ray.kill(members, no_restart=False)
        self.wait_for(lambda: self.members_options(members)["serve"] == ["/bin/false"])
        failing = self.of_ray.add_node(**SIZES).node_id
        def rows():
            return [each for each in self.cluster.status() if each["node_id"] == failing]
        self.wait_for(lambda: any("the worker did not start" in each["error"] for each in rows()))
        # Not only while its agent ends.
        self.wait_for(lambda: [each["cluster"] for each in rows()] == [None] and failing not in self.cluster.agents)
        self.assertIn("the worker did not start", rows()[0]["error"])
        self.cluster.wait_until_up(60, nodes=3)


if __name__ == "__main__":
    unittest.main()
