"""Upgrades between two builds that are not the same, under load: warm sandboxes stay where the newer program reads their format, and else start
again; either way no request fails and nothing that was acknowledged is lost.

The other build is this one with another version in it. LAMBENT_OLDER_PREFIX names the build folder of an older commit to have instead."""
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
import unittest

import harness
from harness import HttpError, process_exists
from test_replacement import DOUBLE, Installed, Load, ReplacedTest

VERSION = re.search(r"^project\(.*VERSION ([0-9.]+)", (pathlib.Path(__file__).resolve().parents[2] / "CMakeLists.txt").read_text(), re.MULTILINE).group(1)
OTHER_VERSION = "0" * (len(VERSION) - 2) + ".1"
OLDER_PREFIX = os.environ.get("LAMBENT_OLDER_PREFIX")
WHO = """
import os
calls = 0
def handler(event, context):
    global calls
    calls += 1
    return [os.getpid(), calls]
"""
LATER = "import time\ndef handler(e, c):\n  time.sleep(e['seconds'])\n  return e['n'] * 3"
ANSWERS = '#!/bin/sh\n[ "$1" = --kept-sandboxes-format ] && {{ {answer}; }}\nexec {real} "$@"\n'
# The program changes the record before it reads it, as if the program before had written it so.
CHANGES_RECORD = """#!{python}
import fcntl, hashlib, os, sys
kept = os.environ.get("LAMBENT_KEPT_SANDBOXES")
if kept and sys.argv[1:2] != ["--kept-sandboxes-format"]:
    _, first, _ = map(int, kept.split())
    record = open(f"/proc/self/fd/{{first}}", "rb").read()
    body = {change}
    changed = os.memfd_create("record", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(changed, body + hashlib.sha256(body).digest())
    fcntl.fcntl(changed, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE)
    os.dup2(changed, first)
os.execv("{real}", sys.argv)
"""


def format_of(prefix):
    return subprocess.run([prefix / "bin/lambent-worker", "--kept-sandboxes-format"], capture_output=True, text=True, timeout=60,
                          check=True).stdout.splitlines()


class TwoBuilds(Installed):
    """An installation that begins with the other build."""

    def start(self):
        if self.process is None:
            self.install_other()
        super().start()

    def install_other(self):
        if OLDER_PREFIX is not None:
            return self.install(pathlib.Path(OLDER_PREFIX))
        program = (harness.PREFIX / "bin/lambent-worker").read_bytes()
        self.put("lambent-worker", program.replace(f"\0{VERSION}\0".encode(), f"\0{OTHER_VERSION}\0".encode()))

    def install_this(self):
        self.install(harness.PREFIX)

    def install(self, prefix):
        """As packages do it: new files in the places of the old ones."""
        for path in (prefix / "bin").iterdir():
            if path.is_file() and path.name.startswith(("lambent", "emulated-gpu")):
                self.put(path.name, path.read_bytes())
        for name in ("lib", "share"):
            self.link(name, prefix / name)

    def link(self, name, target):
        new = self.prefix / "new"
        new.symlink_to(target)
        new.rename(self.prefix / name)

    def put(self, name, content):
        new = self.prefix / "bin/new"
        new.write_bytes(content)
        new.chmod(0o755)
        new.rename(self.prefix / "bin" / name)

    def install_script(self, text, **words):
        """What the script then runs lies beside it, so that the installation stays this one."""
        self.put("lambent-worker-itself", (harness.PREFIX / "bin/lambent-worker").read_bytes())
        self.put("lambent-worker", text.format(real=self.prefix / "bin/lambent-worker-itself", **words).encode())

    def version(self):
        return re.search(r'lambent_build_info\{[^}]*version="([^"]+)"', self.metrics()).group(1)


class Later(threading.Thread):
    """Asynchronous invocations without a pause; each that was acknowledged has to have its answer in the end."""

    def __init__(self, worker):
        super().__init__()
        self.worker, self.acknowledged, self.refused, self.ended = worker, {}, [], threading.Event()
        self.start()

    def run(self):
        for n in range(10_000):
            if self.ended.is_set():
                return
            try:
                reply = self.worker.invoke("later", {"n": n, "seconds": 0.02 * (n % 4)}, kind="Event")
                self.acknowledged[reply.headers["x-amzn-requestid"]] = n
            except HttpError as error:
                self.refused.append(str(error))
            except OSError:  # the clients of Load tell of failures; what was not acknowledged may be lost
                pass
            time.sleep(0.02)  # some fifty a second, so that the load is bounded

    def missing(self):
        return [n for each, n in self.acknowledged.items() if self.answer(each) != 3 * n]

    def answer(self, invocation):
        try:
            reply = self.worker.request("GET", f"/v1/invocations/{invocation}")
        except HttpError:
            return None
        return reply.json if reply.status == 200 else None


class BetweenBuildsTest(ReplacedTest):
    @classmethod
    def setUpClass(cls):
        cls.worker = TwoBuilds("--drain", "20")
        cls.addClassCleanup(cls.worker.close)
        cls.worker.create_python("double", DOUBLE)
        cls.worker.create_python("later", LATER)
        cls.worker.create_python("who", WHO)

    def upgrade(self, install):
        """Under load; the process of `who` before and after, as it sees itself, and how often it was called."""
        before = self.worker.invoke("who", {}).json
        pids = self.pids()
        load, later = Load(self.worker), Later(self.worker)
        time.sleep(1)
        install()
        served = self.worker.events("listening")
        self.worker.replace()
        self.worker.wait_for(lambda: self.worker.events("listening") > served, 60, "the new program's start")
        answered = load.answered
        self.worker.wait_for(lambda: load.answered > answered + 50, 60, "answers of the new program")
        later.ended.set()
        later.join()
        load.end()
        self.assertEqual(load.failures, [])
        self.assertEqual(later.refused, [])
        self.assertGreater(len(later.acknowledged), 10)
        self.worker.wait_for(lambda: not later.missing(), 60, "the answers to all that was acknowledged")
        return pids, before, self.worker.invoke("who", {}).json

    def pids(self):
        return {each["pid"] for each in self.worker.sandboxes() if each["function"] == "who"}

    def check_kept(self, pids, before, after):
        self.assertEqual(self.pids(), pids)
        self.assertEqual(after, [before[0], before[1] + 1])

    def check_started_again(self, pids, after):
        self.assertEqual(after[1], 1)
        self.assertFalse(self.pids() & pids)
        for pid in pids:
            self.worker.wait_for(lambda pid=pid: not process_exists(pid), what="the end of the old sandbox")

    def check_told(self, *texts):
        log = self.worker.log()
        self.assertEqual([text for text in texts if text not in log], [])

    def test_warm_sandboxes_stay_from_one_build_to_the_other_and_back(self):
        other = self.worker.version()
        if other == VERSION and OLDER_PREFIX is None:
            self.check_kept(*self.upgrade(self.worker.install_other))
            other = self.worker.version()
        pids, before, after = self.upgrade(self.worker.install_this)
        if OLDER_PREFIX is not None and format_of(pathlib.Path(OLDER_PREFIX))[:1] != format_of(harness.PREFIX)[:1]:
            return self.check_started_again(pids, after)
        self.check_kept(pids, before, after)
        if OLDER_PREFIX is not None:
            return  # it may not know this one's state
        self.assertNotEqual(self.worker.version(), other)
        self.check_kept(*self.upgrade(self.worker.install_other))
        self.assertEqual(self.worker.version(), other)

    def install_that_answers(self, answer):
        return lambda: self.worker.install_script(ANSWERS, answer=answer)

    @unittest.skipIf(OLDER_PREFIX is not None, "the older program may take only one format for an answer")
    def test_a_program_that_reads_several_formats_goes_on_with_ours(self):
        ours, = format_of(harness.PREFIX)
        self.check_kept(*self.upgrade(self.install_that_answers(f"echo 'sandboxes 99.1.1.1'; echo '{ours}'; echo 'sandboxes 1.1.1.1'; exit 0")))

    def test_one_that_reads_other_formats_only_starts_them_again_and_says_why(self):
        ours, = format_of(harness.PREFIX)
        pids, _, after = self.upgrade(self.install_that_answers(f"echo 'sandboxes 99.1.1.1'; echo '{ours}1'; exit 0"))
        self.check_started_again(pids, after)
        self.check_told('"event":"sandboxes_end"', f"it does not read their format, {ours}")

    def test_one_that_does_not_know_the_question_starts_them_again(self):
        pids, _, after = self.upgrade(self.install_that_answers("exit 2"))
        self.check_started_again(pids, after)
        self.check_told("it does not know of sandboxes that are kept")

    def check_record_refused(self, change, why):
        pids, _, after = self.upgrade(lambda: self.worker.install_script(CHANGES_RECORD, python=sys.executable, change=change))
        self.check_started_again(pids, after)
        self.check_told(why)

    def test_a_record_with_a_field_more_is_refused_whole(self):
        self.check_record_refused("record[:-32] + bytes(8)", "sandboxes were not kept: INVALID_ARGUMENT: the record of kept sandboxes is damaged")

    def test_a_record_of_another_format_is_refused_whole(self):
        self.check_record_refused('record[:-32].replace(b"sandboxes 2", b"sandboxes 9", 1)', "the sandboxes are described in another format")


if __name__ == "__main__":
    unittest.main()
