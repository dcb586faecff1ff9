"""send.py COUNT: sends that many readings, each of them twice, and tells what came of them. The worker is LAMBENT_ENDPOINT's."""
import json
import os
import sys
import time
import urllib.request
import uuid

WORKER = os.environ.get("LAMBENT_ENDPOINT", "http://127.0.0.1:8980")


def ask(method, path, body=None, headers=None):
    """(status, headers, body)"""
    request = urllib.request.Request(WORKER + path, data=body, method=method, headers=headers or {})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.status, answer.headers, answer.read()


def send(event, key):
    """Queues an event durably; the id of its run. The same key again is the same run, so a sender that is not sure sends again."""
    _, headers, _ = ask("POST", "/2015-03-31/functions/readings/invocations", json.dumps(event).encode(), {
        "X-Amz-Invocation-Type": "Event", "amz-sdk-invocation-id": key})
    return headers["x-amzn-RequestId"]


def result(run):
    """(whether it succeeded, what it answered), once there is a result."""
    while True:
        status, headers, body = ask("GET", "/v1/invocations/" + run)
        if status == 200:
            return headers["x-lambent-outcome"] == "succeeded", json.loads(body)
        time.sleep(0.05)


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    events = [{"sensor": "s%d" % n, "fahrenheit": 100 + 10 * (n % 12)} for n in range(count)]
    events[0] = {"sensor": "broken"}
    runs = []
    for event in events:
        key = str(uuid.uuid4())
        first, again = send(event, key), send(event, key)
        assert first == again, "a repeat is the same run"
        runs.append(first)
    results = [result(run) for run in runs]
    good = [answer for succeeded, answer in results if succeeded]
    bad = [answer["errorMessage"] for succeeded, answer in results if not succeeded]
    print("%d readings, %d alarms, %d bad" % (len(results), sum(len(answer["alarms"]) for answer in good), len(bad)))
    print("bad: " + bad[0])


if __name__ == "__main__":
    main()
