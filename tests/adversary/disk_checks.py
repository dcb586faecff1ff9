"""G. The disk of the state folder is full, read-only, or gone: told as what it is, nothing acknowledged lost, well again by itself."""
import contextlib
import ctypes
import os
import pathlib
import subprocess
import time

import harness
from ground import need_root, status_of
from verdicts import Skip, checks, require

CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 0x40000
ECHO = "def handler(event, context): return event['n'] * 3"
PERMISSION_DENIED, INVALID_ARGUMENT, STORAGE_FULL = 17, 13, 27  # exit codes


def private_mounts():
    """From now on no mount of this process is seen by others, and all end with it. False: not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.unshare(CLONE_NEWNS) == 0 and libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) == 0


@contextlib.contextmanager
def small_disk(folder, mib, options=""):
    """A file system of its own at `folder`."""
    need_root("a disk of its own")
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m{options}", "lambent-adversary", folder], capture_output=True, text=True)
    if done.returncode != 0:
        raise Skip(f"no file system can be mounted here ({done.stderr.strip()}); run it as root of a machine that allows it")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], capture_output=True)


def fill(folder):
    """Takes all that is left of a disk; the file that has it."""
    filler = folder / "filler"
    with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1 << 16))
    with open(filler, "ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x")
    return filler


def wait_until(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not condition():
        require(time.monotonic() < deadline, f"{what} did not come true within {seconds} s")
        time.sleep(0.05)


def refused_for_space(worker):
    """Everything that has to be durable is refused as what it is."""
    status, error = status_of(worker.invoke, "echo", {"n": 1, "x": "y" * 200_000}, kind="Event")
    require(status == 503, f"an asynchronous invocation: {status}")
    require(error.error_type == "ServiceException", f"as {error.error_type}")
    require(error.headers.get("x-lambent-code") == "STORAGE_FULL", f"as {error.headers.get('x-lambent-code')}")
    status, error = status_of(worker.create_python, "more", ECHO + "\n#" + os.urandom(100_000).hex())
    require(status == 503 and error.headers.get("x-lambent-code") == "STORAGE_FULL", f"a new function: {status} {error.body[:200]}")
    done = subprocess.run([harness.PREFIX / "bin/lambent", "invoke", "echo", "--endpoint", worker.endpoint, "--async", "--file", "-"],
                          input='{"n": 1, "x": "%s"}' % ("y" * 200_000), capture_output=True, text=True, timeout=30)
    require(done.returncode == STORAGE_FULL, f"the command ends with {done.returncode}: {done.stderr[-200:]}")


@checks("G", "a full state disk is told as such, loses nothing that was acknowledged, and is over when there is space")
def full(ground):
    state = ground.folder / "full/state"
    with small_disk(state, 48):
        worker = ground.new_worker("full", gpu="none")
        try:
            worker.create_python("echo", ECHO, memory=64)
            worker.invoke("echo", {"n": 1})
            acknowledged = {}

            def submit(n, size):
                status, reply = status_of(worker.invoke, "echo", {"n": n, "x": "y" * size}, kind="Event")
                if status == 202:
                    acknowledged[reply.headers["x-amzn-requestid"]] = n
                return status
            filler = None
            for n in range(200):
                if n == 20:
                    filler = fill(state)
                status = submit(n, 20_000)
                require(status in (202, 503), f"answered {status}")
            wait_until(lambda: status_of(worker.request, "GET", "/readyz")[0] == 503, 5, "/readyz with 503")
            _, told = status_of(worker.request, "GET", "/readyz?verbose")
            require(b"[-] state_disk" in told.body and b"full" in told.body, f"/readyz?verbose says {told.body}")
            require(worker.request("GET", "/livez").status == 200, "/livez")
            require("lambent_state_disk_full 1" in worker.metrics(), "the metric says that all is well")
            require("state_disk_full" in worker.log(), "the log does not say it")
            require(worker.invoke("echo", {"n": 5}).json == 15, "a synchronous call, which needs no disk")
            refused_for_space(worker)
            before = len(acknowledged)
            filler.unlink()
            wait_until(lambda: status_of(worker.request, "GET", "/readyz")[0] == 200, 10, "/readyz with 200")
            require("lambent_state_disk_full 0" in worker.metrics(), "the metric says that it is full still")
            require(submit(1000, 20_000) == 202, "not taken with space on the disk")
            worker.kill()
            worker.start()

            def answers():
                replies = [(status_of(worker.request, "GET", f"/v1/invocations/{each}"), n) for each, n in acknowledged.items()]
                for (status, reply), n in replies:
                    require(status in (200, 202), f"an acknowledged invocation: {status}")
                    require(status == 202 or reply.json == n * 3, f"an acknowledged invocation answered {reply.body[:100]}")
                return all(status == 200 for (status, _), _ in replies)
            wait_until(answers, 60, "an outcome of everything that was acknowledged")
        finally:
            worker.close()
    return {"acknowledged_before_and_while_full": before, "acknowledged": len(acknowledged)}


def start_with(state, run):
    done = subprocess.run([harness.PREFIX / "bin/lambent-worker", "--listen", "127.0.0.1:0", "--state", state, "--run", run, "--gpu", "none"],
                          capture_output=True, text=True, timeout=30)
    return done.returncode, done.stderr[-500:]


@checks("G", "a state folder that cannot be used is the user's error, with a remedy")
def unusable(ground):
    home = ground.folder / "unusable"
    home.mkdir(exist_ok=True)
    (home / "file").write_text("x")
    cases = {"a file": (home / "file", INVALID_ARGUMENT), "below a file": (home / "file/state", INVALID_ARGUMENT),
             "not to be made": (pathlib.Path("/proc/adversary"), None)}
    for name, (state, code) in cases.items():
        ended, said = start_with(state, home / "run")
        require(ended == code if code else ended in (PERMISSION_DENIED, INVALID_ARGUMENT), f"{name}: exit code {ended}: {said}")
        require("--state" in said and str(state) in said, f"{name}: no remedy: {said}")
    with small_disk(home / "disk", 8) as disk:
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        ended, said = start_with(disk, home / "run")
        require(ended == PERMISSION_DENIED and "--state" in said, f"read-only: exit code {ended}: {said}")
        ended, said = start_with(disk / "below", home / "run")
        require(ended == PERMISSION_DENIED and "--state" in said, f"below a read-only folder: exit code {ended}: {said}")
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
        fill(disk)
        ended, said = start_with(disk, home / "run")
        require(ended == STORAGE_FULL, f"full: exit code {ended}: {said}")
