"""A function of Lambent behind Ray Serve, for those whose clients reach Serve already. On a node of a Ray cluster where
lambent.ray.start() ran: serve run app:app function=total

Serve has the connection and hands the JSON on; Lambent decides when and where the function runs, so that one replica is enough.
"""
from ray import serve

import lambent.ray


@serve.deployment(num_replicas=1, max_ongoing_requests=64, ray_actor_options={"num_cpus": 0})
class Front:
    def __init__(self, function):
        self._function = lambent.ray.function(function)

    async def __call__(self, request):
        return await self._function.remote(await request.json())


def app(arguments):
    return Front.bind(arguments["function"])
