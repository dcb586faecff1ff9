"""Steady mixed load by clients that know every right answer. Each client has a seed of its own and enters what happened into the promises."""
import base64
import http.client
import json
import random
import threading
import time

from functions import VERSION
from harness import HttpError, make_zip
from lambent.client import Client
from lambent.errors import LambentError
from promises import Accepted

ANSWER_SECONDS = 90  # a synchronous call has its answer or a closed connection by then
OUTCOME_SECONDS = 240  # an asynchronous one its outcome, the node's own absences included


def tensor(n):
    return {"inputs": [{"name": "x", "data": [n, 1, 2, 3]}]}


class Load:
    def __init__(self, world, seed, gpu_functions):
        self.world, self.promises, self.gpu_functions = world, world.promises, gpu_functions
        self.dice = random.Random(f"load {seed}")
        self.stopping = threading.Event()
        self.threads = []
        self.versions, self.versions_lock = {}, threading.Lock()  # {function: the versions that it may have now, none: absent}

    def start(self):
        clients = [self.calm, self.calm, self.gpu, self.gpu, self.shared, self.kernel, self.objects, self.flow, self.events, self.deploys, self.outcomes]
        if "sliced" in self.world.nodes:
            clients += [self.pipeline]
        for client in clients:
            seed = self.dice.random()
            self.threads.append(threading.Thread(target=self.run, args=(client, random.Random(seed)), name=client.__name__, daemon=True))
            self.threads[-1].start()

    def run(self, client, dice):
        mark = 0
        while not self.stopping.is_set():
            mark += 1
            try:
                client(dice, f"{threading.current_thread().name}-{threading.get_ident()}-{mark}")
            except Exception as error:  # a client that dies would make everything look well
                self.promises.violation(f"the sceptic's own client {client.__name__}: {error!r}")
                time.sleep(1)  # else a client that always fails fills the list of violations

    def stop(self):
        self.stopping.set()
        for each in self.threads:
            each.join(ANSWER_SECONDS + 30)

    # One call.
    def call(self, node, function, event, right, groups, kind=None):
        """Calls and judges; the answer, if there is one. groups: besides the node and the function itself, what may be struck."""
        worker = self.world.nodes[node]
        groups = frozenset(groups) | {"node:" + node, "function:" + function}
        family = function.rpartition("-")[0] or function
        begun = time.monotonic()
        try:
            reply = worker.invoke(function, event, kind=kind, timeout=ANSWER_SECONDS)
        except HttpError as error:
            self.refused(family, groups, begun, f"{function}: HTTP {error.status} {error.body[:300]!r}", f"HTTP {error.status}")
            return None
        except TimeoutError:
            self.promises.count(family, "unanswered")
            self.promises.violation(f"{function}: neither an answer nor a closed connection after {ANSWER_SECONDS} s")
            return None
        except (OSError, http.client.HTTPException) as error:
            self.refused(family, groups, begun, f"{function}: {error!r}", "closed")
            return None
        if kind == "Event":
            self.promises.count(family, "accepted")
            self.promises.accept(reply.headers["x-amzn-requestid"], Accepted(node, function, groups, right, begun))
            return reply
        if reply.headers.get("x-amz-function-error"):
            self.refused(family, groups, begun, f"{function}: {reply.body[:240]!r}", reply.headers.get("x-lambent-error-type", "error"))
            return None
        answer = reply.json
        if not right(answer):
            self.promises.count(family, "wrong")
            self.promises.violation(f"{function}: a wrong answer to {json.dumps(event)[:200]}: {json.dumps(answer)[:300]}")
            return None
        self.promises.count(family, "right")
        return answer

    def refused(self, family, groups, begun, words, outcome):
        if self.promises.excused(groups, begun):
            self.promises.count(family, outcome + " (struck)")
        else:
            self.promises.count(family, outcome)
            self.promises.violation(f"{words}, and no fault concerned it; it took {time.monotonic() - begun:.1f} s")

    # The clients: each does one thing and thinks for a while.
    def think(self, dice, seconds):
        self.stopping.wait(dice.expovariate(1 / seconds))

    def calm_event(self, dice, mark):
        n = dice.randrange(1000)
        return {"n": n, "mark": mark}, lambda answer: answer == {"n": n * n + 7, "mark": mark}

    def calm(self, dice, mark):
        event, right = self.calm_event(dice, mark)
        if dice.random() < 0.2:
            right = lambda answer: answer == {"n": event["n"] % 100, "mark": mark}
            self.call("main", "parent", event, right, ())
        else:
            self.call("main", f"calm-{dice.randrange(2)}", event, right, ())
        self.think(dice, 0.15)

    def device_event(self, dice, mark):
        n = dice.randrange(1000)
        event = {"n": n, "mark": mark, "all": dice.random() < 0.1}
        return event, lambda answer: answer == {"n": 3.0 * n, "changed": 0, "mark": mark}

    def gpu(self, dice, mark):
        event, right = self.device_event(dice, mark)
        # Some are called more often than others, so that the rest of them is moved off the devices.
        index = min(dice.randrange(self.gpu_functions), dice.randrange(self.gpu_functions))
        self.call("main", f"gpu-{index}", event, right, ("gpu",))
        self.think(dice, 0.2)

    def shared(self, dice, mark):
        event, right = self.device_event(dice, mark)
        self.call("main", f"shared-{dice.randrange(2)}", event, right, ("gpu", "executor"))
        self.think(dice, 0.3)

    def kernel(self, dice, mark):
        n, index = dice.randrange(1000), dice.randrange(2)
        self.call("main", f"kernel-{index}", tensor(n), lambda answer: answer["outputs"][0]["data"][0] == (2 + index) * n, ("gpu", "executor"))
        self.think(dice, 0.3)

    def objects(self, dice, mark):
        """An object goes through two kernels, and what comes out is read and removed."""
        begun, n = time.monotonic(), dice.randrange(1000)
        groups = ("node:main", "gpu", "executor", "disk")
        try:
            with Client(self.world.nodes["main"].endpoint) as client:
                import array
                reference = client.put(array.array("f", [n, 1, 2, 3]), "FP32", (4,))
                made = None
                for index in range(2):
                    request = {"inputs": [{"name": "x", "parameters": {"object": made or reference.id}}],
                               "outputs": [{"name": "y", "parameters": {"object": True}}]}
                    answer = self.call("main", f"kernel-{index}", request, lambda answer: "object" in answer["outputs"][0]["parameters"], groups)
                    if answer is None:
                        return
                    made = answer["outputs"][0]["parameters"]["object"]
                value = array.array("f", bytes(client.get(made)))[0]
                if value != 6 * n:
                    self.promises.count("objects", "wrong")
                    self.promises.violation(f"object {made} holds {value} and not {6 * n}")
                    return
                self.world.nodes["main"].request("DELETE", f"/v1/objects/{made}")
                reference.remove()
                self.promises.count("objects", "right")
        except (OSError, http.client.HTTPException, HttpError, LambentError, EOFError) as error:
            self.refused("objects", frozenset(groups), begun, f"objects: {error!r}", type(error).__name__)
        finally:
            self.think(dice, 0.5)

    def flow_event(self, dice, mark):
        n, kernel = dice.randrange(1000), dice.random() < 0.4
        right = lambda answer: (answer["n"] == [n + i + 1 for i in range(4)] and answer["mark"] == mark and
                                (not kernel or answer["tensor"]["y"]["data"] == [2 * (n + i + 1) for i in range(4)]))
        groups = {"function:step", "function:lists"} | ({"gpu", "executor", "function:kernel-0"} if kernel else set())
        return {"n": n, "kernel": kernel, "mark": mark}, right, groups

    def flow(self, dice, mark):
        event, right, groups = self.flow_event(dice, mark)
        self.call("main", "flow", event, right, groups)
        self.think(dice, 0.4)

    def pipeline(self, dice, mark):
        n, event_only = dice.randrange(1000), dice.random() < 0.3
        self.call("sliced", "pipeline", {"n": n, "mark": mark}, lambda answer: answer["n"] == 30 * n and answer["mark"] == mark, ("gpu:sliced",),
                  "Event" if event_only else None)
        self.think(dice, 0.6)

    def events(self, dice, mark):
        """Asynchronous invocations: what is acknowledged is entered, and outcomes() looks for it."""
        what = dice.random()
        if what < 0.5:
            event, right = self.calm_event(dice, mark)
            self.call("main", f"calm-{dice.randrange(2)}", {**event, "seconds": dice.choice((0, 0, 0.1))}, right, ("disk",), "Event")
        elif what < 0.75:
            event, right = self.device_event(dice, mark)
            self.call("main", f"gpu-{dice.randrange(self.gpu_functions)}", event, right, ("gpu", "disk"), "Event")
        elif what < 0.85:
            n, index = dice.randrange(1000), dice.randrange(2)
            self.call("main", f"kernel-{index}", tensor(n), lambda answer: answer["outputs"][0]["data"][0] == (2 + index) * n,
                      ("gpu", "executor", "disk"), "Event")
        else:
            event, right, groups = self.flow_event(dice, mark)
            self.call("main", "flow", event, right, groups | {"disk"}, "Event")
        self.think(dice, 0.25)

    # What was deployed.
    def deploys(self, dice, mark):
        name = f"version-{dice.randrange(8)}"
        worker, begun = self.world.nodes["main"], time.monotonic()
        with self.versions_lock:
            may_be = self.versions.get(name, {None})
        what, version = dice.random(), dice.randrange(1_000_000)
        code = base64.b64encode(make_zip({"app.py": VERSION % version})).decode()
        groups = frozenset(("node:main", "disk"))
        try:
            if may_be == {None}:
                target = version
                worker.create_python(name, VERSION % version, memory=64)
            elif what < 0.5:
                target = version
                worker.request("PUT", f"/2015-03-31/functions/{name}/code", json.dumps({"ZipFile": code}))
            elif what < 0.6:
                target = None
                worker.delete(name)
            else:
                self.look_at_version(name, may_be, begun)
                self.think(dice, 0.4)
                return
            after = {target}
            self.promises.count("deploys", "acknowledged")
        except HttpError as error:
            # Told that it was not done; after a fault it may have been done before (404 and 409 say which).
            after = may_be if error.status not in (404, 409) else ({None} if error.status == 404 else may_be - {None})
            if len(may_be) == 1 or error.status not in (404, 409):
                self.refused("deploys", groups, begun, f"{name}: HTTP {error.status} {error.body[:300]!r}", f"HTTP {error.status}")
            if not after:
                self.promises.violation(f"{name} exists, and its removal was acknowledged")
                after = {None}
        except (OSError, http.client.HTTPException) as error:
            after = may_be | {target}
            self.refused("deploys", groups, begun, f"{name}: {error!r}", "closed")
        with self.versions_lock:
            self.versions[name] = after
        self.think(dice, 0.4)

    def look_at_version(self, name, may_be, begun):
        """Calls it and compares; what is seen is what it has from now on."""
        try:
            reply = self.world.nodes["main"].invoke(name, {}, timeout=ANSWER_SECONDS)
            if reply.headers.get("x-amz-function-error"):
                self.refused("deploys", frozenset(("node:main",)), begun, f"{name}: {reply.body[:300]!r}", "error")
                return
            seen = reply.json["version"]
        except HttpError as error:
            if error.status != 404:
                self.refused("deploys", frozenset(("node:main", "disk")), begun, f"{name}: HTTP {error.status} {error.body[:300]!r}", f"HTTP {error.status}")
                return
            seen = None
        except (OSError, http.client.HTTPException) as error:
            self.refused("deploys", frozenset(("node:main",)), begun, f"{name}: {error!r}", "closed")
            return
        if seen not in may_be:
            self.promises.violation(f"{name} has version {seen}, acknowledged was {sorted(map(str, may_be))}")
        self.promises.count("deploys", "seen")
        with self.versions_lock:
            self.versions[name] = {seen}

    # What became of the asynchronous ones.
    def outcomes(self, dice, mark):
        for node in self.world.nodes:
            for invocation, promise in self.promises.pending(node)[:40]:
                self.look_at_outcome(invocation, promise)
            done = self.promises.finished(node)
            for invocation, promise in dice.sample(done, min(3, len(done))):
                self.look_at_outcome(invocation, promise)
        self.stopping.wait(1)

    def look_at_outcome(self, invocation, promise, ask=None):
        """One look. ask: as Worker.request; a kept connection for many looks in a row."""
        begun = time.monotonic()
        try:
            reply = (ask or self.world.nodes[promise.node].request)("GET", f"/v1/invocations/{invocation}")
            status, headers, body = reply.status, reply.headers, reply.body
        except HttpError as error:
            status, headers, body = error.status, error.headers, error.body
        except (OSError, http.client.HTTPException) as error:
            self.refused("outcomes", frozenset(("node:" + promise.node,)), begun, f"outcome of {invocation}: {error!r}", "closed")
            return
        outcome = headers.get("x-lambent-outcome")
        if not outcome:
            if status == 202 and promise.outcome is None and time.monotonic() - promise.at > OUTCOME_SECONDS:
                self.promises.violation(f"{promise.function} {invocation}: no outcome after {OUTCOME_SECONDS} s: {body[:300]!r}")
                promise.outcome = ("given up", b"")
            elif status == 202 and promise.outcome is None:
                pass
            elif status == 404 or promise.outcome is not None:
                self.promises.violation(f"{promise.function} {invocation}: acknowledged, and now HTTP {status} {body[:300]!r}; before {promise.outcome}")
                promise.outcome = ("lost", b"")
            else:
                self.refused("outcomes", frozenset(("node:" + promise.node, "disk")), begun, f"outcome of {invocation}: HTTP {status} {body[:300]!r}",
                             f"HTTP {status}")
            return
        seen = (outcome, body)
        if promise.outcome is not None:
            if promise.outcome != seen and promise.outcome[0] not in ("lost", "given up"):
                self.promises.violation(f"{promise.function} {invocation}: its outcome was {promise.outcome} and is {seen}")
            return
        promise.outcome = seen
        if outcome == "succeeded":
            answer = json.loads(body)
            self.promises.count("async", "right" if promise.right(answer) else "wrong")
            if not promise.right(answer):
                self.promises.violation(f"{promise.function} {invocation}: a wrong outcome: {body[:300]!r}")
        else:
            self.refused("async", promise.groups, promise.at, f"{promise.function} {invocation}: {outcome} {body[:500]!r}",
                         headers.get("x-lambent-error-type", outcome))
