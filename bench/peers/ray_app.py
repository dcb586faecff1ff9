"""The work behind Ray Serve. Usage: ray_app.py PORT PROCESSES; on standard input, a line N deploys N applications one after the other, each until
it answers, and prints the seconds."""
import sys
import time
import urllib.request

import ray
import work
from ray import serve


@serve.deployment(num_replicas=int(sys.argv[2]), max_ongoing_requests=100, ray_actor_options={"num_cpus": 0})
class Peer:
    async def __call__(self, request):
        return work.answer(await request.json())


@serve.deployment(num_replicas=1, ray_actor_options={"num_cpus": 0})
class Small:
    async def __call__(self, request):
        return await request.json()


def main():
    port = int(sys.argv[1])
    ray.init(num_cpus=int(sys.argv[2]), object_store_memory=80 << 20, include_dashboard=False, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    serve.run(Peer.bind(), name="peer", route_prefix="/work")
    for line in sys.stdin:
        begin = time.monotonic()
        for i in range(int(line)):
            serve.run(Small.bind(), name=f"small{i}", route_prefix=f"/small{i}")
            urllib.request.urlopen(f"http://127.0.0.1:{port}/small{i}", b"{}", timeout=60).read()
        print(time.monotonic() - begin, flush=True)


main()
