"""Lambent on the nodes of a Ray cluster: one worker for each, joined to one cluster. Needs ray (pip install lambent[ray]).

    import ray, lambent.ray
    ray.init(address="auto")
    lambent.ray.start(key="/etc/lambent/cluster.key")
    square = lambent.ray.function("square")
    ray.get(square.remote(ray.put({"x": 3})))
    scale = lambent.ray.function("scale")          # a kernel function
    y = scale.remote(x=ray.put(array), outputs="y")  # an ObjectRef of an array

Ray says which nodes there are, reserves their GPUs, and hands references on. Requests never pass through it, and the workers do
not end with it.
"""
import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import threading
import time
import zlib
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple, Union

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from .client import Client, ObjectRef
from .errors import LambentError, error_of
from .http_objects import connect
from .ray_scaling import DOWN_AFTER, Scaling
from .tensor import Tensor, tensor_of
from .thread_clients import ThreadClients

NAMESPACE = "lambent"
LEASE = 5.0  # seconds for which a worker takes our word for who the others are
_PERIOD = 1.0
_TO_SAY_WHY = 10.0  # seconds that start() waits longer than its agents
_CALLS = 64  # of an agent at once
_RETRY = 0.2  # seconds between two tries to reach an actor
_AGAIN = 30.0  # seconds until an agent that did not start is tried again
_FORGOTTEN = 60.0  # seconds without a word of a worker whose node of Ray is gone
_PORT = 8980  # of a machine's first worker
_TO_KEEP = 3.0  # seconds that nodes which were to be released may take to get work again, less than a lease
_DRAIN = 600.0  # seconds that what runs on a node that is released may take
_MEMBERS = "lambent-members"
_SCHEME = "lambent://"
_OBJECT = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}[.][0-9]{1,10}", re.IGNORECASE)


def _agent_name(node_id: str) -> str:
    return "lambent-agent-" + node_id


def _request(endpoint: str, method: str, path: str, body: Optional[str] = None, timeout: float = 5.0) -> Any:
    """The JSON of an answer; LambentError otherwise."""
    connection = connect(endpoint)
    connection.timeout = timeout
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    if answer.status >= 300:
        raise error_of("UNKNOWN", "%s %s: HTTP %d %s" % (method, path, answer.status, content[:300].decode("utf-8", "replace")))
    return json.loads(content)


def _ask_autoscaler(bundles: List[Dict[str, float]]) -> None:
    """In place of what was asked of it before; it keeps that until it is asked for something else, whatever became of who asked."""
    from ray.autoscaler.sdk import request_resources
    request_resources(bundles=bundles)


def _tail_of(path: str, most: int = 2000) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - most))
            return file.read().decode("utf-8", "replace")
    except OSError as error:
        return str(error)


class Handle:
    """A tensor that stays with the Lambent node that made it, "lambent://ID" as text. Functions take it without a copy through Ray;
    get() and remote() bring it, from whatever node has it. It lives for its time to live, an hour unless said, and is no
    reference that Ray counts: remove() ends it."""

    def __init__(self, name: str) -> None:
        name = str(name).removeprefix(_SCHEME)
        if not _OBJECT.fullmatch(name):
            raise error_of("INVALID_ARGUMENT", "%r names no object: lambent:// and its id are expected" % name)
        self.id = name

    def __repr__(self) -> str:
        return _SCHEME + self.id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handle) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def remote(self) -> Any:
        """A Ray ObjectRef of its array, or bytes."""
        return _agent_here().fetch.remote(self.id)

    def get(self, timeout: Optional[float] = None) -> Any:
        return _answer_of(self.remote, timeout)

    def remove(self) -> None:
        _answer_of(lambda: _agent_here().remove.remote(self.id))


class _Hole:
    """Where a reference stood in a payload; Ray brings its value beside it."""

    def __init__(self, number: int) -> None:
        self.number = number


def _map(value: Any, change: Callable[[Any], Any]) -> Any:
    """`value` with each leaf, and each dict that `change` knows, replaced."""
    changed = change(value)
    if changed is not value:
        return changed
    if isinstance(value, dict):
        return {key: _map(each, change) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_map(each, change) for each in value]
    return value


def _without_references(payload: Any) -> Tuple[Any, List[Any]]:
    """(payload, references): Ray waits for what stands at the top of a call only, so all references go there."""
    references: List[Any] = []

    def change(value: Any) -> Any:
        if not isinstance(value, ray.ObjectRef):
            return value
        references.append(value)
        return _Hole(len(references) - 1)
    return _map(payload, change), references


def _is_tensor(value: Any) -> bool:
    return isinstance(value, (bytes, bytearray, memoryview, Tensor)) or (
        hasattr(value, "__array_interface__") and bool(getattr(value, "shape", None)))


def _value_of(tensor: Tensor) -> Any:
    """What Ray's tasks get: an array over the same memory, or bytes."""
    return bytes(tensor) if tensor.datatype == "BYTES" else tensor.numpy()


class _Members:
    """What the agents know of their workers; and it gives nodes that come later an agent. Its loss is none: they tell it again."""

    def __init__(self, options: Dict[str, Any]) -> None:
        self._options = options
        self._known: Dict[str, Dict[str, Any]] = {}  # by the node of Ray
        self._left: Dict[str, Tuple[Dict[str, Any], float]] = {}  # by name: whose node of Ray is gone, and when it was last seen up
        self._home: Optional[Dict[str, Any]] = None
        self._tried: Dict[str, float] = {}
        self._starts: Dict[str, Any] = {}  # the first word of agents that were started here, by the node of Ray
        self._failed: Dict[str, str] = {}  # why those did not start that failed, by the node of Ray
        self._view: List[Dict[str, Any]] = []  # the members as a worker said last
        self._released: Set[str] = set()  # nodes of Ray whose agents were ended so that it may take them away
        self._scaling: Optional[Scaling] = None
        self._asked: Optional[int] = None  # of nodes, of the autoscaler
        self._lock = threading.Lock()  # of what is asked of the autoscaler
        self._errors: Dict[str, str] = {}  # the last ones, by what failed
        self.keep(options)
        self._self = ray.get_runtime_context().current_actor
        threading.Thread(target=self._watch, daemon=True).start()

    def keep(self, options: Dict[str, Any]) -> None:
        """For agents of nodes that come from now on. What comes last holds, also from a driver whose clock is behind that of the one before."""
        if options["stamp"] < self._options["stamp"]:
            options = {**options, "stamp": self._options["stamp"] + 1e-3}
        scale = options["scale"]
        with self._lock:
            ends = self._scaling is not None and not scale
            self._options = options
            self._scaling = Scaling(scale[0], scale[1], options["down_after"]) if scale else None
            try:
                if ends or (self._asked is not None and self._scaling is None):
                    self._take_back()
            finally:
                if not scale:
                    self._keep_released()

    def end_scaling(self) -> None:
        self.keep({**self._options, "scale": None, "stamp": self._options["stamp"] + 1e-3})

    def _keep_released(self) -> None:
        """Nothing is given back any more: nodes on their way out get work again."""
        self._errors.pop("release", None)
        words = {}
        for node_id in [*self._released]:
            self._released.discard(node_id)
            try:
                words[node_id] = self._keep_after_all(node_id)
            except Exception as error:
                self._not_kept(node_id, error)
        # One wait for all: an agent that begins in place of one that ended waits for us meanwhile, and so do the leases of all others.
        done = ray.wait([*words.values()], num_returns=len(words), timeout=_TO_KEEP)[0] if words else []
        for node_id, word in words.items():
            try:
                if word in done:
                    ray.get(word)
            except Exception as error:
                self._not_kept(node_id, error)

    def _not_kept(self, node_id: str, error: Exception) -> None:
        """Its agent says that it is drained, and is told again."""
        self._errors["release"] = "node %s, which was to be released: %s: %s" % (node_id, type(error).__name__, error)

    def options(self) -> Dict[str, Any]:
        """Those of start(), as it was called last."""
        return self._options

    def failed(self) -> Dict[str, str]:
        """Why agents did not start, by the node of Ray; they are tried again."""
        return dict(self._failed)

    def _take_back(self) -> None:
        """What was asked of the autoscaler, which would keep that many nodes for good."""
        _ask_autoscaler([])
        self._asked = None

    def tell(self, node_id: str, member: Dict[str, Any], view: List[Dict[str, Any]], options: Optional[Dict[str, Any]] = None,
             drained: bool = False) -> Dict[str, Any]:
        """One agent's worker, and the members as that sees them; all that there are, and the home among them. `options`: those that
        it was told last, of which this one knows nothing where it was started again; `drained`: whether it was told to let its worker
        finish. ALREADY_EXISTS: another worker has that name."""
        if options is not None and options["stamp"] > self._options["stamp"]:
            self.keep(options)
        if drained and node_id not in self._released:
            self._keep_after_all(node_id)
        alive = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
        now = time.monotonic()
        for each in [each for each in self._known if each not in alive]:
            known = self._known.pop(each)
            self._left[known["node"]] = (known, now)
        for each, known in self._known.items():
            if each != node_id and known["node"] == member["node"] and known["address"] != member["address"]:
                raise error_of("ALREADY_EXISTS", "two workers are called %r, those at %s and %s: start one with another --node-name" %
                               (member["node"], known["address"], member["address"]))
        self._known[node_id], self._view = member, view
        members = {known["node"]: known for known in self._known.values()}
        seen = {each["node"] for each in view if each["state"] in ("up", "draining")}
        # Workers go on without their node of Ray. Those that come later hear of them as long as others hear from them.
        self._left = {name: (known, now if name in seen else then) for name, (known, then) in self._left.items()
                      if name not in members and (name in seen or now - then < _FORGOTTEN)}
        members.update({name: known for name, (known, _) in self._left.items()})
        # It never moves by itself: two nodes that take changes of the catalog would be two catalogs.
        if self._home is None:
            self._home = next(({key: each[key] for key in ("node", "address", "gpus")} for each in view if each["home"]), member)
        self._home = members.setdefault(self._home["node"], self._home)
        return {"home": self._home["node"], "members": list(members.values()), "error": "; ".join(self._errors.values()),
                "options": self._options}

    def _watch(self) -> None:
        while True:
            time.sleep(_PERIOD)
            self._look()

    def _look(self) -> None:
        try:
            self._start_agents()
            with self._lock:
                if self._scaling:
                    self._scale(self._scaling)
                elif self._asked is not None:
                    self._take_back()
            self._errors.pop("look", None)
        except Exception as error:  # the next look may do better
            self._errors["look"] = "nodes of Ray: %s: %s" % (type(error).__name__, error)

    def _start_agents(self) -> None:
        now = time.monotonic()
        self._hear_of_starts()
        nodes, there = _nodes_for(self._options), set(_agent_names())
        alive = {node["NodeID"] for node in nodes}
        self._failed = {node_id: why for node_id, why in self._failed.items() if node_id in alive}
        for node in nodes:
            node_id = node["NodeID"]
            # One that was there may be gone: it was started again by Ray, and failed then.
            is_missing = _agent_name(node_id) not in there and node_id not in self._released
            if is_missing and now - self._tried.get(node_id, -_AGAIN) >= _AGAIN:
                self._tried[node_id] = now
                self._starts[node_id] = _start_agent(node, self._options, self._self).status.remote()

    def _hear_of_starts(self) -> None:
        """What became of the agents that were started: one that fails is gone, and only this word of it tells why."""
        for node_id, word in [*self._starts.items()]:
            if not ray.wait([word], timeout=0)[0]:
                continue
            del self._starts[node_id]
            try:
                ray.get(word)
                self._failed.pop(node_id, None)
            except ray.exceptions.RayError as error:
                self._failed[node_id] = str(error)

    def _scale(self, scaling: Scaling) -> None:
        """Asks Ray's autoscaler for nodes with GPUs, and gives one that is not needed back to it."""
        gpus = {node["NodeID"]: node["Resources"].get("GPU", 0) for node in ray.nodes() if node["Alive"]}
        self._released &= set(gpus)
        names = {self._known[node_id]["node"]: node_id for node_id, has in gpus.items()
                 if has and node_id in self._known and node_id not in self._released}
        nodes = [each for each in self._view if each["node"] in names]
        if len(nodes) < len(names):
            return  # one that came a moment ago
        wanted = scaling.wanted(nodes, time.monotonic())
        if wanted > len(nodes) and self._released:
            self._keep_after_all(self._released.pop())
            return
        if wanted < len(nodes):
            spare = scaling.spare(nodes)
            if spare is None:
                return
            self._released.add(names[spare])
            threading.Thread(target=self._release, args=(names[spare],), daemon=True).start()
        if wanted != self._asked:
            # Of the largest that there are, so that each takes a node of its own.
            _ask_autoscaler([{"GPU": max([1, *gpus.values()])}] * wanted)
            self._asked = wanted

    def _release(self, node_id: str) -> None:
        """Its worker finishes what it has and gets no more; then its agent ends, and Ray finds the node idle. Where that fails it
        is counted again, and gets work."""
        try:
            agent = ray.get_actor(_agent_name(node_id), namespace=NAMESPACE)
            ray.get(agent.drain.remote(True))
            if node_id in self._released:
                ray.kill(agent)
            self._errors.pop("release", None)
        except Exception as error:
            self._errors["release"] = "release of node %s: %s: %s" % (node_id, type(error).__name__, error)
            self._released.discard(node_id)
            try:
                _repeated(lambda: self._keep_after_all(node_id), self._options["timeout"])
            except Exception:  # such as where the node is gone
                pass

    def _keep_after_all(self, node_id: str) -> Any:
        """One that is on its way out is as good as a new one. Returns what can be waited for."""
        try:
            return ray.get_actor(_agent_name(node_id), namespace=NAMESPACE).drain.remote(False)
        except ValueError:
            node = next(each for each in ray.nodes() if each["NodeID"] == node_id)
            return _start_agent(node, self._options, self._self).status.remote()


def _nodes_for(options: Dict[str, Any]) -> List[Dict[str, Any]]:
    """The nodes of Ray that are to have an agent."""
    return [node for node in ray.nodes() if node["Alive"] and (node["Resources"].get("GPU", 0) or not options["gpus_only"])]


def _start_agent(node: Dict[str, Any], options: Dict[str, Any], members: Any) -> Any:
    """That of a node of Ray, which is there already or begins."""
    gpus = node["Resources"].get("GPU", 0) if options["reserve_gpus"] else 0
    return ray.remote(_Agent).options(
        name=_agent_name(node["NodeID"]), namespace=NAMESPACE, lifetime="detached", get_if_exists=True, num_cpus=0, num_gpus=gpus,
        max_restarts=-1, max_task_retries=0, max_concurrency=_CALLS,
        scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote(node["NodeID"], options, members)


def _machines() -> Set[str]:
    return {node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}


def _name_of(host: str) -> str:
    """Of a machine, for its worker and its folders: 40 characters at most, as paths of sockets are short. What is left out of the
    host's name goes into a digest, so that two hosts do not have one name."""
    name = re.sub("[^A-Za-z0-9_.-]", "-", host.split(".")[0]) or "node"
    if name == host and len(name) <= 40:
        return name
    return "%s-%s" % (name[:31], hashlib.sha256(host.encode()).hexdigest()[:8])


class _Place:
    """Of a machine's nodes of Ray each has one, and with it a worker: the first is the machine's name. A node that comes in place of
    one that is gone, such as after a restart of Ray, gets its place, and finds its worker."""

    def __init__(self, folder: str, node_id: str, timeout: float) -> None:
        nodes = {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}
        self.ip = nodes[node_id]["NodeManagerAddress"]
        host = nodes[node_id]["NodeManagerHostname"]
        base = _name_of(host)
        os.makedirs(folder, exist_ok=True)
        deadline = time.monotonic() + timeout
        while True:
            count = sum(1 for node in ray.nodes() if node["Alive"] and node["NodeManagerHostname"] == host)
            for number in range(max(1, count)):
                self.number, self.name = number, base if number == 0 else "%s-%d" % (base, number + 1)
                # Held by this process, so that it is free when that ends in whatever way.
                self._file = open("%s/%s.lock" % (folder, self.name), "a")
                try:
                    fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    self._released = "%s/%s.released" % (folder, self.name)
                    return
                except BlockingIOError:
                    self._file.close()
            if time.monotonic() > deadline:
                raise error_of("DEADLINE_EXCEEDED", "other agents of this machine hold all places in " + folder)
            time.sleep(0.2)

    def release(self) -> None:
        """Its worker is about to be drained so that Ray may take the node away. Any later agent gives it work again, which may know
        nothing else of that: on the machine's next node of Ray, or where what knew the members was started again."""
        open(self._released, "w").close()

    def keep(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.remove(self._released)

    def is_released(self) -> bool:
        return os.path.exists(self._released)

    def fields(self) -> Dict[str, str]:
        return {"node": self.name, "ip": self.ip, "port": str(_PORT + self.number)}


class _Agent:
    """Of one node: it finds or starts the node's worker, tells it who the others are, and hands it calls of Ray tasks."""

    def __init__(self, node_id: str, options: Dict[str, Any], members: Any) -> None:
        self._options, self._node_id, self._members = options, node_id, members
        self._stop, self._error = threading.Event(), ""
        self._members_error = ""  # of what starts agents and asks the autoscaler, as it said last
        self._kinds: Dict[str, str] = {}  # of functions, by name
        self._kept: Optional[Dict[str, Any]] = None  # options, as the members' actor told them last
        self._drained = False  # its worker finishes what it has, because the node is to be released
        deadline = time.monotonic() + options["timeout"]
        self._place = _Place(options["state"] + "/places", node_id, options["timeout"])
        fields = self._place.fields()
        self._endpoint = "unix:" + options["socket"].format(**fields)
        self._clients = ThreadClients(lambda: Client(self._endpoint))
        self._ensure_worker(fields)
        self._check_reach()
        if self._place.is_released():
            self.drain(False)
        while True:
            try:
                self._tell(options["timeout"])  # what knows the members may yet be started
                break
            except ray.exceptions.ActorUnavailableError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY)
        threading.Thread(target=self._beat, daemon=True).start()

    def keep(self, options: Dict[str, Any]) -> None:
        """What start() said last, for the members' actor, should it be started again."""
        self._kept = options

    def drain(self, drained: bool) -> None:
        """The worker gets no more work, and is waited for until it has none; or it gets some again."""
        own = _request(self._endpoint, "GET", "/v1/cluster")["self"]
        self._drained = drained
        if drained:
            self._place.release()
        _request(self._endpoint, "POST", "/v1/cluster/nodes/%s/%s" % (own, "drain" if drained else "undrain"))
        if not drained:
            self._place.keep()
        deadline, idle = time.monotonic() + _DRAIN, 0
        # What others say of it is a second old, and they send it something for as long.
        while self._drained and idle * _RETRY < 3 * _PERIOD and time.monotonic() < deadline:
            status = _request(self._endpoint, "GET", "/v1/cluster")
            load = next(each["load"] for each in status["members"] if each["self"])
            idle = 0 if load else idle + 1
            time.sleep(_RETRY)

    def _check_reach(self) -> None:
        """FAILED_PRECONDITION where others could not reach the worker."""
        address = self._member(_request(self._endpoint, "GET", "/v1/cluster"))["address"]
        if len(_machines()) > 1 and re.match("https?://(127[.]|localhost|\\[::1\\])", address):
            raise error_of("FAILED_PRECONDITION", "the worker listens at %s, where other machines do not reach it: start it with "
                           "--listen, tokens and TLS (`tls` of start() does), or give its `address`" % address)

    def _answers(self) -> Optional[Dict[str, Any]]:
        try:
            status: Dict[str, Any] = _request(self._endpoint, "GET", "/v1/cluster")
            return status
        except (OSError, LambentError, ValueError) as error:
            self._error = str(error)
            return None

    def _ensure_worker(self, fields: Dict[str, str]) -> None:
        if self._answers():
            return
        command = self._options["serve"]
        if not command:
            raise error_of("FAILED_PRECONDITION", "no worker of a cluster answers at %s (%s), and none is to be started: start it "
                           "with --cluster-key, or give `serve`" % (self._endpoint, self._error))
        words = [word.format(**fields) for word in command]
        if "--socket" not in words:
            words += ["--socket", self._endpoint[5:]]
        log = self._options["log"].format(**fields)
        os.makedirs(os.path.dirname(os.path.abspath(log)), exist_ok=True)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        # A session of its own, and no child of ours: Ray ends the children of its workers.
        with open(log, "ab") as output:
            subprocess.run(["setsid", "--fork", *words], stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=True,
                           env=environment)
        deadline = time.monotonic() + self._options["timeout"]
        while not self._answers():
            if time.monotonic() > deadline:
                raise error_of("DEADLINE_EXCEEDED", "the worker did not start (%s); the end of its log %s:\n%s" %
                               (self._error, log, _tail_of(log)))
            time.sleep(0.1)

    def _member(self, status: Dict[str, Any]) -> Dict[str, Any]:
        address = self._options["address"].get(self._node_id) or self._own_address()
        own = next(each for each in status["members"] if each["self"])
        return {"node": status["self"], "address": address,
                "gpus": [{"name": gpu["name"], "memory_bytes": gpu["memory_bytes"]} for gpu in own["gpus"]]}

    def _own_address(self) -> str:
        """Where the worker listens, as it wrote beside its socket."""
        path = os.path.join(os.path.dirname(self._endpoint[5:]), "endpoint")
        with open(path) as file:
            address = file.read().strip()
        if not address.startswith("http"):
            raise error_of("FAILED_PRECONDITION", "the worker listens on no TCP address: start it with --listen")
        for every in ("//0.0.0.0:", "//[::]:"):
            address = address.replace(every, "//%s:" % ray.util.get_node_ip_address())
        return address

    def _tell(self, timeout: float = LEASE) -> None:
        status = _request(self._endpoint, "GET", "/v1/cluster")
        told = ray.get(self._members.tell.remote(self._node_id, self._member(status), status["members"], self._kept, self._drained),
                       timeout=timeout)
        self._members_error, self._kept = told["error"], told["options"]
        _request(self._endpoint, "PUT", "/v1/cluster/members",
                 json.dumps({"source": "ray", "home": told["home"], "lease_seconds": LEASE, "members": told["members"]}))

    def _beat(self) -> None:
        while not self._stop.wait(_PERIOD):
            try:
                self._tell()
                self._error = ""
            except Exception as error:  # whatever it is, the worker goes on and the next beat may do better
                self._error = str(error)

    def status(self) -> Any:
        return {"node_id": self._node_id, "endpoint": self._endpoint, "error": self._error, "members_error": self._members_error,
                "gpus": ray.get_gpu_ids(), "pid": os.getpid(), "cluster": self._answers()}

    def _client(self) -> Client:
        """This thread's, over the worker's object socket where that can be reached: then a put copies once and a get not at all."""
        client: Client = self._clients.get()
        return client

    def _with_worker(self, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(self._client(), *arguments)
        except OSError as error:
            self._clients.close()
            raise error_of("UNAVAILABLE", "the worker at %s was lost: %s" % (self._endpoint, error)) from None

    def invoke(self, function: str, payload: Any, handles: bool, *values: Any) -> Any:
        """Ray has put values in place of references: where the payload has a _Hole."""
        return self._with_worker(self._invoke, function, payload, handles, values)

    def run_kernels(self, function: str, outputs: Sequence[str], handles: bool, names: Sequence[str], *values: Any) -> Any:
        """A kernel function: one result for each of `outputs`. Each input is copied once, from Ray's memory to the worker's."""
        return self._with_worker(self._run_kernels, function, outputs, handles, names, values)

    def fetch(self, name: str) -> Any:
        return self._with_worker(lambda client: _value_of(client.get(name)))

    def remove(self, name: str) -> None:
        self._with_worker(lambda client: client.remove(name))

    def _invoke(self, client: Client, function: str, payload: Any, handles: bool, values: Any) -> Any:
        payload = _map(payload, lambda value: values[value.number] if isinstance(value, _Hole) else value)
        own: List[ObjectRef] = []
        needs: List[str] = []

        def change(value: Any) -> Any:
            if _is_tensor(value):
                value = client.put(tensor_of(value))
                own.append(value)
            elif not isinstance(value, Handle):
                return value
            needs.append(value.id)
            return {"object": value.id}
        try:
            if isinstance(payload, (bytes, bytearray, memoryview)):
                body = bytes(payload)
            else:
                body = json.dumps(_map(payload, change)).encode()
            answer = client.invoke(function, body, needs)
            try:
                answer = json.loads(answer)
            except ValueError:
                return answer
            return self._opened(client, function, answer, handles, set(needs))
        finally:
            client.release(own)

    def _opened(self, client: Client, function: str, answer: Any, handles: bool, given: Set[str]) -> Any:
        """The answer of a workflow has arrays, or handles, where it names objects. Those that it made are removed with that, also where
        some cannot be got; those that it was given are their owner's."""
        named: Dict[str, Any] = {}  # values of objects, by name

        def find(value: Any) -> Any:
            if isinstance(value, dict) and _OBJECT.fullmatch(str(value.get("object", ""))):
                named[value["object"]] = None
            return value

        _map(answer, find)
        if not named or not self._is_workflow(client, function):
            return answer
        try:
            for name in named:
                named[name] = Handle(name) if handles else _value_of(client.get(name))
        finally:
            if not handles:
                client.release(ObjectRef(client, name) for name in named if name not in given)
        return _map(answer, lambda value: named.get(str(value.get("object", "")), value) if isinstance(value, dict) else value)

    def _is_workflow(self, client: Client, function: str) -> bool:
        if function not in self._kinds:
            self._kinds[function] = client.kind_of(function)
        return self._kinds[function] == "workflow"

    def _run_kernels(self, client: Client, function: str, outputs: Sequence[str], handles: bool, names: Sequence[str], values: Any) -> Any:
        own: List[ObjectRef] = []
        try:
            inputs: List[Dict[str, Any]] = []
            for name, value in zip(names, values):
                if not isinstance(value, Handle):
                    value = client.put(tensor_of(value))
                    own.append(value)
                inputs.append({"name": name, "parameters": {"object": value.id}})
            request = {"inputs": inputs, "outputs": [{"name": name, "parameters": {"object": True}} for name in outputs]}
            answer = json.loads(client.invoke(function, json.dumps(request), [each["parameters"]["object"] for each in inputs]))
            of_name = {each["name"]: each["parameters"]["object"] for each in answer["outputs"]}
            made = [of_name[name] for name in outputs]
            if handles:
                results = [Handle(each) for each in made]
            else:
                own += [ObjectRef(client, each) for each in made]
                results = [_value_of(client.get(each)) for each in made]
        finally:
            client.release(own)
        return results[0] if len(results) == 1 else results


def _no_word_of(node_id: str, why: str) -> Dict[str, Any]:
    """Of an agent that says nothing itself."""
    return {"node_id": node_id, "endpoint": None, "error": why, "members_error": "", "gpus": [], "pid": None, "cluster": None}


class Cluster:
    """The agents of start(), and of nodes that came since: handles by node id."""

    def __init__(self, agents: Dict[str, Any], members: Any, scales: bool = False) -> None:
        self.agents, self._members, self._scales = agents, members, scales

    def _look(self) -> None:
        alive = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
        self.agents = {node_id: agent for node_id, agent in self.agents.items() if node_id in alive}
        for node_id in alive:
            try:
                self.agents[node_id] = ray.get_actor(_agent_name(node_id), namespace=NAMESPACE)
            except ValueError:
                self.agents.pop(node_id, None)  # it did not start, or not yet

    def status(self) -> Any:
        """What each agent says, of the nodes that Ray has now; of one that cannot be reached or did not start, why. Its "members_error"
        is why the last look for new nodes, or what was asked of Ray's autoscaler, failed."""
        self._look()
        asked = {node_id: agent.status.remote() for node_id, agent in self.agents.items()}
        said = []
        for node_id, call in asked.items():
            try:
                said.append(ray.get(call, timeout=_TO_SAY_WHY))
            except ray.exceptions.RayError as error:
                said.append(_no_word_of(node_id, str(error)))
        return said + [_no_word_of(node_id, why) for node_id, why in self._failed().items() if node_id not in asked]

    def _failed(self) -> Dict[str, str]:
        """Why agents did not start; nothing where the actor that knows is itself not there."""
        try:
            failed: Dict[str, str] = ray.get(self._members.failed.remote(), timeout=_TO_SAY_WHY)
            return failed
        except ray.exceptions.RayError:
            return {}

    def wait_until_up(self, timeout: float = 30.0, nodes: int = 1) -> "Cluster":
        """Until every worker has heard from every other, and there are at least so many."""
        deadline = time.monotonic() + timeout
        while True:
            said = [each for each in self.status() if each["node_id"] in self.agents]
            states = [[member["state"] for member in (each["cluster"] or {"members": []})["members"]] for each in said]
            if len(states) >= nodes and all(len(each) >= len(states) and set(each) == {"up"} for each in states):
                return self
            if time.monotonic() > deadline:
                raise error_of("DEADLINE_EXCEEDED", "the nodes did not hear from each other: %s" % self.status())
            time.sleep(0.2)

    def stop(self) -> None:
        """Ends the agents, which gives Ray its GPUs back, and takes back what Ray's autoscaler was asked for. The workers go on."""
        takes_back = False
        try:
            _repeated(self._members.end_scaling.remote, _TO_SAY_WHY)
        except ray.exceptions.RayError:
            takes_back = self._scales
        ray.kill(self._members)  # which would start some again
        if takes_back:
            _ask_autoscaler([])
        self._look()
        for agent in self.agents.values():
            ray.kill(agent)
        _agents.clear()


def _usual_command(key: str, state: str, listen: Optional[str], tls: Optional[str], scales: bool = False) -> List[str]:
    program = shutil.which("lambent")
    if program is None:
        raise error_of("NOT_FOUND", "there is no command `lambent`: install it, or give `serve`")
    machines = _machines()
    if len(machines) > 1 and tls is None:
        raise error_of("FAILED_PRECONDITION", "Ray has nodes on %d machines (%s), where workers reach each other by TLS: give `tls`, a "
                       "folder that each machine has with tls.crt, tls.key and ca.crt, or `serve`" %
                       (len(machines), ", ".join(sorted(machines))))
    if scales and tls is None:
        raise error_of("FAILED_PRECONDITION", "with `scale` Ray's autoscaler brings nodes on other machines, where workers reach each "
                       "other by TLS: give `tls`, a folder that each machine has with tls.crt, tls.key and ca.crt, or `serve`")
    words = [program, "serve", "--cluster-key", key, "--node-name", "ray-{node}", "--state", state + "/{node}",
             "--run", state + "/{node}/run", "--listen", listen or ("{ip}:{port}" if tls else "127.0.0.1:{port}")]
    if tls:
        words += ["--auth", "tokens", "--tls-certificate", tls + "/tls.crt", "--tls-key", tls + "/tls.key",
                  "--tls-client-ca", tls + "/ca.crt", "--peer-ca", tls + "/ca.crt"]
    return words


def start(key: str = "/etc/lambent/cluster.key", *, state: str = "/var/lib/lambent/ray", socket: Optional[str] = None,
          serve: Optional[Sequence[str]] = None, address: Optional[Dict[str, str]] = None, listen: Optional[str] = None,
          tls: Optional[str] = None, gpus_only: bool = False, scale: Optional[Tuple[int, int]] = None, down_after: float = DOWN_AFTER,
          reserve_gpus: bool = True, timeout: float = 60.0) -> Cluster:
    """Starts an agent on each node of the Ray cluster, which finds that node's worker at `socket` (a path) or starts it by
    `serve` (words). In both "{node}" stands for the machine's name, with "-2" and so on for further nodes of Ray on one machine;
    "{ip}" for the node's address and "{port}" for 8980 and what follows. `address`: URLs of workers by node id, where they do not
    tell themselves what others reach them by. Without `serve`, `listen` is where workers listen, and `tls` a folder with tls.crt,
    tls.key and ca.crt on each machine, without which they stay on loopback; FAILED_PRECONDITION if Ray has several machines,
    or comes to have them by `scale`.

    Agents are detached: they outlive this driver. Nodes that come later get one too; what runs stays. With `gpus_only` only
    nodes of Ray with GPUs get one, and tasks on others ask one of theirs. With `scale`, the least (1 or more) and the most number of
    nodes with GPUs, Ray's autoscaler is asked for as many as the load needs, and one that is not needed for `down_after` seconds is drained
    and given back. A node's GPUs are reserved from Ray, so that its tasks do not collide with ours; RuntimeError some seconds after `timeout` if tasks of Ray have them."""
    if not ray.is_initialized():
        ray.init(address="auto", namespace=NAMESPACE)
    if scale:
        Scaling(*scale)  # what is wrong with it is said here
    options = {"socket": socket or state + "/{node}/run/lambent.sock", "log": state + "/{node}/worker.log", "state": state,
               "serve": serve if serve is not None else _usual_command(key, state, listen, tls, bool(scale)), "address": dict(address or {}),
               "gpus_only": gpus_only, "scale": scale, "down_after": down_after, "reserve_gpus": reserve_gpus, "timeout": timeout,
               "stamp": time.time()}
    members = ray.remote(_Members).options(name=_MEMBERS, namespace=NAMESPACE, lifetime="detached", get_if_exists=True, num_cpus=0,
                                           max_restarts=-1).remote(options)
    members.keep.remote(options)
    agents = {node["NodeID"]: _start_agent(node, options, members) for node in _nodes_for(options)}
    for node_id, agent in agents.items():
        try:
            # An agent whose worker does not start in time says why, for which it has to be heard.
            _repeated(lambda agent=agent: agent.keep.remote(options), timeout + _TO_SAY_WHY)  # type: ignore[misc]
        except ray.exceptions.GetTimeoutError:
            raise RuntimeError("the agent of node %s did not start in %g s: other tasks of Ray have its GPUs, or its worker does "
                               "not start" % (node_id, timeout)) from None
    return Cluster(agents, members, bool(scale))


class Function:
    """A function of the Lambent cluster, for Ray's tasks."""

    def __init__(self, name: str) -> None:
        self.name = name

    def remote(self, payload: Any = None, *, outputs: Union[str, Sequence[str]] = (), handles: bool = False, **inputs: Any) -> Any:
        """A Ray ObjectRef of its answer: JSON as a value, else bytes. `payload` is JSON, bytes or an ObjectRef of either; references,
        arrays (numpy) and Handles may stand anywhere in it. Arrays become objects of Lambent ({"object": id}) for the time of the
        call, and objects in the answer of a workflow become arrays.

        A kernel function gets its `inputs` by keyword, each an array, an ObjectRef of one, or a Handle; `outputs` names the buffers
        that come back: an ObjectRef for one, a list for more. With `handles` tensors stay where they were made, and Handles come back.

        References are waited for by Ray, not here. What fails raises ray.exceptions.RayTaskError, which is a LambentError too; when
        the node is lost meanwhile, RayActorError. It runs at most once."""
        if inputs or outputs:
            if payload is not None or not outputs:
                raise TypeError("one payload; or, for a kernel function, inputs by keyword and the names of its outputs")
            names = (outputs,) if isinstance(outputs, str) else tuple(outputs)
            made = _agent_here().run_kernels.options(num_returns=len(names)).remote(self.name, names, handles, list(inputs),
                                                                                    *inputs.values())
            return made
        payload, references = _without_references(payload)
        return _agent_here().invoke.remote(self.name, payload, handles, *references)


_agents: Dict[Tuple[str, str], Tuple[Any, float]] = {}  # of nodes, and since when they are known


def _agent_names() -> List[str]:
    return sorted(each["name"] for each in ray.util.list_named_actors(all_namespaces=True)
                  if each["namespace"] == NAMESPACE and each["name"].startswith(_agent_name("")))


def _other_agent(node_id: str) -> Any:
    """Of the agents of other nodes always the same, as long as they stay. ValueError: there is none."""
    names = _agent_names()
    if not names:
        raise ValueError(node_id)
    return ray.get_actor(names[zlib.crc32(node_id.encode()) % len(names)], namespace=NAMESPACE)


def _agent_here() -> Any:
    """This node's, or where that has none another's. Other drivers may have stopped and started it, so that it is known for a
    while only."""
    node_id = ray.get_runtime_context().get_node_id()
    key = (ray.get_runtime_context().gcs_address, node_id)
    agent, since = _agents.get(key, (None, 0.0))
    if agent is None or time.monotonic() - since > _PERIOD:
        try:
            try:
                agent = ray.get_actor(_agent_name(node_id), namespace=NAMESPACE)
            except ValueError:
                agent = _other_agent(node_id)
        except ValueError:
            _agents.pop(key, None)
            raise error_of("FAILED_PRECONDITION", "there is no agent of Lambent in this Ray cluster: lambent.ray.start()") from None
        _agents[key] = (agent, time.monotonic())
    return agent


def _repeated(call: Callable[[], Any], timeout: Optional[float] = None) -> Any:
    """The value of what `call` asks an agent for, which may be asked twice: one that cannot be reached for a moment is asked again."""
    deadline = time.monotonic() + (_TO_SAY_WHY if timeout is None else timeout)
    while True:
        try:
            return ray.get(call(), timeout=timeout)
        except ray.exceptions.ActorUnavailableError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_RETRY)


def _answer_of(call: Callable[[], Any], timeout: Optional[float] = None) -> Any:
    """As _repeated(); an agent that died is not asked again."""
    try:
        return _repeated(call, timeout)
    except ray.exceptions.RayActorError:
        _agents.clear()
        raise


def function(name: str) -> Function:
    """A Function that has been deployed, by `lambent deploy` at any node."""
    return Function(name)
