"""The Debian package on whole systems with their own kernels: the limits of functions, the unit's walls, Ubuntu's AppArmor, upgrades."""
import json
import unittest

import packaged
import virtual
from installed import Installed

GREEDY = packaged.ROOT / "tests/package/greedy"
SANDBOX_TEST = packaged.PREFIX / "tests/sandbox_test"
GROUPS = "/sys/fs/cgroup"
MIB = 1 << 20
METRICS = """
import socket
worker = socket.socket(socket.AF_UNIX)
worker.connect("/run/lambent/lambent.sock")
worker.sendall(b"GET /metrics HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n")
print(b"".join(iter(lambda: worker.recv(65536), b"")).decode())
"""


class MachineTest(Installed):
    make_system = virtual.Machine
    files = (GREEDY, *([SANDBOX_TEST] if SANDBOX_TEST.exists() else []))

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.system.run("runuser", "-u", "ada", "--", "lambent", "deploy", "/files/greedy", check=True)

    def call(self, event):
        return self.lambent("invoke", "greedy", "-d", json.dumps(event))

    def answer(self, event):
        called = self.call(event)
        self.assertEqual(called.returncode, 0, called.stdout + called.stderr + self.system.log())
        return json.loads(called.stdout)

    def read(self, path):
        return self.system.run("cat", path, check=True).stdout.strip()

    def main_process(self):
        return self.system.property("MainPID")

    def sandbox(self):
        """The process of the warm sandbox, and its cgroup's folder."""
        self.answer({"look": "/"})
        listed = json.loads(self.lambent("ps", "--json").stdout)["sandboxes"]
        (process,) = [row["pid"] for row in listed if row["function"] == "greedy"]
        group = self.read(f"/proc/{process}/cgroup")
        self.assertRegex(group, r"^0::/system\.slice/lambent\.service/[^/]+/\d+$")
        return process, GROUPS + group.removeprefix("0::")

    def check_limits(self):
        _, group = self.sandbox()
        self.assertEqual(self.read(f"{group}/memory.max"), str(192 * MIB))
        self.assertEqual(self.read(f"{group}/memory.swap.max"), "0")
        self.assertEqual(self.read(f"{group}/pids.max"), "257")  # 256 and the sandbox's init
        self.assertEqual(self.read(f"{group}/cpu.idle"), "0")  # it has been ready, and weighs like others
        return group

    def check_ended(self, called):
        self.assertNotEqual(called.returncode, 0)
        self.assertEqual(json.loads(called.stdout)["errorType"], "Runtime.OutOfMemory", called.stderr)

    def test_every_limit_is_a_cgroup_s_of_version_2(self):
        self.assertEqual(self.read("/proc/filesystems").count("cgroup2"), 1)
        self.assertEqual(self.log_of("weaker_limit"), [])
        group = self.check_limits()
        self.assertEqual(set(self.read(f"{group}/cgroup.controllers").split()), {"cpu", "memory", "pids"})

    def test_a_function_that_takes_too_much_memory_ends_and_nothing_else_does(self):
        worker, restarts = self.main_process(), self.system.property("NRestarts")
        process, _ = self.sandbox()
        self.check_ended(self.call({"memory": 400}))
        self.assertIn("Memory cgroup out of memory", self.system.run("dmesg").stdout)
        self.assertEqual(self.answer({"memory": 20}), {"held_mib": 20})
        self.assertNotEqual(self.sandbox()[0], process)
        self.assertEqual((self.main_process(), self.state(), self.system.property("NRestarts")), (worker, "active", restarts))

    def test_a_function_that_forks_stops_at_its_limit(self):
        forked = self.answer({"fork": 400})
        self.assertEqual(forked["refused"], "Resource temporarily unavailable")
        self.assertLess(forked["forked"], 256)
        self.assertGreater(forked["forked"], 200)
        _, group = self.sandbox()
        self.assertRegex(self.read(f"{group}/pids.events"), r"max [1-9]")

    def test_the_sandbox_s_own_tests_of_limits_hold_in_a_delegated_cgroup(self):
        if not SANDBOX_TEST.exists():
            self.skipTest("tests/sandbox_test is not built")
        # It finds the launcher where it was built.
        self.system.run("sh", "-c", f"mkdir -p {packaged.PREFIX} && ln -sfn /usr/lib/lambent/bin {packaged.PREFIX}/bin", check=True)
        done = self.system.run("systemd-run", "--quiet", "--pipe", "--wait", "--uid=ada", "-p", "Delegate=cpu memory pids", "/files/sandbox_test",
                               "--gtest_filter=CgroupTest.*:DelegatedCgroupTest.*:LimitsTest.ProcessesStop*:LimitsTest.AForkBomb*:LimitsTest.AMemoryHog*:"
                               "LimitsTest.ACpuQuota*:GivingWayTest.*", timeout=600)
        self.assertEqual(done.returncode, 0, done.stdout[-6000:] + done.stderr)
        self.assertIn("LimitsTest.ACpuQuotaSlowsDown (", done.stdout)
        self.assertNotIn("SKIPPED", done.stdout)

    def test_the_unit_s_walls_hold(self):
        worker = self.main_process()
        inside = ["nsenter", "-t", worker, "--mount"]
        # Root without the unit's walls, in the worker's own mounts: these alone refuse.
        for path in ("/usr/bin", "/etc", "/opt"):
            self.assertIn("Read-only file system", self.system.run(*inside, "touch", f"{path}/lambent-was-here").stderr, path)
        self.assertIn("Permission denied", self.system.run(*inside, "ls", "/home/ada", check=False).stderr + self.system.run(
            *inside, "runuser", "-u", "lambent", "--", "ls", "/home").stderr)
        self.system.run("touch", "/tmp/of-the-machine", check=True)
        self.assertNotIn("of-the-machine", self.system.run(*inside, "ls", "/tmp", check=True).stdout)
        status = self.read(f"/proc/{worker}/status")
        for line in ("CapBnd:\t0000000000000000", "CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"):
            self.assertIn(f"{line}\n", status)
        # Even root, in the worker's cgroup, may not open a disk.
        group = GROUPS + self.read(f"/proc/{worker}/cgroup").removeprefix("0::")
        opened = self.system.run("sh", "-c", f"head -c 1 /dev/vda >/dev/null && echo 0 >{group}/cgroup.procs && echo entered && head -c 1 /dev/vda >/dev/null")
        self.assertIn("entered", opened.stdout, opened.stderr)
        self.assertIn("Operation not permitted", opened.stderr)

    def test_a_function_sees_no_cgroups_and_no_disks(self):
        self.assertEqual(self.answer({"look": "/sys/fs/cgroup"}), {"refused": "No such file or directory"})
        self.assertNotIn("vda", self.answer({"look": "/dev"})["found"])

    def log_of(self, event):
        """The lines of the service's log that tell this event."""
        log = self.system.run("journalctl", "--no-pager", "-o", "cat", "-u", "lambent", check=True).stdout
        return [line for line in log.splitlines() if line.split(" ")[2:3] == [event]]

    def restart(self, *command):
        """What the command does to the service, until it serves again."""
        served = len(self.log_of("listening"))
        self.system.run(*command, check=True, timeout=600)
        self.system.wait_for(lambda: len(self.log_of("listening")) > served, "the worker to serve", 600)
        self.system.wait_for(lambda: self.state() == "active", "systemd to see it", 60)

    def test_after_upgrades_and_restarts_limits_hold_as_before(self):
        worker = self.main_process()
        process, _ = self.sandbox()
        for _ in range(2):  # to the same program
            kept = len(self.log_of("sandboxes_kept"))
            self.restart("systemctl", "kill", "--kill-whom=main", "-s", "USR2", "lambent")
            self.assertEqual(len(self.log_of("sandboxes_kept")), kept + 1, self.system.log())
            self.assertEqual(self.sandbox()[0], process)
            self.check_limits()
        self.check_ended(self.call({"memory": 400}))
        self.check_limits()  # of a sandbox that the new program made
        self.assertEqual(self.main_process(), worker)
        for command in (["restart"], ["kill", "--kill-whom=main", "-s", "KILL"]):
            self.restart("systemctl", *command, "lambent")
            self.check_limits()
            folders = self.system.run("sh", "-c", f"ls -d {GROUPS}/system.slice/lambent.service/*/").stdout.split()
            self.assertEqual(len(folders), 2, folders)  # the worker's and the sandboxes'
        self.assertEqual(self.log_of("weaker_limit"), [])

    def test_sandboxes_that_are_forked_of_a_zygote_have_the_limits_too(self):
        self.sandbox()
        self.system.wait_for(lambda: self.log_of("zygote_ready"), "a zygote", 120)
        self.check_ended(self.call({"memory": 400}))
        self.check_limits()
        metrics = self.system.run("python3", "-c", METRICS, check=True).stdout
        self.assertRegex(metrics, r"(?m)^lambent_sandboxes_forked_total [1-9]")
        self.assertEqual(self.log_of("zygote_failed"), [])


class Ubuntu2404MachineTest(MachineTest):
    system_name = "noble"

    def probe(self):
        return self.system.run("runuser", "-u", "ada", "--", "/usr/lib/lambent/bin/lambent-launcher", "--probe").stdout

    def test_only_its_profile_lets_the_launcher_make_user_namespaces(self):
        self.assertEqual(self.read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"), "1")
        self.assertNotEqual(self.system.run("runuser", "-u", "ada", "--", "unshare", "--user", "--map-root-user", "--mount", "true").returncode, 0)
        self.assertIn("sandboxes: possible", self.probe())
        self.assertEqual(self.answer({"memory": 1}), {"held_mib": 1})
        self.assertIn("lambent-launcher (unconfined)", self.read("/sys/kernel/security/apparmor/profiles"))

    def test_without_the_profile_the_error_names_the_remedy(self):
        self.system.run("apparmor_parser", "--remove", "/etc/apparmor.d/lambent", check=True)
        try:
            self.assertIn("kernel.apparmor_restrict_unprivileged_userns", self.probe())
            self.system.run("systemctl", "restart", "lambent", timeout=300)
            self.system.wait_for(lambda: "kernel.apparmor_restrict_unprivileged_userns" in self.system.log(), "the reason in the log")
        finally:
            self.system.run("sh", "-c", "apparmor_parser --replace /etc/apparmor.d/lambent && systemctl reset-failed lambent; systemctl restart lambent")
        self.assertEqual(self.answer({"memory": 1}), {"held_mib": 1})


if __name__ == "__main__":
    unittest.main()
