#!/usr/bin/env python3
"""bench cluster: what a node adds that passes a request on to another, the rate of one node and of three, and of objects between nodes, on
one machine.

With --ray PYTHON (an interpreter that has ray[serve] and numpy) a Ray task and a Ray Serve deployment that do the same in the same run, and
as large an object between two nodes of Ray. Beside it clusters of 4, 8 and 1,000 nodes, which are simulated (cluster_sim_bench).
docs/internals/benchmarks.md says what each figure means. Usage: cluster.py [--quick] [--repeats N] [--seconds S] [--ray PYTHON]
"""
import argparse
import contextlib
import json
import pathlib
import subprocess
import tempfile
import time

from invoke import PYTHON_ECHO, load, middle, spread
from worker_under_test import PROGRAMS, Worker, invocations_path, machine, make_zip

SANDBOXES = 4
CLIENTS = 20
OBJECT = 64 << 20


def states(worker):
    return [member["state"] for member in json.loads(worker.request("GET", "/v1/cluster"))["members"]]


def completed(worker, name):
    listed = json.loads(worker.request("GET", "/v1/functions", headers={"X-Lambent-Only-Here": "true"}))["functions"]
    return sum(each["completed"] for each in listed if each["name"] == name)


@contextlib.contextmanager
def cluster(names):
    """Workers by name, each of which knows the others."""
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lambent-bench-")))
        (folder / "key").write_text("k" * 40)
        nodes = {name: stack.enter_context(Worker("--gpu", "none", "--set", f"host_concurrency={SANDBOXES * 2}", "--cluster-key",
                                                  str(folder / "key"), "--node-name", name)) for name in names}
        told = json.dumps({"source": "bench", "members": [{"node": name, "address": node.endpoint}
                                                          for name, node in nodes.items()]}).encode()
        for node in nodes.values():
            node.request("PUT", "/v1/cluster/members", told)
        deadline = time.monotonic() + 20
        while any(states(node) != ["up"] * len(names) for node in nodes.values()):
            if time.monotonic() > deadline:
                raise SystemExit("the nodes did not hear from each other")
            time.sleep(0.05)
        yield nodes


def hop(nodes, repeats, seconds):
    """The same warm function, asked at the node that runs it and at one that does not, in turns."""
    code = make_zip({"app.py": PYTHON_ECHO})
    nodes["a"].create("echo", code, "python3", "app.handler", max_concurrency=SANDBOXES)
    path = invocations_path("echo")
    for node in nodes.values():
        node.request("POST", path, b"{}")
    owner = max(nodes, key=lambda name: completed(nodes[name], "echo"))
    other = next(name for name in nodes if name != owner)
    figures = {"here_p50_us": [], "forwarded_p50_us": [], "added_p50_us": [], "here_rps": [], "forwarded_rps": []}
    for _ in range(repeats):
        here = load(nodes[owner].endpoint, 1, seconds, path)
        there = load(nodes[other].endpoint, 1, seconds, path)
        figures["here_p50_us"].append(here["p50_us"])
        figures["forwarded_p50_us"].append(there["p50_us"])
        figures["added_p50_us"].append(there["p50_us"] - here["p50_us"])
        figures["here_rps"].append(load(nodes[owner].endpoint, CLIENTS, seconds, path)["rps"])
        figures["forwarded_rps"].append(load(nodes[other].endpoint, CLIENTS, seconds, path)["rps"])
    result = {key: middle(values) for key, values in figures.items()}
    result["added_p50_us_spread"] = spread(figures["added_p50_us"])
    return result


def rate(nodes, repeats, seconds):
    """Three functions, asked at every node at once; all of it on the cores of one machine."""
    code = make_zip({"app.py": PYTHON_ECHO})
    for each in range(3):
        next(iter(nodes.values())).create(f"echo{each}", code, "python3", "app.handler", max_concurrency=SANDBOXES)
        for node in nodes.values():
            node.request("POST", invocations_path(f"echo{each}"), b"{}")
    from concurrent.futures import ThreadPoolExecutor
    totals = []
    with ThreadPoolExecutor(3) as threads:
        for _ in range(repeats):
            entries = list(nodes.values())
            runs = [threads.submit(load, entries[each % len(entries)].endpoint, CLIENTS // 3, seconds, invocations_path(f"echo{each}"))
                    for each in range(3)]
            totals.append(sum(run.result()["rps"] for run in runs))
    return middle(totals, 0)


def objects(nodes, repeats):
    """GB/s of an object that comes from another node, as it is read the first time; beside it the same bytes over HTTP from the node that
    has them, to a client that does no more than read."""
    figures = {"object_gbps": [], "object_here_gbps": []}
    for _ in range(repeats):
        made = json.loads(nodes["a"].request("POST", "/v1/objects", bytes(OBJECT)))["object"]
        begin = time.monotonic()
        nodes["a"].request("GET", f"/v1/objects/{made}")
        here = time.monotonic()
        nodes["b"].request("GET", f"/v1/objects/{made}", headers={"Range": "bytes=0-0"})
        there = time.monotonic()
        figures["object_here_gbps"].append(OBJECT / (here - begin) / 1e9)
        figures["object_gbps"].append(OBJECT / (there - here) / 1e9)
    return {key: middle(values, 3) for key, values in figures.items()}


def simulated(quick):
    """Latencies and shares by the number of nodes, of the router that the workers have."""
    words = [str(PROGRAMS / "cluster_sim_bench"), *(["--quick"] if quick else []), "--nodes", "4,8,1000"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=True)
    rows = json.loads(done.stdout.splitlines()[-1])["simulated"]
    return {str(row["nodes"]): {key: row[key] for key in ("mean_s", "p50_s", "p99_s", "cold", "forwarded")} for row in rows}


def contract(result, quick):
    """The keys that shared tables have; null: not measured in this run."""
    return {"hop_added_us": result["added_p50_us"], "rps_1": result["rps_one_node"], "rps_3": result["rps_three_nodes"],
            "object_gb_s": result["object_gbps"], "ray_object_gb_s": result.get("ray_object_gbps"),
            "over_ray_serve": result.get("forwarded_rps_over_serve"),
            "over_ray_task": round(result["forwarded_rps"] / result["ray_task_rps"], 1) if "ray_task_rps" in result else None,
            "simulated": simulated(quick)}


def check_ray(python):
    """Before anything is measured: that the interpreter is there and has what is needed."""
    try:
        tried = subprocess.run([python, "-c", "import numpy; from ray import serve"], capture_output=True, text=True, timeout=120)
        why = "" if tried.returncode == 0 else (tried.stderr.strip().splitlines() or [f"exit code {tried.returncode}"])[-1]
    except (OSError, subprocess.TimeoutExpired) as error:
        why = str(error)
    if why:
        raise SystemExit(f"--ray {python}: {why}; name the Python of an environment with ray[serve] and numpy "
                         "(tests/clients/ray-serve-requirements.txt)")


def beside_ray(python, repeats, seconds):
    """What Ray's own ways take, by cluster_ray.py under that interpreter, and our load generator against Ray Serve."""
    script = pathlib.Path(__file__).with_name("cluster_ray.py")
    process = subprocess.Popen([python, "-B", str(script), str(seconds), str(repeats), str(OBJECT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
    try:
        tasks = json.loads(process.stdout.readline())
        address = tasks.pop("serve")
        single = [load(address, 1, seconds) for _ in range(repeats)]
        many = [load(address, CLIENTS, seconds) for _ in range(repeats)]
        return {**tasks, "serve_p50_us": middle([run["p50_us"] for run in single]),
                "serve_rps": middle([run["rps"] for run in many], 0)}
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="at most 45 s: shorter runs, fewer repeats")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--seconds", type=float, help="of each run")
    parser.add_argument("--ray", metavar="PYTHON", help="an interpreter that has ray[serve] and numpy")
    arguments = parser.parse_args()
    repeats = arguments.repeats or (2 if arguments.quick else 5)
    seconds = arguments.seconds or (0.5 if arguments.quick else 2.0)
    if arguments.ray:
        check_ray(arguments.ray)
    about = machine()
    with cluster("abc") as nodes:
        result = {"hop": hop(nodes, repeats, seconds), **objects(nodes, repeats), "rps_three_nodes": rate(nodes, repeats, seconds)}
    with cluster("a") as nodes:
        result["rps_one_node"] = rate(nodes, repeats, seconds)
    if arguments.ray:
        result["ray"] = beside_ray(arguments.ray, repeats, seconds)
        result["forwarded_rps_over_serve"] = round(result["hop"]["forwarded_rps"] / result["ray"]["serve_rps"], 1)
    result = {**result.pop("hop"), **result.pop("ray", {}), **result}
    result.update(contract(result, arguments.quick))
    for key, value in result.items():
        print(f"{key:26}{value}")
    print(json.dumps({"bench": "cluster", "quick": arguments.quick, "repeats": repeats, "seconds_per_run": seconds, "clients": CLIENTS,
                      "machine": about, **result}))


if __name__ == "__main__":
    main()
