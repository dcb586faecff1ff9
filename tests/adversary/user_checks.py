"""U. The worker of an ordinary user: which limits are weaker there, in sentences, and that the others hold."""
import json
import os
import shutil
import subprocess

import harness
from ground import status_of
from sandbox_checks import CALLS
from verdicts import Skip, checks, require

USER = 64123  # has no account, no groups, no home


class UserWorker(harness.Worker):
    """Started by root as somebody without rights."""

    def start(self):
        words = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]
        real = subprocess.Popen
        subprocess.Popen = lambda command, *rest, **options: real(words + command, *rest, **options)
        try:
            super().start()
        finally:
            subprocess.Popen = real


def reachable(path):
    path = path.resolve()
    return all(each.stat().st_mode & 1 for each in [path, *path.parents])


def start(ground):
    if os.geteuid() != 0:
        return ground.new_worker("user", "--concurrency", "2")
    if shutil.which("setpriv") is None:
        raise Skip("setpriv is not installed; run ./dev adversary as an ordinary user")
    if not reachable(harness.PREFIX / "bin"):
        raise Skip(f"{harness.PREFIX} is not readable for an ordinary user")
    probe = subprocess.run(["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "unshare", "-Urn", "true"], capture_output=True)
    if probe.returncode != 0:
        raise Skip("this machine gives no user namespaces to ordinary users")
    folder = ground.folder / "user"
    folder.mkdir(exist_ok=True)
    os.chmod(ground.folder, 0o755)
    os.chown(folder, USER, USER)
    return UserWorker("--concurrency", "2", folder=folder)


def answer(worker, name, source, event=None, **options):
    worker.create_python(name, source, **options)
    return worker.invoke(name, event or {})


@checks("U", "as an ordinary user the same calls are refused, and the log says which limits are weaker")
def ordinary(ground):
    worker = start(ground)
    try:
        weaker = [json.loads(line)["what"] for line in worker.log().splitlines() if '"weaker_limit"' in line]
        require(all(each.endswith((".", ")")) or len(each) > 20 for each in weaker), f"no sentences: {weaker}")
        reply = answer(worker, "calls", CALLS, timeout=20)
        done = {name for name, said in reply.json.items() if said == "done"} - {"process_vm_readv", "process_vm_writev", "nice"}
        require(not done, f"these succeeded: {sorted(done)}")
        eaten = answer(worker, "eater", "import time\ndef handler(e, c):\n  hoard = []\n  while True: hoard.append(b'x' * (1 << 22)); time.sleep(0.005)",
                       memory=128).json
        require(eaten.get("errorType") in ("Runtime.OutOfMemory", "MemoryError"), f"memory: {eaten}")
        forked = answer(worker, "forker", "import os, time\ndef handler(e, c):\n  n = 0\n  try:\n    while n < 3000:\n"
                        "      if os.fork() == 0: time.sleep(20); os._exit(0)\n      n += 1\n  except OSError: pass\n  return n", memory=4096).json
        require(isinstance(forked, int) and forked < 600, f"processes: {forked}")
        worker.delete("forker")
        late = answer(worker, "late", "def handler(e, c):\n  while True: pass", timeout=1).json
        require(late.get("errorType") == "Sandbox.Timeout", f"time: {late}")
        worker.create_python("peaks", "import time\ndef handler(e, c):\n  x = bytearray(e['mib'] << 20); time.sleep(0.2)\n  return len(x)", memory=512)
        peaks = [int(worker.invoke("peaks", {"mib": mib}).headers["x-lambent-host-memory-peak-bytes"]) >> 20 for mib in (1, 150, 1)]
        require(peaks[1] >= 150 and 0 < peaks[2] < 150, f"peaks of host memory in MiB: {peaks} for 1, 150, 1")
        require(status_of(worker.request, "GET", "/readyz")[0] == 200, "the worker is not ready")
    finally:
        worker.close()
    return {"weaker": weaker, "forked": forked, "peaks_mib": peaks}


@checks("U", "with --strict-limits weaker ones are refused at the start, by name")
def strict(ground):
    if os.geteuid() != 0:
        raise Skip("it is the ordinary user's worker that is asked; the check is made by root")
    if shutil.which("setpriv") is None or not reachable(harness.PREFIX / "bin"):
        raise Skip("needs setpriv, and a build that an ordinary user can read")
    folder = ground.folder / "strict"
    folder.mkdir(exist_ok=True)
    os.chmod(ground.folder, 0o755)
    os.chown(folder, USER, USER)
    done = subprocess.run(["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", harness.PREFIX / "bin/lambent-worker", "--listen",
                           "127.0.0.1:0", "--state", folder / "state", "--run", folder / "run", "--gpu", "none", "--strict-limits"],
                          capture_output=True, text=True, timeout=20)
    require(done.returncode == 19 and "strong limits are required" in done.stderr, f"exit code {done.returncode}: {done.stderr[-300:]}")
