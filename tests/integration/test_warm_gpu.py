"""Instances of functions whose GPU memory together exceeds the device's: their memory moves, and none of them ends."""
from test_memory_moves import SmallDevice


class WarmGpuTest(SmallDevice):
    def test_instances_keep_their_processes_while_their_memory_comes_and_goes(self):
        self.create_holders(5, tags={"lambent:min-instances": "1"})

        def ready():
            rows = {row["name"]: row["instances_ready"] for row in self.worker.request("GET", "/v1/functions").json["functions"]}
            return all(rows[name] == 1 for name in self.names)

        self.worker.wait_for(ready, seconds=60, what="an instance of each function")
        pids = {(each["function"], each["pid"]) for each in self.worker.sandboxes()}
        self.assertEqual(len(pids), 5)
        starts = []
        for _ in range(2):
            for name in self.names:
                reply = self.worker.invoke(name, {})
                self.assertEqual(reply.json["changed"], [])
                starts.append(reply.headers["x-lambent-start"])
        self.assertNotIn("cold", starts)
        self.assertIn("gpu_cold", starts, "all of their memory fits: this test shows nothing")
        self.assertEqual({(each["function"], each["pid"]) for each in self.worker.sandboxes()}, pids)


del SmallDevice  # its tests are test_memory_moves'
