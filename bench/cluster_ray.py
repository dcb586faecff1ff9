"""What bench/cluster.py compares with, under an interpreter that has ray[serve]: an object between two nodes of Ray, an echo as a Ray
task, as a method of an actor, and behind Ray Serve. Prints one line, and ends when its standard input does.
Usage: cluster_ray.py SECONDS REPEATS OBJECT_BYTES
"""
import json
import os
import statistics
import sys
import time

import numpy
import ray
from ray import serve
from ray.cluster_utils import Cluster


@ray.remote
def echo(event):
    return event


@ray.remote
class Echo:
    def echo(self, event):
        return event


@serve.deployment(num_replicas=1, max_ongoing_requests=100, ray_actor_options={"num_cpus": 0})
class Served:
    async def __call__(self, request):
        return await request.json()


@ray.remote
class Reader:
    def seconds(self, refs):
        """Until the object is read here; its memory is the store's, so that nothing is copied once more."""
        begin = time.monotonic()
        ray.get(refs[0])[-1].item()
        return time.monotonic() - begin


def object_gbps(repeats, size):
    """Of an object that another node of Ray on this machine has, as a process of this node gets it the first time."""
    sizes = {"num_cpus": 1, "object_store_memory": max(3 * size, 80 << 20)}
    cluster = Cluster(initialize_head=True, head_node_args={**sizes, "include_dashboard": False})
    try:
        cluster.add_node(**sizes, resources={"other": 1})
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, log_to_driver=False)
        reader = Reader.options(num_cpus=0, resources={"other": 1}).remote()
        ray.get(reader.seconds.remote([ray.put(numpy.ones(1 << 20, dtype=numpy.uint8))]))
        figures = []
        for _ in range(repeats):
            made = ray.put(numpy.zeros(size, dtype=numpy.uint8))
            figures.append(size / ray.get(reader.seconds.remote([made])) / 1e9)
            del made
        return round(statistics.median(figures), 3)
    finally:
        ray.shutdown()
        cluster.shutdown()


def p50_us(call, seconds):
    for _ in range(5):
        ray.get(call({}))
    times, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        begin = time.perf_counter()
        ray.get(call({}))
        times.append(1e6 * (time.perf_counter() - begin))
    return round(statistics.median(times), 1)


def rps(call, seconds, batch=20):
    count, begin = 0, time.monotonic()
    while time.monotonic() - begin < seconds:
        ray.get([call({}) for _ in range(batch)])
        count += batch
    return round(count / (time.monotonic() - begin))


def main():
    seconds, repeats, size = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    # What Ray and its processes say of nodes is no line for who asks.
    asked = os.dup(1)
    os.dup2(2, 1)
    result = {"ray_object_gbps": object_gbps(repeats, size)}
    os.dup2(asked, 1)
    ray.init(num_cpus=2, object_store_memory=80 << 20, include_dashboard=False, log_to_driver=False)
    actor = Echo.options(num_cpus=0).remote()
    result.update({"ray_task_p50_us": p50_us(echo.remote, seconds), "ray_task_rps": rps(echo.remote, seconds),
                   "ray_actor_p50_us": p50_us(actor.echo.remote, seconds), "ray_actor_rps": rps(actor.echo.remote, seconds)})
    serve.start(http_options={"host": "127.0.0.1", "port": 18999})
    serve.run(Served.bind(), route_prefix="/")
    print(json.dumps({**result, "serve": "http://127.0.0.1:18999"}), flush=True)
    sys.stdin.read()
    serve.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    main()
