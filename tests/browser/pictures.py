"""Takes the pictures of docs/operate/dashboard.md from a worker at work: python3 tests/browser/pictures.py docs/images, with
LAMBENT_PREFIX and PYTHONPATH as in CMakeLists.txt; with --all those of every page, in both colours, also as a phone has them. Look at
each one before it is committed.
"""
import json
import os
import pathlib
import sys
import threading
import time
import unittest

import dashboard
from harness import Worker

# It allocates on the GPU, so that the map of memory has something to show, and works for as long as the event says.
HANDLER = """import time
import lambent_cuda as cuda
time.sleep({init})
device = cuda.Device()
held = device.buffer(bytes({memory}))
def handler(event, context):
    print("began", event.get("id", ""))
    time.sleep(event.get("seconds", 0.3))
    return {{"labels": ["cat", "sofa"]}}
"""
IN_THE_DOCS = ("overview", "overview-dark", "call", "call-phone")
FUNCTIONS = {"classify": (0.4, 192, {}), "embed": (0.2, 96, {}), "transcribe": (0.6, 384, {"lambent:weight": "2"})}


def busy_worker():
    worker = Worker("--concurrency", "2", gpu="emulated:v100-16gb")
    for name, (init, memory, tags) in FUNCTIONS.items():
        worker.create_python(name, HANDLER.format(init=init, memory=memory << 20), memory=1024,
                             tags={"lambent:gpu-memory": "1G", "lambent:launch-mode": "compute", **tags})
    worker.tag("embed", {"lambent:schedules": json.dumps([{"name": "hourly", "rate": "1 hour"}])})
    return worker


def make_calls(worker, rounds):
    """Calls of each function, some of which meet long ones and wait for them."""
    threads = []
    for number in range(rounds):
        long = number % 4 == 1
        plan = [("transcribe", 2.4 if long else 0.4), ("classify", 1.8 if long else 0.15), ("embed", 0.08), ("transcribe", 0.3)]
        for name, seconds in plan:
            threads.append(threading.Thread(target=worker.invoke, args=(name, {"seconds": seconds, "id": number})))
            threads[-1].start()
            time.sleep(0.12)
        time.sleep(2)
    return threads


def slowest_wait(worker):
    calls = worker.request("GET", "/v1/activity/invocations?limit=100").json["invocations"]
    return max(calls, key=lambda call: call["phases_ms"]["queue"])["invocation"]


class Pictures(dashboard.BrowserTest):
    def runTest(self):
        folder = pathlib.Path(os.environ["LAMBENT_SCREENSHOTS"])
        worker = busy_worker()
        self.addCleanup(worker.close)
        for name in FUNCTIONS:
            worker.invoke(name, {"seconds": 0.1})  # so that others wait for slots, not for cold starts
        threads = make_calls(worker, 16)
        call = slowest_wait(worker)
        routes = {"overview": "#/", "call": f"#/invocations/{call}", "functions": "#/functions", "function": "#/functions/transcribe",
                  "calls": "#/invocations", "schedules": "#/schedules", "what-if": "#/what-if", "settings": "#/settings"}
        everything = "--all" in sys.argv
        for name, route in routes.items():
            for look, width, height, colours in (("", 1280, 860, "light"), ("-dark", 1280, 860, "dark"), ("-phone", 390, 1000, "light"),
                                                 ("-phone-dark", 390, 1000, "dark")):
                if not everything and name + look not in IN_THE_DOCS:
                    continue
                page = self.open(worker.endpoint, route, width, height, colours)
                page.wait_for_timeout(1800)
                self.assert_fits(page)
                page.screenshot(path=folder / f"dashboard-{name}{look}.png", full_page=everything or width > 640)
                page.context.close()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    dashboard.skip_unless_there_is_a_browser()
    os.environ["LAMBENT_SCREENSHOTS"] = sys.argv[1]
    result = unittest.TextTestRunner().run(unittest.TestSuite([Pictures()]))
    sys.exit(not result.wasSuccessful())
