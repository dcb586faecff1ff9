"""What a node holds, idle and after its end: processes, descriptors, memory, files, mounts, cgroups, device bytes. Read from /proc by the sceptic."""
import json
import os
import pathlib
import time

from harness import descendants
from soak import name_of, open_files, resident, shared_memory
from test_leaks import cgroup_folders, mounts, temporary_files


def device_bytes(node):
    """In use on the emulated devices, whole and slices."""
    shown = json.loads(node.emulated("show", "--json").stdout)
    return sum(each["memory_used_bytes"] for each in shown["devices"])


def holdings(node):
    pids = descendants(node.process.pid)
    ours = [node.process.pid] + [pid for pid in pids if name_of(pid).startswith(("lambent-launch", "lambent-device"))]
    return {"processes": len(pids), "fds": sum(map(open_files, ours)), "rss_bytes": sum(map(resident, ours)),
            "shm_bytes": sum(map(shared_memory, ours)), "device_bytes": device_bytes(node),
            "objects": len(node.request("GET", "/v1/objects").json["objects"]),
            "run_files": sum(len(files) for _, _, files in os.walk(node.folder / "run")),
            "code_files": sum(len(files) for folder, _, files in os.walk(node.folder) if "code" in pathlib.Path(folder).parts)}


def settle(node, expected=None, seconds=90):
    """Removes all functions and objects, waits until nothing runs for them, and says what is held then: the least of some looks, the last of which
    finds no more than is expected, if that comes to pass.
    """
    for function in node.request("GET", "/v1/functions").json["functions"]:
        node.delete(function["name"])
    for each in node.request("GET", "/v1/objects").json["objects"]:
        node.request("DELETE", f"/v1/objects/{each['object']}")
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and node.sandboxes():
        time.sleep(0.2)
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
    return left


def shared_state():
    return {"mounts": mounts(), "files": temporary_files()}
