
import os, time
def handler(event, context):
    deadline = time.monotonic() + 600
    while not os.path.exists("/var/task/end") and time.monotonic() < deadline:
        time.sleep(0.01)
    return event["n"]
