"""What bench/cluster.py compares with, under an interpreter that has ray[serve]: an echo as a Ray task, as a method of an actor, and
behind Ray Serve. Prints one line, and ends when its standard input does. Usage: cluster_ray.py SECONDS
"""
import json
import statistics
import sys
import time

import ray
from ray import serve


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
    seconds = float(sys.argv[1])
    ray.init(num_cpus=2, object_store_memory=80 << 20, include_dashboard=False, log_to_driver=False)
    actor = Echo.options(num_cpus=0).remote()
    result = {"ray_task_p50_us": p50_us(echo.remote, seconds), "ray_task_rps": rps(echo.remote, seconds),
              "ray_actor_p50_us": p50_us(actor.echo.remote, seconds), "ray_actor_rps": rps(actor.echo.remote, seconds)}
    serve.start(http_options={"host": "127.0.0.1", "port": 18999})
    serve.run(Served.bind(), route_prefix="/")
    print(json.dumps({**result, "serve": "http://127.0.0.1:18999"}), flush=True)
    sys.stdin.read()
    serve.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    main()
