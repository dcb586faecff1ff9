"""What a node holds, idle and after its end: processes, descriptors, memory, files, mounts, cgroups, device bytes. Read from /proc by the sceptic."""
import contextlib
import json
import os
import pathlib
import re
import time
import urllib.parse

from harness import descendants
from soak import name_of, open_files, resident, shared_memory
from test_leaks import cgroup_folders, mounts

SHARED_FOLDERS = ("/dev/shm", "/tmp")  # other programs write there, too
GIVEN = re.compile(r"^\S+ \S+ \S+ (?:/dev/shm)?/(lambent-[^/ ]+)", re.MULTILINE)  # a worker's folder, as the root of a mount


def device_bytes(node):
    """In use on the emulated devices, whole and slices."""
    shown = json.loads(node.emulated("show", "--json").stdout)
    return sum(each["memory_used_bytes"] for each in shown["devices"])


def shared_files_of(pid):
    """Files and folders of SHARED_FOLDERS, by path, that this process uses: holds open, has mapped, or sees of /dev/shm in its sandbox."""
    found = set()
    with contextlib.suppress(OSError):
        if os.readlink(f"/proc/{pid}/ns/mnt") != os.readlink("/proc/self/ns/mnt"):
            # Its own /tmp and /dev/shm are nobody else's; what the worker gave it of ours is mounted by its name there.
            return {f"/dev/shm/{name}" for name in GIVEN.findall(pathlib.Path(f"/proc/{pid}/mountinfo").read_text())}
        paths = [line.split(None, 5)[5] for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines() if "/" in line]
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                paths.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
        for folder in SHARED_FOLDERS:
            found |= {f"{folder}/{path[len(folder) + 1:].split('/')[0]}" for path in paths if path.startswith(folder + "/")}
    return found


def holdings(node):
    pids = descendants(node.process.pid)
    ours = [node.process.pid] + [pid for pid in pids if name_of(pid).startswith(("lambent-launch", "lambent-device"))]
    return {"processes": len(pids), "fds": sum(map(open_files, ours)), "rss_bytes": sum(map(resident, ours)),
            "shm_bytes": sum(map(shared_memory, ours)), "device_bytes": device_bytes(node),
            "objects": len(listed(node, "/v1/objects", "objects")),
            "run_files": sum(len(files) for _, _, files in os.walk(node.folder / "run")),
            "code_files": sum(len(files) for folder, _, files in os.walk(node.folder) if "code" in pathlib.Path(folder).parts)}


def listed(node, path, kind):
    """All pages of a list of the worker's API."""
    found, query = [], ""
    while True:
        page = node.request("GET", path + query).json
        found += page[kind]
        if "next" not in page:
            return found
        query = "?after=" + urllib.parse.quote(page["next"], safe="")


def settle(node, expected=None, seconds=90):
    """Removes all functions and objects, waits until nothing runs for them, and says what is held then: the least of some looks, the last of which
    finds no more than is expected, if that comes to pass.
    """
    for function in listed(node, "/v1/functions", "functions"):
        node.delete(function["name"])
    for each in listed(node, "/v1/objects", "objects"):
        node.request("DELETE", f"/v1/objects/{each['object']}")
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and node.sandboxes():
        time.sleep(0.2)  # the worker tells nobody when a sandbox is gone
    least = holdings(node)
    for _ in range(20):  # executors rest for a while before they go, and a lambent-device that was killed comes back
        if expected and all(least[key] <= expected[key] for key in least if key != "rss_bytes"):
            break
        time.sleep(0.5)
        for key, value in holdings(node).items():
            least[key] = min(least[key], value)
    return least


def after_the_end(node, before):
    """What outlived the node, by name. before: of shared_state()."""
    left = {}
    survivors = node.wait_gone(node.seen, 15)
    if survivors:
        left["processes"] = [(pid, name_of(pid)) for pid in survivors]
    if cgroup_folders(node.launchers):
        left["cgroups"] = sorted(cgroup_folders(node.launchers))
    of_ours = [each for each in mounts() - before["mounts"] if str(node.folder) in each and each != str(node.folder / "state")]
    if of_ours:
        left["mounts"] = of_ours
    ledgers = [str(each) for each in (node.folder / "run").rglob("ledger-*")]
    if ledgers:
        left["ledgers"] = ledgers
    files = sorted(each for each in node.shared_files - before["files"] if os.path.lexists(each) and not node.folder.is_relative_to(each))
    if files:
        left["shm"] = files
    return left


def shared_state():
    return {"mounts": mounts(), "files": {f"{folder}/{name}" for folder in SHARED_FOLDERS for name in os.listdir(folder)}}
