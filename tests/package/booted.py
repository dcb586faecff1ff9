"""Whole systems with systemd, which a Debian package is installed on: what tests ask of one, and one in namespaces."""
import os
import pathlib
import signal
import subprocess
import time
import unittest

import packaged
import roots

HERE = pathlib.Path(__file__).resolve().parent
NAMESPACES = ["unshare", "--mount", "--pid", "--net", "--ipc", "--uts", "--cgroup", "--fork", "--kill-child"]


def cgroup_folder():
    """Where cgroups of version 2 are mounted on this machine."""
    for line in pathlib.Path("/proc/mounts").read_text().splitlines():
        _, folder, kind, *_ = line.split()
        if kind == "cgroup2":
            return pathlib.Path(folder)
    raise unittest.SkipTest("this machine has no cgroups of version 2, which systemd needs")


class Commands:
    """A system on which `outcome` runs commands, as root."""

    def outcome(self, command, timeout):
        """What subprocess.run would return."""
        raise NotImplementedError

    def has_ended(self):
        raise NotImplementedError

    def run(self, *command, timeout=300, check=False):
        done = self.outcome(command, timeout)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(command)}: {done.stdout}{done.stderr}\n{self.log()}")
        return done

    def is_booted(self):
        return self.run("systemctl", "is-system-running").stdout.strip() in ("running", "degraded")

    def log(self):
        return self.run("journalctl", "--no-pager", "-n", "60", "-u", "lambent").stdout

    def property(self, name):
        return self.run("systemctl", "show", "-P", name, "lambent.service", check=True).stdout.strip()

    def wait_for(self, condition, what, seconds=60):
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline or self.has_ended():
                raise AssertionError(f"waited in vain for {what}")
            time.sleep(0.1)


class System(Commands):
    """In namespaces, on this machine's kernel. Boots it; SkipTest where it cannot be had."""

    def __init__(self, system, *files):
        if os.geteuid() != 0:
            raise unittest.SkipTest("only root can boot another system")
        try:
            root = roots.root_of(system)
        except roots.Unavailable as error:
            raise unittest.SkipTest(str(error)) from None
        self.cgroup = cgroup_folder() / f"lambent-test-{os.getpid()}"
        self.shared = packaged.shared(*files)
        self.files = self.shared.__enter__()
        self.cgroup.mkdir()
        boot = ["/lib/systemd/systemd", "systemd.unit=multi-user.target", "systemd.mask=console-getty.service"]
        self.process = subprocess.Popen(["sh", "-c", f'echo $$ >{self.cgroup}/cgroup.procs && exec "$@"', "sh", *NAMESPACES, HERE / "enter.sh",
                                         root, self.files, *boot], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self.wait_for(self.is_up, "systemd to boot")
        except BaseException:
            self.close()
            raise

    def is_up(self):
        return self.first_process() is not None and self.is_booted()

    def has_ended(self):
        return self.process.poll() is not None

    def first_process(self):
        """Its number outside; None before it is started and after its end."""
        if self.has_ended():
            return None
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return children[0] if children else None

    def outcome(self, command, timeout):
        first = self.first_process()
        if first is None:
            raise AssertionError("the system is down")
        return subprocess.run(["nsenter", "-t", first, "--all", "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
                               "DEBIAN_FRONTEND=noninteractive", *command], capture_output=True, text=True, timeout=timeout)

    def close(self):
        first = self.first_process()
        if first is not None:
            os.kill(int(first), signal.SIGKILL)  # and with it all that runs there
        self.process.kill()
        self.process.wait(30)
        self.shared.__exit__(None, None, None)
        for folder, _, _ in os.walk(self.cgroup, topdown=False):
            for _ in range(100):
                try:
                    os.rmdir(folder)
                    break
                except OSError:
                    time.sleep(0.05)
