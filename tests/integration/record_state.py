#!/usr/bin/env python3
"""Makes a state folder by a worker of an older version, for test_older_states.py: `LAMBENT_PREFIX=OLDER record_state.py FOLDER`, where
OLDER is the unpacked package or the build folder of that version.

The worker gets kill -9 while it works, so the folder has what a lost machine leaves: invocations that are done, that run and that wait,
and a journal without an end. The catalog is written as SQL, so that it can be read and compared.
"""
import json
import pathlib
import shutil
import sqlite3
import sys
import time

from harness import Worker, make_zip

COUNT = """
import os
def handler(event, context):
    return {"n": event["n"] + 1, "stage": os.environ["STAGE"]}
"""
# Ends once the test lets it: the folder of its code is shown to it.
SLOW = """
import os, time
def handler(event, context):
    deadline = time.monotonic() + 600
    while not os.path.exists("/var/task/end") and time.monotonic() < deadline:
        time.sleep(0.01)
    return event["n"]
"""
BROKEN = """
def handler(event, context):
    raise ValueError("no luck")
"""
WAITING = 3  # of slow: one runs, the others wait for it


def populate(worker):
    """What was asked for: {name: what answers later}."""
    worker.create("count", make_zip({"app.py": "raise SystemExit"}))
    worker.delete("count")
    worker.create_python("count", COUNT, timeout=45, memory=192, environment={"STAGE": "prod"},
                         tags={"team": "vision", "lambent:weight": "2.5", "lambent:max-concurrency": "7"})
    worker.create_python("slow", SLOW, timeout=900, tags={"lambent:max-concurrency": "1"})
    worker.create_python("broken", BROKEN)
    worker.create("flow", make_zip({"workflow.json": json.dumps(
        {"components": [{"name": "a", "function": "count", "input": {"n": "$input.n"}},
                        {"name": "b", "function": "count", "input": {"n": "$a.n"}}], "output": "$b.n"})}),
        runtime="provided.al2023", handler="workflow.json", tags={"lambent:kind": "workflow"})
    for n in range(5):
        assert worker.invoke("count", {"n": n}).json == {"n": n + 1, "stage": "prod"}
    assert worker.invoke("flow", {"n": 1}).json == 3
    asked = {"explained": worker.invoke("count", {"n": 9}).headers["x-amzn-requestid"]}

    def accept(name, event, **headers):
        return worker.invoke(name, event, kind="Event", headers=headers).headers["x-amzn-requestid"]

    asked["done"] = accept("count", {"n": 41}, **{"amz-sdk-invocation-id": "order-41"})
    asked["failed"] = accept("broken", {})
    for name in ("done", "failed"):
        worker.wait_for(lambda path=f"/v1/invocations/{asked[name]}": worker.request("GET", path).status == 200, what=name)
    asked["slow"] = [accept("slow", {"n": n}) for n in range(WAITING)]
    worker.wait_for(lambda: any(each["function"] == "slow" for each in worker.sandboxes()), what="the first of slow")
    database = sqlite3.connect(worker.folder / "state/catalog.db")
    worker.wait_for(lambda: database.execute("SELECT count(*) FROM function_statistics").fetchone()[0], what="what was learnt")
    database.close()
    return asked


def main():
    target = pathlib.Path(sys.argv[1])
    worker = Worker("--journal", str(target / "journal"), gpu="none")
    try:
        version = worker.request("GET", "/v1/version").json["version"]
        asked = populate(worker)
    finally:
        worker.kill()
    state = worker.folder / "state"
    shutil.copytree(state / "code", target / "code")
    (target / "journal/lock").unlink()
    database = sqlite3.connect(state / "catalog.db")
    (target / "catalog.sql").write_text("\n".join(database.iterdump()) + "\n")
    (target / "asked.json").write_text(json.dumps({"version": version, "recorded_at_ns": time.time_ns(), **asked}, indent=1) + "\n")
    shutil.rmtree(worker.folder)


if __name__ == "__main__":
    main()
