"""The Debian package on a system that systemd runs: installed, used, reloaded, hung, upgraded, removed and purged."""
import json
import time
import unittest

from installed import EXAMPLE, Installed


class ServiceTest(Installed):
    def test_it_serves_at_once_as_a_user_without_rights(self):
        self.assertEqual(self.state(), "active", self.system.log())
        self.assertEqual(self.system.property("StatusText"), "serving at unix:/run/lambent/lambent.sock")
        status = self.system.run("cat", f"/proc/{self.system.property('MainPID')}/status").stdout
        user = self.system.run("id", "-u", "lambent").stdout.strip()
        self.assertIn(f"Uid:\t{user}\t{user}\t{user}\t{user}\n", status)
        self.assertIn("CapBnd:\t0000000000000000\n", status)
        self.assertIn("NoNewPrivs:\t1\n", status)

    def test_members_of_the_group_deploy_and_call_functions(self):
        deployed = self.lambent("deploy", EXAMPLE)
        self.assertEqual(deployed.returncode, 0, deployed.stderr + self.system.log())
        called = self.lambent("invoke", "vector_add", "-d", '{"count": 1000, "check": true}')
        self.assertEqual(called.returncode, 0, called.stderr + self.system.log())
        self.assertIs(json.loads(called.stdout)["correct"], True)

    def test_others_do_not_reach_it(self):
        refused = self.lambent("ls", user="eve")
        self.assertEqual(refused.returncode, 24)
        self.assertIn("/run/lambent/lambent.sock: Permission denied", refused.stderr)
        sockets = [line.split() for line in self.system.run("cat", "/proc/net/tcp", "/proc/net/tcp6").stdout.splitlines()]
        listening = {words[1].rpartition(":")[2] for words in sockets if words[3] == "0A"}
        self.assertLessEqual(listening, {"0035"})  # nothing of ours listens over TCP; 53 is the system's resolver

    def test_its_limits_lie_in_cgroups_below_its_own(self):
        self.assertEqual(self.system.property("Delegate"), "yes")
        own = self.system.run("cat", f"/proc/{self.system.property('MainPID')}/cgroup").stdout
        self.assertIn("/system.slice/lambent.service", own)

    def test_reload_is_answered_and_leaves_the_worker_as_it_is(self):
        before = self.system.property("MainPID")
        self.system.run("systemctl", "reload", "lambent", check=True)
        self.system.wait_for(lambda: "nothing_to_reload" in self.system.log(), "the worker to reload")
        self.system.wait_for(lambda: self.state() == "active", "the worker to be ready again")
        self.assertEqual(self.system.property("MainPID"), before)

    def test_a_worker_that_hangs_is_replaced(self):
        folder = "/run/systemd/system/lambent.service.d"
        self.system.run("sh", "-c", f"mkdir -p {folder} && printf '[Service]\\nWatchdogSec=2\\nTimeoutAbortSec=2\\n' >{folder}/test.conf",
                        check=True)
        self.system.run("systemctl", "daemon-reload", check=True)
        self.system.run("systemctl", "reset-failed", "lambent", check=True)  # these tests start it more often than its limit allows
        self.system.run("systemctl", "restart", "lambent", check=True)
        before = self.system.property("MainPID")
        self.system.run("sh", "-c", f"kill -STOP {before}", check=True)
        self.system.wait_for(lambda: self.state() == "active" and self.system.property("MainPID") not in ("0", before), "another worker", 90)
        self.system.run("sh", "-c", f"rm -r {folder} && systemctl daemon-reload && systemctl reset-failed lambent && systemctl restart lambent", check=True)
        self.assertEqual(self.state(), "active")


    def test_as_root_it_serves_the_group_too(self):
        folder = "/etc/systemd/system/lambent.service.d"
        self.system.run("sh", "-c", f"mkdir -p {folder} && cp /usr/share/doc/lambent/root.conf {folder} && systemctl daemon-reload &&"
                        "systemctl reset-failed lambent && systemctl restart lambent", check=True)
        try:
            self.assertEqual(self.lambent("deploy", EXAMPLE).returncode, 0, self.system.log())
            called = self.lambent("invoke", "vector_add", "-d", '{"count": 1000, "check": true}')
            self.assertEqual(called.returncode, 0, called.stdout + called.stderr + self.system.log())
            # Outside its sandbox the function is another user than the worker.
            users = self.system.run("sh", "-c", "cat /proc/[0-9]*/status | grep ^Uid:").stdout
            self.assertIn("Uid:\t65534\t65534", users)
        finally:
            self.system.run("sh", "-c", f"rm -r {folder} && systemctl daemon-reload && systemctl reset-failed lambent && systemctl restart lambent", check=True)


class Ubuntu2204ServiceTest(ServiceTest):
    system_name = "jammy"


class Ubuntu2404ServiceTest(ServiceTest):
    system_name = "noble"


class LifeTest(Installed):
    system_name = "trixie"

    def test_upgraded_it_keeps_functions_and_flags_and_purged_it_leaves_nothing(self):
        self.assertEqual(self.lambent("deploy", EXAMPLE).returncode, 0, self.system.log())
        self.system.run("sh", "-c", "echo '# mine' >>/etc/lambent/worker.env", check=True)
        before = self.system.property("MainPID")
        self.system.run("dpkg", "-i", "/files/newer.deb", check=True)
        # The worker gave way to the new program, in the same process.
        deadline = time.monotonic() + 60
        while "gives_way" not in self.system.log() or self.state() != "active":
            self.assertLess(time.monotonic(), deadline, self.system.log())
            time.sleep(0.2)
        self.assertEqual(self.system.property("MainPID"), before)
        self.assertNotIn("deleted", self.system.run("readlink", f"/proc/{before}/exe").stdout)
        self.assertIn("# mine", self.system.run("cat", "/etc/lambent/worker.env").stdout)
        called = self.lambent("invoke", "vector_add", "-d", '{"count": 1000, "check": true}')
        self.assertEqual(called.returncode, 0, called.stderr + self.system.log())

        self.system.run("dpkg", "-r", "lambent", check=True)
        self.assertNotEqual(self.state(), "active")
        self.assertEqual(self.system.run("test", "-e", "/var/lib/lambent/catalog.db").returncode, 0)
        self.assertNotEqual(self.system.run("pgrep", "-u", "lambent").returncode, 0)
        self.system.run("dpkg", "--purge", "lambent", check=True)
        left = self.system.run("sh", "-c", "ls -d /etc/lambent /var/lib/lambent /run/lambent /usr/lib/lambent /usr/share/doc/lambent 2>/dev/null")
        self.assertEqual(left.stdout, "")


if __name__ == "__main__":
    unittest.main()
