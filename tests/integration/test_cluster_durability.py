"""How often an asynchronous invocation runs in a cluster of two nodes with one catalog in PostgreSQL, counted with a node killed at each
step, and with PostgreSQL's connections cut there; held against the tables of docs/internals/durability.md.

The node that has the invocation stops itself at the step (--fault-point). The other one is drained: it runs nothing until it takes over.
"""
import os
import signal
import unittest

import fault_steps
from cluster_world import Postgres
from harness import HttpError, descendants, process_exists
from test_cluster import Cluster
from test_durability import COUNTED, WHOLE, Call, Runs, state_of

OWNER, OTHER = "a", "b"
# Without LAMBENT_WHOLE_TESTS these.
SHORT = ("request_written", "request_durable", "dispatched", "delivered", "result_written", "result_durable")


@unittest.skipUnless(os.geteuid() == 0, "an ordinary user's sandboxes cannot write the FIFO that counts")
class ClusterDurability(unittest.TestCase):
    def setUp(self):
        self.postgres = Postgres(self)
        self.cluster = Cluster(self, names=OWNER + OTHER, flags=("--catalog", self.postgres.url))
        self.flags = self.cluster[OWNER].flags
        self.cluster.wait_until_up()
        self.cluster[OWNER].create_python("counted", COUNTED, timeout=120, memory=128, tags={"lambent:max-concurrency": "1"})
        self.cluster.wait_for(lambda: self.cluster[OTHER].request("GET", "/v1/functions").json["functions"])
        self.runs = {name: Runs(self.cluster[name].folder / "state") for name in self.cluster.nodes}
        for runs in self.runs.values():
            self.addCleanup(runs.close)
        self.drain(OTHER)
        self.calls = 0

    # What a test does to its nodes.
    def drain(self, name):
        self.cluster[name].request("POST", f"/v1/cluster/nodes/{name}/drain")

    def begun(self, call, name=None):
        return sum(self.runs[each].begun_of(call.n) for each in ([name] if name else self.runs))

    def call(self, name, **event):
        self.calls += 1
        return Call(self.cluster[name], f"{self.calls}", **event)

    def start(self, point="", warm=False):
        """The owner, in place of the one before."""
        owner = self.cluster[OWNER]
        if owner.process.poll() is None:
            self.kill()
        owner.flags = (*self.flags, *(("--fault-point", point) if point else ()))
        owner.start()
        self.cluster.wait_for(lambda: self.cluster.states(OTHER)[OWNER] == "up", 30)
        self.cluster.wait_for(lambda: self.cluster.states(OWNER)[OTHER] == "draining", 30)
        if warm:
            self.assertEqual(owner.invoke("counted").json, "warm")

    def wait_for_stop(self):
        self.cluster[OWNER].wait_for(lambda: state_of(self.cluster[OWNER].process.pid) == "T", what="the stop at the fault point")

    def go_on(self):
        self.cluster[OWNER].process.send_signal(signal.SIGCONT)

    def kill(self):
        owner = self.cluster[OWNER]
        below = descendants(owner.process.pid)
        owner.kill()
        owner.wait_for(lambda: not any(process_exists(pid) for pid in below), what="the end of its processes")

    def cut(self):
        """All sessions of nodes, as PostgreSQL's own end of them."""
        self.postgres.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' "
                            "AND pid <> pg_backend_pid()")

    def record(self, call):
        """(state, attempts, owner) in PostgreSQL; None: it has no such invocation."""
        rows = self.postgres.query("SELECT state, attempts, owner FROM shared_invocations WHERE "
                                   f"idempotency_key LIKE '%{call.key}%'")
        if not rows:
            return None
        state, attempts, owner = rows[0].split("|")
        return state, int(attempts), owner

    def outcome(self, name, call, seconds=60):
        """The word, and the body."""
        def ask():
            try:
                reply = self.cluster[name].request("GET", f"/v1/invocations/{call.id}")
            except HttpError as error:
                if error.status == 503:  # its connection was cut a moment ago
                    return None
                raise
            return reply if "x-lambent-outcome" in reply.headers else None
        reply = self.cluster[name].wait_for(ask, seconds, f"the outcome of {call.id}")
        return reply.headers["x-lambent-outcome"], reply.json

    def settle(self, name):
        """Nothing of it is under way any more: another one, that came after it, has its outcome. They run one after the other."""
        def ended():
            other = self.call(name)
            return other.told() == fault_steps.TOLD and self.outcome(name, other)
        self.assertEqual(self.cluster[name].wait_for(ended, 60, "an invocation after it")[0], "succeeded")

    def repeat(self, name, call):
        """As its client does, which got no answer and asks the other node."""
        call.worker = self.cluster[name]
        self.cluster[name].wait_for(call.repeat, 60, "its repeat")

    def killed_at(self, step):
        """Kills the owner there: (call, runs at it, attempts that were recorded)."""
        self.start(step.point + (":hold" if step.holds else ""), step.warm)
        for runs in self.runs.values():
            runs.end.unlink(missing_ok=True)
        call = self.call(OWNER, waits=not step.point)
        if step.point and not step.holds:
            self.wait_for_stop()
        owner = self.cluster[OWNER]
        if not step.point:
            owner.wait_for(lambda: self.begun(call, OWNER) == 1, what="a run")
            owner.wait_for(lambda: self.record(call)[:2] == ("running", 1), what="its attempt")
        elif step.first:
            owner.wait_for(lambda: self.runs[OWNER].ended_of(call.n) == 1, what="a run")
        if step.told == fault_steps.TOLD:
            self.assertEqual(call.told(), fault_steps.TOLD)
        record = self.record(call)
        self.kill()
        for runs in self.runs.values():
            runs.end.touch()
        return call, self.begun(call, OWNER), record[1] if record else None

    def test_a_node_killed_at_every_step(self):
        for step in fault_steps.STEPS:
            if not (WHOLE or step.point in SHORT):
                continue
            with self.subTest(step=step.name):
                call, first, recorded = self.killed_at(step)
                self.assertEqual(call.told(), step.told)
                self.assertEqual(first, step.first)
                self.assertIn(recorded, step.recorded)
                if step.then:
                    # The other node takes it over, though it is drained.
                    self.cluster[OTHER].wait_for(lambda: self.runs[OTHER].ended_of(call.n) == 1, 60, "a run at the other node")
                self.settle(OTHER)
                self.assertEqual((self.begun(call, OWNER), self.begun(call, OTHER)), (step.first, step.then))
                if step.told == fault_steps.NOT_TOLD:
                    self.repeat(OTHER, call)
                self.assertEqual(self.outcome(OTHER, call), ("succeeded", call.n))
                self.assertEqual(self.begun(call), max(1, step.runs))
                # Nor does the first node run it again, once it is back.
                self.start()
                self.settle(OWNER)
                self.assertEqual(self.outcome(OWNER, call), ("succeeded", call.n))
                self.assertEqual(self.begun(call), max(1, step.runs))

    def test_postgresql_s_connections_cut_at_its_steps(self):
        for cut in fault_steps.CUTS:
            if not (WHOLE or cut.short):
                continue
            with self.subTest(cut=cut):
                self.start(cut.point, warm=True)
                for runs in self.runs.values():
                    runs.end.touch()
                call = self.call(OWNER)
                self.wait_for_stop()
                self.cut()
                if cut.taken_over:
                    self.cluster[OTHER].wait_for(lambda: self.runs[OTHER].ended_of(call.n) == 1, 60, "a run at the other node")
                self.go_on()
                told = call.told()
                self.assertIn(told, cut.told.split(" or "))
                if told == fault_steps.NOT_TOLD:
                    self.repeat(OWNER, call)
                self.assertEqual(self.outcome(OWNER, call), ("succeeded", call.n))
                self.settle(OWNER)
                self.assertIn(self.begun(call), cut.runs)
                self.assertEqual(self.outcome(OTHER, call), ("succeeded", call.n))


if __name__ == "__main__":
    unittest.main()
