"""The work behind BentoML; PEER_PROCESSES workers."""
import asyncio
import os
import typing

import bentoml
import work


@bentoml.service(workers=int(os.environ["PEER_PROCESSES"]), traffic={"timeout": 60}, logging={"access": {"enabled": False}})
class Peer:
    @bentoml.api(route="/work")
    async def work(self, event: dict[str, typing.Any]) -> dict[str, typing.Any]:
        # Work that takes long leaves the loop; the rest is quicker on it.
        return await asyncio.to_thread(work.answer, event) if event["work"] == "cpu" else work.answer(event)
